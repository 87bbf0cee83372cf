"""`Normalizer`: the normalization of a loader and its inverse, for use outside of the loader."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np

from robocache.core.display import ByName, listed
from robocache.normalization.formulas import (
    Normalization,
    NormalizationMode,
    Preset,
    check_mode,
    check_preset,
)
from robocache.normalization.parse_statistics import Statistics, array, check_finite, of_statistics
from robocache.normalization.window_statistics import WindowStatistics, shape_of
from robocache.store.stream_info import is_image

if TYPE_CHECKING:
    from robocache.store.episode_store import EpisodeStore

Values = TypeVar("Values")  # a tensor or an array
_PARTS = Normalization._fields


class _Normalizing(Protocol):
    """A loader."""

    def normalizer(self) -> Normalizer: ...


class Normalizer:
    """Normalizes values by key, ``y = (x - subtract) * multiply``, and computes the inverse.

    ``Loader(normalize=normalizer)`` does the same within its one launch. Scales and offsets apply
    to values as batches have them: images are from 0 to 1, channels first.

    Args:
        normalization: Scale and offset by key. Their axes are aligned to the last axes of a value,
            where 1 matches any size: [C] for vectors, [C,1,1] for images, [] for numbers.

    Raises:
        TypeError, ValueError: `normalization[<key>]: expected ..., got ...`: not a Normalization
            of finite numbers, parts of different shapes, or a scale of 0.

    Example:
        >>> normalizer = rc.Normalizer.from_store(store, {"action": "min_max"}, preset="lerobot")
        >>> loader = rc.Loader(store, 64, {"action": [0.0, 0.02]}, normalize=normalizer)
        >>> action = normalizer.unnormalize("action", policy(batch))
    """

    def __init__(self, normalization: Mapping[str, Normalization]) -> None:
        self._scales = _checked("normalization", normalization)
        # Tensors by key, device and dtype: a copy to the GPU in each call would wait for the GPU.
        self._tensors: dict[tuple[str, Any, Any], tuple[Any, Any]] = {}

    # ---- constructors ----------------------------------------------------------------------------

    @staticmethod
    def from_store(
        store: EpisodeStore,
        modes: Mapping[str, NormalizationMode],
        *,
        preset: Preset = "robocache",
    ) -> Normalizer:
        """Creates a normalizer from the statistics of a store's streams.

        Args:
            store: An episode store.
            modes: The mode of each stream to normalize: ``{"action": "min_max"}``.
            preset: The library whose formulas apply, as in :func:`normalization`.

        Raises:
            TypeError, ValueError: `modes: expected ..., got ...`: a stream that the store lacks, or
                whose statistics it lacks; a mode that the preset lacks.
        """
        summaries, shapes = {}, {}
        for key in _check_modes(modes):
            info = store.streams.get(key)
            if info is None:
                raise ValueError(f"modes: expected {', '.join(store.streams)}, got {key!r}")
            if info.statistics is None:
                raise ValueError(f"statistics[{key!r}]: expected some, which the store has not")
            summaries[key] = info.statistics
            shapes[key] = shape_of(info, len(info.statistics.mean))
        found = _from_statistics(summaries, shapes, modes, preset)
        pictures = [key for key in found if is_image(store.streams[key])]
        return Normalizer(found | {key: _of_ones(found[key]) for key in pictures})

    @staticmethod
    def from_statistics(
        statistics: Mapping[str, Statistics],
        modes: Mapping[str, NormalizationMode],
        *,
        preset: Preset = "robocache",
    ) -> Normalizer:
        """Creates a normalizer from statistics of :func:`compute_stats`, or others.

        Args:
            statistics: The result of :func:`compute_stats`; or by key a mapping with those of
                LeRobot's names that the mode requires: ``mean``, ``std``, ``min``, ``max``,
                ``q01``, ``q10``, ``q90``, ``q99``, ``count``; of the shape of a value's axes:
                [C,1,1] for images.
            modes: The mode of each key to normalize.
            preset: The library whose formulas apply, as in :func:`normalization`.

        Raises:
            TypeError, ValueError: `modes: ...` or `statistics[<key>]: expected ..., got ...`: a key
                without statistics, or statistics without a number that the mode requires.
        """
        if not isinstance(statistics, Mapping):
            raise TypeError(
                f"statistics: expected a mapping of keys, got {type(statistics).__name__}"
            )
        for key in _check_modes(modes):
            if key not in statistics:
                raise ValueError(f"modes: expected {', '.join(statistics) or 'none'}, got {key!r}")
        shapes = {}
        if isinstance(statistics, WindowStatistics):
            shapes = statistics.shapes
        else:
            for key in modes:
                shapes[key] = _widest(statistics[key])
        return Normalizer(_from_statistics(statistics, shapes, modes, preset))

    @staticmethod
    def from_file(
        path: str | os.PathLike[str],
        modes: Mapping[str, NormalizationMode],
        *,
        preset: Preset | None = None,
    ) -> Normalizer:
        """Creates a normalizer from a statistics file of LeRobot or openpi.

        Args:
            path: LeRobot's ``stats.json``, or ``episodes_stats.jsonl`` of v2.1, whose episodes are
                merged; openpi's ``norm_stats.json``; or a folder with one of them, such as a
                LeRobot data set.
            modes: The mode of each key to normalize.
            preset: The library whose formulas apply; None: the library of the file.

        Raises:
            OSError: The file does not exist.
            ValueError: `<path>: expected ..., got ...`: a file of another format; or as
                :meth:`from_statistics`.
        """
        from robocache.normalization.files import read_statistics

        statistics, library = read_statistics(path)
        return Normalizer.from_statistics(statistics, modes, preset=preset or library)

    @staticmethod
    def from_loader(loader: _Normalizing) -> Normalizer:
        """The normalization of a loader's batches: ``loader.normalizer()``.

        Raises:
            ValueError: The loader is a mixture: each of its parts has a normalization.
        """
        return loader.normalizer()

    # ---- forward and inverse ---------------------------------------------------------------------

    @property
    def normalization(self) -> Mapping[str, Normalization]:
        """Scale and offset by key."""
        return ByName(self._scales)

    def forward(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a batch with normalized values; other keys are unchanged.

        Args:
            batch: Tensors or arrays by key, as a loader returns them.

        Raises:
            TypeError, ValueError: The batch has none of the normalizer's keys; or as
                :meth:`normalize`.
        """
        return self._each(batch, self.normalize)

    def inverse(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the batch before :meth:`forward`, up to rounding.

        Raises:
            TypeError, ValueError: As :meth:`forward`.
        """
        return self._each(batch, self.unnormalize)

    def normalize(self, key: str, values: Values) -> Values:
        """Normalizes the values of a key.

        Computes in float64 for float64 values, else in float32, and rounds once: the same bits as
        ``Loader(normalize=)`` if the stream has the dtype of `values`.

        Args:
            key: A key of the normalizer.
            values: A tensor on any device, or an array; of floats, with any axes before those of
                the scale: [B,K,C] for a scale [C], [B,C,H,W] for [C,1,1].

        Returns:
            A tensor or an array like `values`, of the same dtype and shape, on the same device.

        Raises:
            TypeError: `<key>: expected ..., got ...`: values that are not floats.
            ValueError: Values of another shape, or an unknown key.
        """
        x, subtract, multiply = self._ready(key, values)
        return _as((x - subtract) * multiply, values)

    def unnormalize(self, key: str, values: Values) -> Values:
        """Inverts :meth:`normalize`: ``x = y / multiply + subtract``.

        Args, Returns, Raises: As :meth:`normalize`.
        """
        y, subtract, multiply = self._ready(key, values)
        return _as(y / multiply + subtract, values)

    # ---- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state as float64 tensors on the CPU: ``<key>.subtract`` and ``<key>.multiply``."""
        import torch

        return {
            f"{key}.{part}": torch.tensor(numbers, dtype=torch.float64, device="cpu")
            for key, scale in self._scales.items()
            for part, numbers in scale._asdict().items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replaces all scales and offsets by those of a state of :meth:`state_dict`.

        Raises:
            TypeError, ValueError: `state: expected ..., got ...`: an invalid state; the normalizer
                is unchanged then.
        """
        if not isinstance(state, Mapping):
            raise TypeError(f"state: expected a mapping, got {type(state).__name__}")
        found: dict[str, dict[str, Any]] = {}
        for name, numbers in state.items():
            key, dot, part = str(name).rpartition(".")
            if not dot or part not in _PARTS:
                raise ValueError(
                    f"state: expected names that end in .subtract or .multiply, got {name!r}"
                )
            if hasattr(numbers, "detach"):
                numbers = numbers.detach().cpu()
            found.setdefault(key, {})[part] = numbers
        for key, parts in found.items():
            if len(parts) != len(_PARTS):
                (only,) = parts
                raise ValueError(
                    f"state: expected {key}.subtract and {key}.multiply, got {key}.{only} alone"
                )
        self._scales = _checked("state", {key: Normalization(**p) for key, p in found.items()})
        self._tensors = {}

    def __repr__(self) -> str:
        return f"Normalizer({listed(self._scales)})"

    def __getstate__(self) -> dict[str, Any]:
        return {"_scales": self._scales, "_tensors": {}}

    # ---- computation -----------------------------------------------------------------------------

    def _each(self, batch: Mapping[str, Any], function: Any) -> dict[str, Any]:
        if not isinstance(batch, Mapping):
            raise TypeError(
                f"batch: expected a mapping of tensors or arrays, got {type(batch).__name__}"
            )
        if self._scales and not any(key in batch for key in self._scales):
            raise ValueError(
                f"batch: expected at least one of {', '.join(self._scales)}, "
                f"got {', '.join(map(str, batch)) or 'nothing'}"
            )
        return {
            key: function(key, values) if key in self._scales else values
            for key, values in batch.items()
        }

    def _ready(self, key: str, values: Any) -> tuple[Any, Any, Any]:
        """The values, the offset and the scale of a key, in the dtype of the computation."""
        scale = self._scales.get(key)
        if scale is None:
            known = ", ".join(self._scales) or "none"
            raise ValueError(f"key: expected {known}, got {key!r}")
        torch: Any = sys.modules.get("torch")  # None: `values` cannot be a tensor
        is_tensor = torch is not None and isinstance(values, torch.Tensor)
        if not is_tensor and not isinstance(values, np.ndarray):
            kind = type(values).__name__
            raise TypeError(f"{key}: expected a tensor or a NumPy array, got {kind}")
        is_float = values.is_floating_point() if is_tensor else values.dtype.kind == "f"
        if not is_float:
            raise TypeError(f"{key}: expected floats, got {str(values.dtype).split('.')[-1]}")
        _check_shape(key, tuple(values.shape), scale.subtract.shape)
        if not is_tensor:
            compute = np.float64 if values.dtype.itemsize >= 8 else np.float32
            parts = (part.astype(compute) for part in scale)
            return values.astype(compute), *parts
        compute = torch.float64 if values.dtype == torch.float64 else torch.float32
        return values.to(compute), *self._on(key, scale, values.device, compute)

    def _on(self, key: str, scale: Normalization, device: Any, compute: Any) -> tuple[Any, Any]:
        found = self._tensors.get((key, device, compute))
        if found is None:
            import torch

            with torch.inference_mode(False):  # a later call may need them for gradients
                subtract, multiply = (torch.from_numpy(part).to(device, compute) for part in scale)
            found = self._tensors[key, device, compute] = subtract, multiply
        return found


def _checked(name: str, given: object) -> dict[str, Normalization]:
    """Copies of the scales and offsets, after checks of their types, shapes and numbers."""
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{name}: expected a Normalization for each key, got {type(given).__name__}"
        )
    scales = {}
    for key, scale in given.items():
        if not isinstance(key, str):
            raise TypeError(f"{name}: expected names as keys, got {key!r}")
        of = f"{name}[{key!r}]"
        if not isinstance(scale, Normalization):
            raise TypeError(f"{of}: expected a Normalization, got {type(scale).__name__}")
        subtract, multiply = (array(f"{of}.{p}", x) for p, x in scale._asdict().items())
        if subtract.shape != multiply.shape:
            raise ValueError(
                f"{of}: expected as many numbers to multiply with as to subtract, got "
                f"{list(multiply.shape)} and {list(subtract.shape)}"
            )
        for part, numbers in (("subtract", subtract), ("multiply", multiply)):
            check_finite(f"{of}.{part}", numbers.reshape(-1))
        if not multiply.all():
            raise ValueError(f"{of}.multiply: expected numbers other than 0, which has no inverse")
        if subtract.size == 1 and subtract.ndim == 1:
            subtract, multiply = subtract.reshape(()), multiply.reshape(())
        scales[key] = Normalization(subtract.copy(), multiply.copy())
    return scales


def _check_modes(modes: object) -> Mapping[str, NormalizationMode]:
    if not isinstance(modes, Mapping):
        raise TypeError(
            f"modes: expected a mode for each key, as in {{'action': 'min_max'}}, got {modes!r}"
        )
    return modes


def _from_statistics(
    statistics: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    modes: Mapping[str, NormalizationMode],
    preset: Preset,
) -> dict[str, Normalization]:
    check_preset("preset", preset)
    found = {}
    for key, mode in modes.items():
        check_mode(f"modes[{key!r}]", mode, preset)
        scale = of_statistics(key, statistics[key], mode, preset)
        found[key] = Normalization(*(part.reshape(shapes[key]) for part in scale))
    return found


def _widest(given: object) -> tuple[int, ...]:
    """The shape of a key's statistics: [C,1,1] for LeRobot's images."""
    if isinstance(given, Mapping):
        parts = [np.shape(value) for name, value in given.items() if name != "count"]
        return max(parts, key=len, default=(-1,))
    return np.shape(given.subtract) if isinstance(given, Normalization) else (-1,)


def _of_ones(scale: Normalization) -> Normalization:
    """Converts the normalization of images from 0 to 255 to that of images from 0 to 1."""
    return Normalization(scale.subtract / 255, scale.multiply * 255)


def _check_shape(key: str, got: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    ends = got[len(got) - len(wanted) :]
    if len(got) >= len(wanted) and all(w in (1, g) for w, g in zip(wanted, ends, strict=True)):
        return
    shape = ",".join(["..."] + ["*" if size == 1 else str(size) for size in wanted])
    raise ValueError(f"{key}: expected [{shape}], got {list(got)}")


def _as(result: Any, values: Values) -> Values:
    """Converts a result to the dtype of the values that it was computed from."""
    like: Any = values
    rounded: Any
    if isinstance(like, np.ndarray):
        rounded = np.asarray(result, like.dtype)  # also where NumPy returned a scalar
    else:
        rounded = result.to(like.dtype)
    return cast(Values, rounded)
