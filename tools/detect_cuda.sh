#!/usr/bin/env bash
# Chooses the Makefile build's CUDA settings on this machine: prints CMake definitions, one per
# line, and reports the choice on standard error.
#   detect_cuda.sh AUTO|OFF PYTHON UV
# AUTO uses an installed nvcc; on a machine with a GPU and no nvcc it installs one from PyPI into
# PYTHON's environment, which is about 120 MB to fetch.
set -euo pipefail

wanted=$1 python=$2 uv=$3
minimum_cuda=13 minimum_driver=580 oldest_gpu=75

say() { echo "robocache: $*" >&2; }
cpu_only() {
  say "building the CPU part alone: $*"
  echo ROBOCACHE_CUDA=OFF
  exit 0
}

[[ $wanted != OFF ]] || cpu_only "CUDA=OFF"

driver="" capabilities=""
if gpus=$(nvidia-smi --query-gpu=driver_version,compute_cap --format=csv,noheader 2>/dev/null) &&
  [[ $gpus == [0-9]* ]]; then
  driver=$(head -n 1 <<<"$gpus" | cut -d, -f1)
  capabilities=$(cut -d, -f2 <<<"$gpus" | tr -d ' .' | sort -un | paste -sd ';')
  if ((${driver%%.*} < minimum_driver)); then
    cpu_only "the NVIDIA driver is $driver, and CUDA $minimum_cuda needs $minimum_driver or newer"
  fi
  if ((${capabilities%%;*} < oldest_gpu)); then
    cpu_only "the GPU has compute capability ${capabilities%%;*}, and CUDA $minimum_cuda needs" \
      "$oldest_gpu (Turing) or newer"
  fi
fi

nvcc=""
for candidate in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
  [[ -x $candidate ]] || continue
  release=$("$candidate" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
  if ((${release:-0} >= minimum_cuda)); then
    nvcc=$candidate
    break
  fi
  say "$candidate is CUDA ${release:-?}, too old"
done

if [[ -z $nvcc ]]; then
  [[ -n $driver ]] || cpu_only "there is no GPU and no nvcc here"
  # Torch pins the CUDA release that it brings; in the same environment nvcc comes from that one.
  say "a GPU but no nvcc: taking nvcc $minimum_cuda from PyPI"
  "$uv" pip install -q --python "$python" \
    "cuda-toolkit[nvcc,cudart,cccl]>=$minimum_cuda,<$((minimum_cuda + 1))" >&2
  packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  nvcc=$packages/nvidia/cu$minimum_cuda/bin/nvcc
  [[ -x $nvcc ]] || cpu_only "the nvcc from PyPI is not where it should be ($nvcc)"
fi

if [[ -n $capabilities ]]; then
  say "building with $nvcc for GPU architecture $capabilities, which is here"
else
  say "building with $nvcc for GPU architecture 90, as no GPU is here" \
    "(make CUDA_ARCHITECTURES=80 names another)"
fi
echo ROBOCACHE_CUDA=ON
echo "CMAKE_CUDA_COMPILER=$nvcc"
echo "CMAKE_CUDA_ARCHITECTURES=${capabilities:-90}"
