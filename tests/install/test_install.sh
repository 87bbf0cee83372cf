#!/usr/bin/env bash
# Installs the library, builds examples/cpp against the installed copy and runs it.
#   test_install.sh CMAKE GENERATOR CXX SOURCE WORK static BUILD [CUDA BIN]   the library of BUILD
#   test_install.sh CMAKE GENERATOR CXX SOURCE WORK shared                    builds a shared one
set -euo pipefail

cmake=$1 generator=$2 cxx=$3 source=$4 work=$5/$6 kind=$6
prefix=$work/prefix example=$work/example
rm -rf "$prefix" "$prefix.moved" "$example"
mkdir -p "$work"

fail() {
  echo "FAILED: $*"
  exit 1
}
# Debug, which compiles fast; that it works is worth knowing too.
configure() {
  "$cmake" -G "$generator" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Debug "$@" \
    >"$work/configure.log" ||
    fail "$(cat "$work/configure.log")"
}

case $kind in
  static)
    build=$7
    # Whoever links it needs the CUDA runtime; here the one that it was built with.
    if [[ -n ${8:-} ]]; then export CUDAToolkit_ROOT=${8%/bin}; fi
    ;;
  shared)
    build=$work/build
    configure -S "$source" -B "$build" -DBUILD_SHARED_LIBS=ON -DROBOCACHE_CUDA=OFF
    "$cmake" --build "$build"
    # The interface is exported, the backends are not.
    backends=$(nm --dynamic --demangle --defined-only "$build/librobocache.so" |
      grep -E 'robocache::(baseline|avx2|avx512|cuda)::|robocache::\w+_on_c' || true)
    [[ -z $backends ]] || fail "the shared library exports $backends"
    ;;
esac
"$cmake" --install "$build" --prefix "$prefix" --component cpp >/dev/null

# A copy elsewhere must do: nothing installed may point back into the build.
mv "$prefix" "$prefix.moved"
trap 'rm -rf "$prefix.moved"' EXIT
configure -S "$source/examples/cpp" -B "$example" -DCMAKE_PREFIX_PATH="$prefix.moved"
"$cmake" --build "$example"
program=$example/resample_csv

# 4 Hz from 2 Hz, by hand: the gap from 1 s to 3 s is longer than is allowed.
cat >"$work/in.csv" <<'CSV'
time,a,b
0.0,0,10
0.5,1,20
1.0,2,30
3.0,4,50
CSV
"$program" "$work/in.csv" "$work/out.csv" --rate 4 --max-gap 0.6
diff - "$work/out.csv" <<'CSV'
time,a,b,valid
0,0,10,1
0.25,0.5,15,1
0.5,1,20,1
0.75,1.5,25,1
1,2,30,1
1.25,2.25,32.5,0
1.5,2.5,35,0
1.75,2.75,37.5,0
2,3,40,0
2.25,3.25,42.5,0
2.5,3.5,45,0
2.75,3.75,47.5,0
3,4,50,1
CSV
"$program" --help | grep -q -- --rate || fail "--help does not name its options"
"$example/replay_bag" --help | grep -q -- --speed ||
  fail "replay_bag --help does not name its options"

# expect MESSAGE ARGUMENT...: the program fails, and says so.
expect() {
  local message=$1 said
  shift
  if said=$("$program" "$@" 2>&1); then fail "no error from $*"; fi
  [[ $said == *"$message"* ]] || fail "expected '$message' from $*, got '$said'"
}
printf 'time,a\n0,1\n1,x\n' >"$work/bad.csv"
printf 'time,a\n0,1\n2,1\n1,1\n' >"$work/unordered.csv"
printf 'time,a\n0,1\n1\n' >"$work/short.csv"
printf 'time,a\n' >"$work/empty.csv"
expect "--rate" "$work/in.csv" "$work/out.csv"
expect "--rate" "$work/in.csv" "$work/out.csv" --rate 0
expect "--method" "$work/in.csv" "$work/out.csv" --rate 4 --method cubic
expect "nowhere.csv" "$work/nowhere.csv" "$work/out.csv" --rate 4
expect "bad.csv:3: expected a number, got 'x'" "$work/bad.csv" "$work/out.csv" --rate 4
expect "short.csv:3: expected 2 columns, got 1" "$work/short.csv" "$work/out.csv" --rate 4
expect "empty.csv: expected rows" "$work/empty.csv" "$work/out.csv" --rate 4
expect "expected ascending times" "$work/unordered.csv" "$work/out.csv" --rate 4
# Errors of the command line:
expect "there is no option --hz; --help lists them" "$work/in.csv" "$work/out.csv" --hz 4
expect "--rate: expected a value after it" "$work/in.csv" "$work/out.csv" --rate
expect "--rate: expected a number, got '4Hz'" "$work/in.csv" "$work/out.csv" --rate 4Hz
expect "--rate: expected a number above 0" "$work/in.csv" "$work/out.csv" --rate inf
expect "--rate: expected less than 1e8 rows of output, got 3e+09" \
  "$work/in.csv" "$work/out.csv" --rate 1e9
