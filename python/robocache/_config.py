"""Settings of the process. Plain module variables: torch.compile guards on them."""

from __future__ import annotations

from types import TracebackType

BACKENDS = ("auto", "cuda", "cpu", "pytorch")

backend = "auto"
validate = False


class config:  # noqa: N801 - reads as a function, and is one when called plainly
    """Sets the backend that ``"auto"`` stands for, and whether values are validated.

    A plain call sets for the process; as a context manager the settings before it return at the
    end. An option left out stays as it is.

    Args:
        backend: What calls with ``backend="auto"`` use: ``"cuda"``, ``"cpu"``, ``"pytorch"``, or
            ``"auto"``, the best for the tensors' device.
        validate: Whether the backends cuda and pytorch look for source times that descend and for
            lengths out of range, which costs a pass over the times and a synchronisation. The cpu
            backend always does.

    Raises:
        ValueError: For an unknown backend.
        TypeError: If validate is not a bool.

    Example:
        >>> import robocache as rc
        >>> with rc.config(validate=True):
        ...     pass  # calls in here are checked
    """

    def __init__(self, *, backend: str | None = None, validate: bool | None = None) -> None:
        if backend is not None:
            check_backend(backend)
        if validate is not None and not isinstance(validate, bool):
            raise TypeError(f"validate: expected a bool, got {type(validate).__name__}")
        self._chosen = (backend, validate)
        self._before = _set(backend, validate)

    def __enter__(self) -> config:
        _set(*self._chosen)  # once more, in case the object was kept and other calls came between
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _set(*self._before)


def check_backend(name: object) -> None:
    if not isinstance(name, str) or name not in BACKENDS:
        raise ValueError(f"backend: expected auto, cuda, cpu or pytorch, got {name!r}")


def _set(new_backend: str | None, new_validate: bool | None) -> tuple[str, bool]:
    global backend, validate
    before = (backend, validate)
    if new_backend is not None:
        backend = new_backend
    if new_validate is not None:
        validate = new_validate
    return before
