"""Mutation testing of the C++ store: the changes in the table below, each one by itself.

    python tools/cpp_mutants.py                    all
    python tools/cpp_mutants.py src/store/json.cpp --write

Compiles the changed file, links the store's C++ tests and library with it, and runs them and then
the Python tests of the store. Prints and records as `tools/mutants.py` does. Needs the build and
the C++ tests in build/dev, from `make build/dev/.tests`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from mutant_runs import ROOT, Key, collect, exit_code, judge, killer, read_record, write_record

from robocache.core import library as core_library
from robocache.store import library

BUILD = ROOT / "build" / "dev"
LIBRARY = "bindings/c/librobocache_store.so"
CPP_TESTS = "tests/cpp/robocache_tests"
FILTER = "Store*:Crc32*:Statistics*"
PYTHON_TESTS = [
    f"store/test_{name}.py" for name in ("read_errors", "read_shards", "ragged", "jpeg")
]
SECONDS = 300  # of a mutant's C++ tests

_MANIFEST, _SHARD = "src/store/manifest.cpp", "src/store/shard.cpp"
_JSON, _HEADER = "src/store/json.cpp", "src/store/safetensors.cpp"
_STORE, _FILE = "src/store/store.cpp", "src/store/file.cpp"
_VALUES = "src/store/stream_values.cpp"
# fmt: off
MUTANTS: list[Key] = [  # file, function, text before, text after
    (_MANIFEST, "file_name", "view[i] >= '0'", "view[i] >= '/'"),
    (_MANIFEST, "file_name", "view.size() <= 255", "view.size() <= 256"),
    (_MANIFEST, "read_encoding", "stream.mcus_per_entry == 0", "stream.mcus_per_entry < 0"),
    (_MANIFEST, "read_stream", "stream.is_ragged && !selects", "false"),
    (_MANIFEST, "read_stream", "(stream.channels.size()) != elements",
     "(stream.channels.size()) > elements"),
    (_MANIFEST, "read_file", "entry.bytes < kSmallestFile", "entry.bytes <= kSmallestFile"),
    (_MANIFEST, "read_indices", "index >= static_cast", "index > static_cast"),
    (_MANIFEST, "read_shard", "integer(kHighest - 1)", "integer(kHighest)"),
    (_MANIFEST, "read_shard", "size() > kMaxSubsetsInShard", "size() >= kMaxSubsetsInShard"),
    (_MANIFEST, "check_numbers", "size() != count", "size() < count"),
    (_MANIFEST, "check_summary", "quantile <= 1;", "quantile < 1;"),
    (_MANIFEST, "read_statistics", "streams.count(member.first) == 0", "false"),
    (_MANIFEST, "check_manifest_checksum", "got != *expected", "false"),
    (_MANIFEST, "parse_manifest", "number < 1 ||", ""),
    (_MANIFEST, "parse_manifest", "!files.insert", "files.size() > 9 && !files.insert"),
    (_JSON, "Builder.key", "!is_new", "false"),
    (_JSON, "Builder.open", "open_.size() >= kDeepest", "open_.size() > kDeepest"),
    (_JSON, "shortened", "& 0xC0u) == 0x80u", "& 0xC0u) == 0xC0u"),
    (_JSON, "Value::integer", "> static_cast<std::uint64_t>(highest)",
     ">= static_cast<std::uint64_t>(highest)"),
    (_JSON, "parse_checksum", "digits.size() != 8", "digits.size() < 8"),
    (_HEADER, "read_entry", "ends.size() != 2", "ends.size() < 2"),
    (_HEADER, "read_entry", "extent->end - extent->begin != *bytes",
     "extent->end - extent->begin < *bytes"),
    (_HEADER, "header_bytes", "length > longest", "length > longest + 1"),
    (_HEADER, "parse_header", "extent.begin != end", "extent.begin < end"),
    (_HEADER, "parse_header", "end != data_bytes", "end > data_bytes"),
    (_HEADER, "parse_header", "(size_of(entry.dtype)) != 0", "(size_of(entry.dtype)) == 9"),
    (_SHARD, "Tensors.take", "entry.dtype != dtype ||", "entry.dtype != dtype &&"),
    (_SHARD, "Tensors.take_offsets", "size == 0", "size < 0"),
    (_SHARD, "is_range", "begin <= end && ", ""),
    (_SHARD, "check_all_offsets", "offsets[count] != size", "offsets[count] > size"),
    (_SHARD, "Shard::episode_rows", "if (rows.begin == rows.end) return Range{};", ""),
    (_SHARD, "Shard::numbers", "task >= tasks", "task > tasks"),
    (_SHARD, "Shard::numbers", "info.length < 1", "info.length < 0"),
    (_SHARD, "Shard::episode", "bits >> count != 0", "bits >> count > 1"),
    (_SHARD, "Shard::check_frames", "entries == 0", "entries < 0"),
    (_SHARD, "Shard::check_data", "std::greater<>()", "std::greater_equal<>()"),
    (_SHARD, "Shard::check_data", "last = std::max(last, end[-1]);", "last = end[-1];"),
    (_SHARD, "Shard::check_data", "longest = std::max", "longest = std::min"),
    (_SHARD, "Shard::check_data", "<int>(flag) > 1", "<int>(flag) > 2"),
    (_SHARD, "Shard::check_data", "place.items * row_elements(manifest.streams[i])", "place.items"),
    (_STORE, "checked_index", "index < 0 || ", ""),
    (_STORE, "Contents.open_shard", "checksum != entry.header_crc32", "false"),
    (_STORE, "Contents.find", "std::upper_bound", "std::lower_bound"),
    (_STORE, "EpisodeStore::verify_statistics", "!contents_->folder.has(entry.file) &&", ""),
    (_FILE, "Folder::open", " | O_NOFOLLOW", ""),
    (_FILE, "Folder::read", "bytes > most", "bytes >= most"),
    (_FILE, "MappedFile::MappedFile", "std::exchange(other.data_, nullptr)", "other.data_"),
    (_VALUES, "stream_name", "(letter) >= 0x20", "(letter) > 0x20"),
    (_VALUES, "row_shape", "if (size == 0)", "if (size < 0)"),
    (_VALUES, "read_method", "sum != elements", "sum > elements"),
    (_VALUES, "optional_rate", "!(rate > 0)", "!(rate >= 0)"),
]
# fmt: on


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--write", action="store_true", help="update tests/mutants.csv")
    given = parser.parse_args()
    files = {key[0] for key in MUTANTS}
    if unknown := [file for file in given.files if file not in files]:
        parser.error(f"expected files of MUTANTS, got {', '.join(unknown)}")
    collect(PYTHON_TESTS)
    if problem := killer_of(_STORE, "", "namespace robocache {", "namespace robocache {"):
        raise SystemExit(f"without a change fails {problem}")
    known = read_record()
    verdicts = {
        key: judge(key[0], key, known, partial(killer_of, *key))
        for key in MUTANTS
        if not given.files or key[0] in given.files
    }
    if given.write:
        in_table = {key: known[key] for key in MUTANTS if key in known}
        python = {key: known[key] for key in known if not key[0].startswith("src/")}
        write_record(python | in_table | verdicts)
    return exit_code(verdicts.values())


def killer_of(file: str, function: str, before: str, after: str) -> str:
    """The test that fails with a mutant; "" if none does."""
    text = (ROOT / file).read_text()
    if text.count(before) != 1:
        raise SystemExit(f"{file}: expected {before!r} once, in {function}")
    with tempfile.TemporaryDirectory() as folder:
        changed, tests = Path(folder) / "changed.cpp", Path(folder) / "tests"
        changed.write_text(text.replace(before, after))
        _compile(file, changed)
        _link(CPP_TESTS, changed.with_suffix(".o"), tests)
        found = _run_cpp_tests(tests)
        if not found:
            _link(LIBRARY, changed.with_suffix(".o"), Path(folder) / library.FILE_NAME)
            found = killer(ChangedLibrary(Path(folder) / library.FILE_NAME), PYTHON_TESTS)
        return found


class ChangedLibrary:
    """Another library in place of the package's, which this process may not have loaded yet."""

    name = source = ""

    def __init__(self, path: Path) -> None:
        self._path = path

    def apply(self) -> None:
        core_library.find = lambda name, find=core_library.find: (
            self._path if name == library.FILE_NAME else find(name)
        )


