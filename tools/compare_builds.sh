#!/usr/bin/env bash
# Builds the libraries of the last commit twice, in folders of other names, and compares the files
# byte for byte: they differ if a path, a time or a random number of a build gets into them. The
# libraries are stripped, as in a wheel: symbol tables name temporary files of nvcc.
#
#     tools/compare_builds.sh -DROBOCACHE_CUDA=OFF         arguments are passed to cmake
#
# Needs .venv, which `make build` makes. Takes two builds without ccache.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH
unset CMAKE_CXX_COMPILER_LAUNCHER CMAKE_CUDA_COMPILER_LAUNCHER
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

trees=("$folder/a" "$folder/another/tree")
for tree in "${trees[@]}"; do
  echo "building in $tree"
  mkdir -p "$tree"
  git archive HEAD | tar -x -C "$tree"
  cmake -S "$tree" -B "$tree/build" -G Ninja -DPython3_EXECUTABLE="$PWD/.venv/bin/python" \
    -DROBOCACHE_TORCH=ON "$@" >/dev/null
  cmake --build "$tree/build" --target robocache_torch robocache_store >/dev/null
  cmake --install "$tree/build" --component python --strip --prefix "$tree/installed" >/dev/null
done

differing=0
cd "${trees[0]}/installed"
for file in $(find . -type f | sort); do
  if cmp "$file" "${trees[1]}/installed/$file"; then
    echo "equal: $file, $(sha256sum <"$file" | cut -c 1-16)"
  else
    differing=1
  fi
done
exit "$differing"
