"""Settings of the process, in plain module variables, on which torch.compile guards."""

from __future__ import annotations

from typing import get_args

from robocache.core.checks import check_bool
from robocache.core.names import Backend

BACKENDS: tuple[str, ...] = get_args(Backend)

backend = "auto"
validate = False
_changes = 0  # the number of changes of the settings


class config:  # noqa: N801 - users call it like a function
    """Sets the backend that ``"auto"`` stands for, and whether values are validated.

    A plain call changes the settings of the process. As a context manager it restores the previous
    settings at the end. Omitted options are unchanged. An object may be entered later and more than
    once: each exit restores the settings at that entry.

    Args:
        backend: The backend of calls with ``backend="auto"``: ``"cuda"``, ``"cpu"``,
            ``"pytorch"``, or ``"auto"``, the best for the tensors' device.
        validate: Whether the backends cuda and pytorch validate values, at the cost of a pass over
            them and a synchronization. Refused are source times that descend or are NaN, target
            times that descend where a run is a sum, lengths out of range, and offsets of clouds
            that do not start at 0, descend, or do not end at P. The cpu backend always validates.

    Raises:
        ValueError: For an unknown backend.
        TypeError: If validate is not a bool.

    Example:
        >>> import robocache as rc
        >>> with rc.config(validate=True):
        ...     pass  # calls in here are checked
    """

    def __init__(self, *, backend: Backend | None = None, validate: bool | None = None) -> None:
        if backend is not None:
            check_backend(backend)
        if validate is not None:
            check_bool("validate", validate)
        self._chosen = (backend, validate)
        self._made_from = _set(backend, validate)
        self._made_at = _changes
        self._before: list[tuple[str, bool]] = []  # one for every time it is entered

    def __enter__(self) -> config:
        at_once = _changes == self._made_at
        found = _set(*self._chosen)
        self._before.append(self._made_from if at_once else found)
        return self

    def __exit__(self, *error: object) -> None:
        _set(*self._before.pop())


def check_backend(name: object) -> None:
    """Raises ValueError for an unknown backend."""
    if not isinstance(name, str) or name not in BACKENDS:
        raise ValueError(f"backend: expected auto, cuda, cpu or pytorch, got {name!r}")


def _set(new_backend: str | None, new_validate: bool | None) -> tuple[str, bool]:
    global backend, validate, _changes
    before = (backend, validate)
    _changes += 1
    if new_backend is not None:
        backend = new_backend
    if new_validate is not None:
        validate = new_validate
    return before
