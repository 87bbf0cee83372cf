#!/usr/bin/env bash
# The library must not print, abort or exit: none of its objects may ask for a function that does.
#   check_quiet.sh NM LIBRARY
set -euo pipefail

undefined=$("$1" --undefined-only --demangle "$2" 2>/dev/null | awk '$1 == "U" { print $2 }')
[[ -n $undefined ]] || { echo "$2: no undefined symbols were found"; exit 1; }
ends='_?exit|abort|quick_exit'
prints='puts|putchar|v?f?printf(@.*)?|__v?f?printf_chk|perror|std(out|err)|std::(cout|cerr|clog)'
loud=$(grep -xE "$ends|$prints" <<<"$undefined" || true)
if [[ -n $loud ]]; then
  echo "$2 uses what prints or ends the program:"
  sort -u <<<"$loud"
  exit 1
fi