expect "expected an input and an output file; --help says more" "$work/in.csv" --rate 4
expect "max_gap: expected 0 or more, got -1" "$work/in.csv" "$work/out.csv" --rate 4 --max-gap -1
# Errors of the files:
printf 'time\n0\n1\n' >"$work/alone.csv"
printf 'seconds,a\n0,1\nnan,2\n' >"$work/nan.csv"
printf 'seconds,a\n0,1\ninf,2\n' >"$work/infinite.csv"
cp "$work/in.csv" "$work/same.csv"
expect "$work: expected a file, got a directory" "$work" "$work/out.csv" --rate 4
expect "$work: expected a file, got a directory" "$work/in.csv" "$work" --rate 4
expect "same.csv: expected another file than the input, got the same" \
  "$work/same.csv" "$work/./same.csv" --rate 4
cmp "$work/in.csv" "$work/same.csv" || fail "the input was written to"
expect "nowhere/out.csv: can't be written" "$work/in.csv" "$work/nowhere/out.csv" --rate 4
expect "alone.csv: expected a time column and at least one more" \
  "$work/alone.csv" "$work/out.csv" --rate 4
expect "nan.csv:3: seconds: expected a finite time, got 'nan'" \
  "$work/nan.csv" "$work/out.csv" --rate 4
expect "infinite.csv:3: seconds: expected a finite time, got 'inf'" \
  "$work/infinite.csv" "$work/out.csv" --rate 4

# Spaces, empty lines and the line ends of Windows are no errors.
printf 'time, a\r\n 0 , 1\r\n\r\n1,3\r\n' >"$work/windows.csv"
"$program" "$work/windows.csv" "$work/windows_out.csv" --rate 2 >/dev/null
diff - "$work/windows_out.csv" <<'CSV'
time,a,valid
0,1,1
0.5,2,1
1,3,1
CSV

# The README's program does what it says beside it.
mkdir -p "$work/readme"
sed -n '/^```cpp$/,/^```$/p' "$source/README.md" | sed '/^```/d' >"$work/readme/main.cpp"
cat >"$work/readme/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.24)
project(readme LANGUAGES CXX)
find_package(robocache 0.1 CONFIG REQUIRED)
add_executable(app main.cpp)
target_link_libraries(app PRIVATE robocache::robocache)
CMAKE
configure -S "$work/readme" -B "$work/readme/build" -DCMAKE_PREFIX_PATH="$prefix.moved"
"$cmake" --build "$work/readme/build" >"$work/readme/build.log" ||
  fail "$(cat "$work/readme/build.log")"
expected=$(sed -n 's|.*std::printf.*;  // ||p' "$work/readme/main.cpp" | sed 's/, /\n/g')
[[ $("$work/readme/build/app") == "$expected" ]] ||
  fail "README.md: expected '$expected', got '$("$work/readme/build/app")'"

# Another major version is refused, and while the major version is 0, another minor one.
mkdir -p "$work/version"
cat >"$work/version/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.24)
project(version LANGUAGES CXX)
foreach(version 99 0.99)
  find_package(robocache ${version} CONFIG)
  if(robocache_FOUND)
    message(FATAL_ERROR "robocache ${version} was found")
  endif()
endforeach()
CMAKE
configure -S "$work/version" -B "$work/version/build" -DCMAKE_PREFIX_PATH="$prefix.moved"
echo "installed, found, built and run: $kind"
