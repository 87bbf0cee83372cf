#!/usr/bin/env bash
# Installs system packages that the Makefile can't install into .venv: need.sh PYTHON WHAT...
# As root it installs missing packages by apt; otherwise it prints the command to run.
set -euo pipefail

python=$1
shift

# The package of each on Debian and Ubuntu, and the check that it is installed.
package() {
  case $1 in
    compiler) echo g++ ;;
    venv) echo python3-venv ;;
    gtest) echo libgtest-dev ;;
    json) echo nlohmann-json3-dev ;;
    jpeg) echo libjpeg-dev ;; # of both, it is libjpeg-turbo
    python-headers) echo python3-dev ;; # torch.compile
    libusb) echo libusb-1.0-0 ;;        # Open3D, which tests compare with, links to it
  esac
}
has() {
  case $1 in
    compiler) compiles concepts ;;
    venv) "$python" -c 'import ensurepip, venv' ;;
    gtest) compiles gtest/gtest.h ;;
    json) compiles nlohmann/json.hpp ;;
    jpeg) compiles cstdio "#include <jpeglib.h>" ;;
    python-headers)
      "$python" -c 'import os, sysconfig as s; os.stat(s.get_path("include") + "/Python.h")' ;;
    libusb) "$python" -c 'import ctypes; ctypes.CDLL("libusb-1.0.so.0")' ;;
  esac &>/dev/null
}
compiles() { c++ -std=c++20 -fsyntax-only -x c++ - <<<"#include <$1>"$'\n'"${2:-}"; }

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
  echo "robocache: expected Python 3.10 or newer, got $python (make PYTHON=... names another)"
  exit 1
}

missing=()
for what in "$@"; do
  has "$what" || missing+=("$(package "$what")")
done
((${#missing[@]})) || exit 0

if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
  echo "robocache: something is missing. Run this, and then make again:"
  echo "  sudo apt-get install -y ${missing[*]}"
  exit 1
fi
echo "robocache: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
for what in "$@"; do
  has "$what" || {
    echo "robocache: $(package "$what") is installed and does not help" \
      "(is $python, or c++, another one than the system's?)"
    exit 1
  }
done
