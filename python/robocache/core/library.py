"""Loads the compiled library and checks its flat C API."""

from __future__ import annotations

import ctypes
import enum
import functools
import json
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from robocache.core.version import package_version

FILE_NAME = "librobocache_torch.so"


class Status(enum.IntEnum):
    """Status codes that functions of the flat C APIs return: bindings/c_api.h."""

    OK = 0
    VALUE_ERROR = 1
    TYPE_ERROR = 2
    STORE_ERROR = 3
    DEVICE_ERROR = 4
    OUT_OF_MEMORY = 5
    OTHER_ERROR = 6


@dataclass(frozen=True)
class BuildInfo:
    """Version and build configuration of the compiled library."""

    version: str
    """The library's version."""
    cuda: bool
    """Whether the CUDA backend was built."""
    cuda_version: str | None
    """The CUDA release that it was built with."""
    cuda_architectures: tuple[str, ...]
    """The GPU architectures that it was compiled for."""
    compiler: str
    """The C++ compiler."""
    cpu_targets: tuple[str, ...]
    """The instruction sets that the CPU backend was compiled for."""
    cpu_target: str
    """The instruction set that it uses on this machine."""
    methods: tuple[str, ...]
    """The names of the alignment methods."""
    outsides: tuple[str, ...]
    """The names of the values of option `outside`."""


@functools.cache
def load() -> ctypes.CDLL:
    """Loads the library into torch, once.

    Raises:
        ImportError: If the library is missing, does not load, or is of another version, or if this
            process has loaded another copy of it.
    """
    import torch

    path = find(FILE_NAME)
    _refuse_second_copy(path)
    try:
        torch.ops.load_library(str(path))
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"robocache: {path} does not load with torch {torch.__version__} "
            f"(it needs torch 2.10 or newer): {error}"
        ) from None
    library.robocache_build_info.argtypes = []
    library.robocache_build_info.restype = ctypes.c_char_p
    _check_version(path, json.loads(library.robocache_build_info())["version"])
    library.robocache_error.argtypes = []
    library.robocache_error.restype = ctypes.c_char_p
    library.robocache_align_fields.argtypes = []
    library.robocache_align_fields.restype = ctypes.c_char_p
    library.robocache_cuda_problem.argtypes = [ctypes.c_int]
    library.robocache_cuda_problem.restype = ctypes.c_char_p
    return library


def _refuse_second_copy(path: Path) -> None:
    """Refuses a second copy of the library in a process, which torch would terminate.

    Raises:
        ImportError: Another file of the library's name is mapped into this process.
    """
    for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
        mapped = line.partition("/")[2].removesuffix(" (deleted)")
        if Path(mapped).name == path.name and Path(f"/{mapped}") != path.resolve():
            raise ImportError(
                f"robocache: expected one copy of the package in a process, got {path.parent} "
                f"after /{Path(mapped).parent} (sys.path leads to both: remove one, and start "
                "Python again)"
            )


def check_layout(
    library: ctypes.CDLL, function: str, structures: Mapping[str, type[ctypes.Structure]]
) -> None:
    """Compares the structures of a flat C API with those that the library was built with.

    Args:
        library: The library.
        function: Its function that returns their sizes as JSON.
        structures: The structures by their names there.

    Raises:
        ImportError: The library is of another version of the package.
    """
    sizes: dict[str, int] = {}
    if hasattr(library, function):
        layout = library[function]
        layout.argtypes, layout.restype = [], ctypes.c_char_p
        sizes = json.loads(layout())
    for name, structure in structures.items():
        size, built = ctypes.sizeof(structure), sizes.get(name)
        if size != built:
            raise ImportError(
                f"robocache: {library._name}: expected a library whose {name} has {size} bytes, "
                f"got {'none' if built is None else built} (it is of another version than the "
                "Python package; `pip install .` in the source tree installs both anew)"
            )


