#!/usr/bin/env bash
# One source is compiled once per instruction set. A function that the linker may merge (a weak
# symbol: an inline function, a template of the standard library) must then be in its own namespace,
# else the AVX-512 copy may be the one that an old CPU is given.
#   check_symbols.sh TARGET NM OBJECT...
set -euo pipefail

target=$1 nm=$2
shift 2
# (DW.ref.* are pointers for exception tables, not code.)
found=$("$nm" --demangle --defined-only "$@" |
  awk '$2 ~ /^[VWuvw]$/ { sub(/^[^ ]+ . /, ""); print }' |
  sed -E 's/^(vtable|typeinfo|typeinfo name|guard variable|construction vtable) for //' |
  grep -vE "^([^(]* )?robocache::$target::|^DW\.ref\." || true)
if [[ -n $found ]]; then
  echo "symbols outside robocache::$target, which the linker may merge with another target's:"
  echo "$found"
  exit 1
fi
