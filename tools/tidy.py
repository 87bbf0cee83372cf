"""Runs clang-tidy over the library's host code: tidy.py BUILD [JOBS].

A file that was clean is not looked at again until it, a header or .clang-tidy changes.
"""

import hashlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIDY = Path(sys.executable).parent / "clang-tidy"
FOLDERS = ("src", "bindings")


def sources(build: Path) -> list[Path]:
    """The .cpp files of this project in the build's compile commands, each once."""
    commands = json.loads((build / "compile_commands.json").read_text())
    files = {Path(command["file"]) for command in commands}
    return sorted(
        file
        for file in files
        if file.suffix == ".cpp" and any(file.is_relative_to(ROOT / folder) for folder in FOLDERS)
    )


def digest_of_shared(build: Path) -> str:
    """Digest of the inputs that all files share: headers, settings, tool and flags."""
    digest = hashlib.sha256()
    headers = [file for folder in ("include", *FOLDERS) for file in (ROOT / folder).rglob("*.h")]
    for file in [*sorted(headers), ROOT / ".clang-tidy", build / "compile_commands.json"]:
        digest.update(file.read_bytes())
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    digest.update(version)
    return digest.hexdigest()


def check(file: Path, build: Path, shared: str, clean: Path) -> bool:
    """Checks a file and prints its findings; returns whether it has none."""
    stamp = clean / hashlib.sha256(shared.encode() + file.read_bytes()).hexdigest()
    if stamp.exists():
        return True
    # The flags are GCC's, whose warnings clang does not all know; its own are no errors here.
    flags = ("--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-error")
    command = [TIDY, "--quiet", *flags, "-p", build, file]
    if file.stem.endswith("_kernels"):
        # The analyzer would walk every instance of the templates, for minutes.
        command.append("--checks=-clang-analyzer-*")
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        print(result.stdout or result.stderr, flush=True)
        return False
    stamp.touch()
    return True


def main() -> None:
    build = Path(sys.argv[1]).resolve()
    jobs = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    clean = build / "tidy"
    clean.mkdir(exist_ok=True)
    shared = digest_of_shared(build)
    files = sources(build)
    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(lambda file: check(file, build, shared, clean), files))
    print(f"clang-tidy: {sum(results)} of {len(files)} files clean")
    if not all(results):
        sys.exit(1)


if __name__ == "__main__":
    main()