def raise_failure(
    status: int, message: bytes, others: Mapping[Status, type[Exception]] | None = None
) -> NoReturn:
    """Raises the exception that a status of a flat C API stands for.

    Args:
        status: The status.
        message: The library's message.
        others: Exceptions by status, in place of the default ones.
    """
    kinds: dict[Status, type[Exception]] = {
        Status.VALUE_ERROR: ValueError,
        Status.TYPE_ERROR: TypeError,
        Status.OUT_OF_MEMORY: MemoryError,
    }
    kinds |= others or {}
    raise kinds.get(Status(status), RuntimeError)(message.decode(errors="surrogateescape"))


def _check_version(path: Path, built: str) -> None:
    # A library of another version has other operators and C functions.
    package = package_version()
    if package is None:
        return
    if not re.match(re.escape(built) + r"(\D|$)", package):
        raise ImportError(
            f"robocache: {path} is of version {built}, the Python package of {package}; "
            "`pip install .` in the source tree installs both anew"
        )


def find(file_name: str) -> Path:
    """The path of a library of the package.

    Raises:
        ImportError: The library was not built.
    """
    # An editable install keeps the Python files and the library in two folders of the package.
    folders = [Path(folder) for folder in sys.modules["robocache"].__path__]
    for folder in folders:
        if (folder / file_name).is_file():
            return folder / file_name
    raise ImportError(
        f"robocache: {file_name} is not in {', '.join(map(str, folders))}: the package was not "
        "built. `pip install .` in the source tree builds and installs it; Python started in a "
        "source tree may import the sources instead of the installed package."
    )


def operator(name: str, fake: Callable[..., Any]) -> Any:
    """The compiled operator of this name, with `fake` registered as its fake kernel.

    Without the library, returns a function that raises ImportError: the pytorch backend needs no
    operator.
    """
    import torch

    try:
        load()
    except ImportError as error:
        problem = str(error)

        def missing(*arguments: Any) -> NoReturn:
            raise ImportError(problem)

        return missing
    torch.library.register_fake(f"robocache::{name}", fake)
    return getattr(torch.ops.robocache, name).default


@functools.cache
def align_fields() -> dict[str, tuple[int, int]]:
    """(shift, bits) of each bit field of operator align, by name; {} without the library."""
    try:
        library = load()
    except ImportError:
        return {}
    fields: dict[str, tuple[int, int]] = json.loads(library.robocache_align_fields())
    return fields


@functools.cache
def build_info() -> BuildInfo:
    """The compiled library's version, CUDA version, compiler and instruction sets.

    Raises:
        ImportError: If the library is missing or does not load.

    Example:
        >>> import robocache as rc
        >>> rc.build_info().cpu_target in rc.build_info().cpu_targets
        True
    """
    metadata: dict[str, Any] = json.loads(load().robocache_build_info())
    for name, value in metadata.items():
        if isinstance(value, list):
            metadata[name] = tuple(value)
    return BuildInfo(**metadata)


@functools.cache
def cuda_problem(device_index: int) -> str | None:
    """The reason why a device cannot use the CUDA backend, and the remedy; None if it can."""
    _warn_of_compilation(device_index)
    text: bytes | None = load().robocache_cuda_problem(device_index)
    return None if text is None else text.decode()


def _warn_of_compilation(device_index: int) -> None:
    """Warns if the driver has to compile PTX first, which takes long and is silent."""
    import torch

    architectures = build_info().cuda_architectures
    if not architectures or not torch.cuda.is_available():
        return
    major, minor = torch.cuda.get_device_capability(device_index)
    if not has_machine_code(architectures, major, minor):
        warnings.warn(
            f"robocache: this build has no machine code for compute capability {major}.{minor}: "
            "the driver compiles it at the first use of alignment and of the loader, about a "
            "minute each, and keeps it for the next process "
            f"(`CUDAARCHS={major}{minor} pip install .` builds it in)",
            RuntimeWarning,
            stacklevel=2,
        )


def has_machine_code(architectures: Sequence[str], major: int, minor: int) -> bool:
    """Whether a build has machine code for a GPU: an architecture of its major version."""
    for architecture in architectures:
        digits = "".join(filter(str.isdigit, architecture))
        if not digits:  # "native", "all": cannot be compared
            return True
        if architecture.endswith("-virtual"):
            continue
        if int(digits[:-1]) == major and int(digits[-1]) <= minor:
            return True
    return False
