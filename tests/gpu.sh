#!/usr/bin/env bash
# The whole suite on a machine with a GPU, and the GPU's own code under compute-sanitizer. Nothing
# is installed: PYTHON needs torch, pytest, hypothesis, scipy, pandas and jsonschema, and BUILD is
# what `make build` and `make cpp-test` left, here or on another machine (its `wheel` and
# `tests/cpp`).
#   PYTHON=python3 tests/gpu.sh [BUILD] [-- PYTEST ARGUMENT...]
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
build=build/dev
if [[ $# -gt 0 && $1 != -- ]]; then build=$1; shift; fi
if [[ ${1:-} == -- ]]; then shift; fi

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader ||
  { echo "gpu.sh: there is no usable GPU here"; exit 1; }

# The package out of its wheel, ahead of any that is installed.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m zipfile -e "$build"/wheel/*.whl "$work/site"
export PYTHONPATH=$work/site${PYTHONPATH:+:$PYTHONPATH}
"$python" - <<'PY'
import sys
import robocache
import torch

if not torch.cuda.is_available():
    sys.exit(f"gpu.sh: torch {torch.__version__} sees no GPU that it can use")
print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, {robocache.build_info()}")
PY

failed=()
step() {
  echo "== $1"
  "${@:2}" || failed+=("$1")
}

export ROBOCACHE_GOLDEN_CASES=$PWD/tests/golden
# Named, so that one that does not work here is an error and not left out.
export ROBOCACHE_TEST_BACKENDS=${ROBOCACHE_TEST_BACKENDS:-cpu,pytorch-cpu,cuda,pytorch-cuda}
step "C++ tests" "$build/tests/cpp/robocache_tests" --gtest_brief=1
step "Python tests" "$python" -m pytest -p no:cacheprovider tests/python "$@"

packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
sanitizer=""
for candidate in "$(command -v compute-sanitizer || true)" \
  {/usr/local/cuda,"$packages/nvidia/cu13"}/bin/compute-sanitizer; do
  if [[ -x $candidate ]]; then
    sanitizer=$candidate
    break
  fi
done
if [[ -z $sanitizer ]]; then
  echo "expected compute-sanitizer: install the CUDA toolkit, or cuda-toolkit[sanitizer] from PyPI"
  failed+=("compute-sanitizer")
else
  for tool in memcheck racecheck initcheck synccheck; do
    step "$tool" "$sanitizer" --tool "$tool" --error-exitcode 1 \
      "$build/tests/cpp/robocache_gpu_check"
  done
fi

if ((${#failed[@]})); then
  printf 'gpu.sh: FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo "gpu.sh: everything passed"