def _compile(file: str, changed: Path) -> None:
    """Compiles a changed copy of a file as the build does."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    (command,) = {each["command"] for each in commands if each["file"] == str(ROOT / file)}
    words = shlex.split(command)
    words[words.index("-o") + 1] = str(changed.with_suffix(".o"))
    words[words.index("-c") + 1] = str(changed)
    words += ["-O0", "-U_FORTIFY_SOURCE", "-w"]  # in a third of the time
    subprocess.run(words, cwd=BUILD, check=True)


def _link(target: str, changed: Path, output: Path) -> None:
    """Links a target as the build does, with a changed object before the library's archive."""
    listing = ["ninja", "-C", str(BUILD), "-t", "commands", target]
    command = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
    last = command.splitlines()[-1]
    assert f" -o {target} " in last, last
    last = last.replace(f" -o {target} ", f" -o {output} {changed} -Wl,-rpath,{BUILD}/jpeg ")
    subprocess.run(last, cwd=BUILD, check=True, shell=True)


def _run_cpp_tests(tests: Path) -> str:
    command = [str(tests), f"--gtest_filter={FILTER}", "--gtest_fail_fast"]
    try:
        run = subprocess.run(command, cwd=BUILD, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "a C++ test that hangs"
    if run.returncode == 0:
        return ""
    lines = run.stdout.splitlines()
    failed = [line.split()[3] for line in lines if line.startswith("[  FAILED  ]")]
    begun = [line.split()[3] for line in lines if line.startswith("[ RUN      ]")]
    return f"tests/cpp: {(failed or begun[-1:])[0].rstrip(',')}"


if __name__ == "__main__":
    sys.exit(main())
