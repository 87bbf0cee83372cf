"""The optional dependencies: their import, and the message that says how to install them."""

from __future__ import annotations

import importlib
import shlex
import sys
from typing import Any

EXTRAS: dict[str, tuple[str, ...]] = {
    "demo": ("matplotlib",),
    "export": ("av>=14", "pillow", "pyarrow"),
    "metrics": ("prometheus-client>=0.19",),
    "ray": ("ray>=2.40",),
    "view": ("matplotlib", "rerun-sdk>=0.24"),
    "hdf5": ("h5py>=3.8", "pillow"),
    "images": ("pillow",),
    "lerobot": ("av>=14", "pillow", "pyarrow>=14"),
    "parquet": ("pyarrow>=14",),
    "rlds": ("google-crc32c", "pillow"),
    "ros": ("mcap>=1.2", "pillow", "rosbags>=0.11"),
    "ulog": ("pyulog>=1.1",),
    "video": ("av>=14",),
    "zarr": ("pillow", "zarr>=2.16"),
}
"""The packages of each extra, as pyproject.toml declares them."""


def install_hint(extra: str) -> str:
    """The commands that install an extra, without and with a checkout: ``pip install ...``."""
    packages = " ".join(shlex.quote(package) for package in EXTRAS[extra])
    return f"pip install {packages} (or, in a checkout: pip install '.[{extra}]')"


def problem_without_torch(error: BaseException, what: str = "this command") -> str | None:
    """The message for a missing torch: ``{what} needs torch: pip install torch``.

    None for any other error. torch is a dependency of the package; only who installs the package
    without its dependencies lacks it.
    """
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return f"{what} needs torch: pip install torch"
    return None


class MissingLibrary(ImportError):  # noqa: N818 (it says what is missing)
    """An optional library is not installed: the message says how to install it."""


_imported: dict[str, Any] = {}
"""Modules that `require` imported: readers call it for each column, and `import_module` is slow."""


def require(module: str, what: str, extra: str, doing: str = "reading") -> Any:
    """Imports a module of an extra's library.

    Raises:
        MissingLibrary: If it is not installed: ``{doing} {what} needs {library}: pip install ...``.
    """
    known = _imported.get(module)
    if known is not None and sys.modules.get(module) is known:
        return known
    try:
        _imported[module] = importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != library:
            raise  # the library is installed; a dependency of it is not
        message = f"{doing} {what} needs {library}: {install_hint(extra)}"
        raise MissingLibrary(message, name=library) from None
    return _imported[module]
