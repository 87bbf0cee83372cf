"""Checks a wheel: hardened libraries without build paths, and notices of third-party code.

python check_wheel.py WHEEL

Needs `readelf` and `nm` of binutils.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

NOTICES = {
    "CUDA runtime": "NVIDIA Corporation",
    "CCCL": "Duane Merrill",
    "nlohmann/json": "Niels Lohmann",
    "libjpeg-turbo": "the Independent JPEG Group",
}
"""Whom the notices name for each library that the wheel contains."""
SOURCE = re.compile(rb"(?<=\0)(?:/|\.\./)[\w.+/-]+\.(?:c|cc|cpp|cu|cuh|h|hpp|inl)\b")


def output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def problems_of_library(path: Path) -> list[str]:
    """The properties that a shared library lacks; empty if it has all."""
    segments = output("readelf", "--wide", "--segments", path)
    dynamic = output("readelf", "--wide", "--dynamic", path)
    symbols = output("nm", "--dynamic", "--undefined-only", path)
    stack = re.search(r"GNU_STACK.*?\s(R?W?E?)\s+0x", segments)
    paths = sorted({match.decode() for match in SOURCE.findall(path.read_bytes())})
    checks = {
        "no segment that is read-only after relocation (-z relro)": "GNU_RELRO" in segments,
        "lazy binding: relocations are writable (-z now)": re.search(r"\(FLAGS_1?\).*NOW", dynamic),
        "an executable stack": stack and "E" not in stack[1],
        "relocations in code": "TEXTREL" not in dynamic,
        "a search path of the machine that built it": not re.search(
            r"(?:RPATH|RUNPATH).*\[(?!\$ORIGIN\])", dynamic
        ),
        "no stack protector": "__stack_chk_fail" in symbols,
        "no fortified function (_FORTIFY_SOURCE)": re.search(r"__\w+_chk\b", symbols),
        f"paths of sources: {', '.join(paths)}": not paths,
    }
    return [f"{path.name}: {problem}" for problem, is_good in checks.items() if not is_good]


def problems_of_wheel(wheel: Path) -> list[str]:
    found = []
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        libraries = [name for name in names if name.endswith(".so")]
        bundled = [name for name in libraries if name.endswith("/librobocache_jpeg.so")]
        for name in libraries:
            library = Path(archive.extract(name, folder))
            if name not in bundled:  # a distribution has built it
                found += problems_of_library(library)
            if "libjpeg.so" in output("readelf", "--wide", "--dynamic", library):
                found.append(f"{library.name}: needs libjpeg.so of the system")
        if len(libraries) != 3 or len(bundled) != 1:
            found.append(f"expected 2 libraries and librobocache_jpeg.so, got {libraries}")
        notices = [name for name in names if name.endswith("licenses/THIRD_PARTY_NOTICES.txt")]
        text = archive.read(notices[0]).decode() if notices else ""
        for library, holder in NOTICES.items():
            if library not in text or holder not in text:
                found.append(f"THIRD_PARTY_NOTICES.txt: expected a notice of {library}, got none")
    return found


if __name__ == "__main__":
    found = problems_of_wheel(Path(sys.argv[1]))
    print("\n".join(found) or f"{sys.argv[1]}: hardened, without build paths, with notices")
    sys.exit(bool(found))
