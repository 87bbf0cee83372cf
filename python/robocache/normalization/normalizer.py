"""`Normalizer`: what a loader does to values, after the fact and back."""

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
    """Normalizes values by key, ``y = (x - subtract) * multiply``, and gives them back.

    ``Loader(normalize=normalizer)`` does the same within its one launch. The numbers are of values
    as batches have them; images are from 0 to 1 with colors first.

    Args:
        normalization: Scale and offset by key. Their axes lie against the last axes of a value,
            where 1 matches any size: [C] of vectors, [C,1,1] of images, [] of numbers.

    Raises:
        TypeError, ValueError: `normalization[<key>]: expected ..., got ...`: it is no
            Normalization of finite numbers, has parts of two shapes, or multiplies by 0.

    Example:
        >>> normalizer = rc.Normalizer.from_store(store, {"action": "min_max"}, preset="lerobot")
        >>> loader = rc.Loader(store, 64, {"action": [0.0, 0.02]}, normalize=normalizer)
        >>> action = normalizer.unnormalize("action", policy(batch))
    """

    def __init__(self, normalization: Mapping[str, Normalization]) -> None:
        self._scales = _checked("normalization", normalization)
        # As tensors, by key, device and type: a copy to the GPU for every call would wait for it.
        self._tensors: dict[tuple[str, Any, Any], tuple[Any, Any]] = {}

    # ---- where its numbers come from -------------------------------------------------------------

    @staticmethod
    def from_store(
        store: EpisodeStore,
        modes: Mapping[str, NormalizationMode],
        *,
        preset: Preset = "robocache",
    ) -> Normalizer:
        """By the statistics of a store's streams.

        Args:
            store: An episode store.
            modes: A mode for each stream that is to be normalized: ``{"action": "min_max"}``.
            preset: Whose formulas, as :func:`normalization` takes it.

        Raises:
            TypeError, ValueError: `modes: expected ..., got ...`: a stream that the store has not,
                or has no statistics of; a mode that the preset has not.
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
        """By statistics of :func:`compute_stats`, or others.

        Args:
            statistics: What :func:`compute_stats` gives; or by key a mapping with LeRobot's names:
                ``mean``, ``std``, ``min``, ``max``, ``q01``, ``q10``, ``q90``, ``q99``, ``count``,
                those that the mode needs, whose axes lie as those of a value: [C,1,1] of images.
            modes: A mode for each key that is to be normalized.
            preset: Whose formulas, as :func:`normalization` takes it.

        Raises:
            TypeError, ValueError: `modes: ...` or `statistics[<key>]: expected ..., got ...`: a key
                without statistics, or statistics without what the mode needs.
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
        """By a statistics file of LeRobot or openpi.

        Args:
            path: LeRobot's ``stats.json``, or v2.1's ``episodes_stats.jsonl``, whose episodes are
                taken together; openpi's ``norm_stats.json``; or a folder that has one of them, a
                LeRobot data set for instance.
            modes: A mode for each key of the file that is to be normalized.
            preset: Whose formulas; None: those of the library that the file is of.

        Raises:
            OSError: There is no such file.
            ValueError: `<path>: expected ..., got ...`: it is none of these; or as
                :meth:`from_statistics`.
        """
        from robocache.normalization.files import read_statistics

        statistics, library = read_statistics(path)
        return Normalizer.from_statistics(statistics, modes, preset=preset or library)

    @staticmethod
    def from_loader(loader: _Normalizing) -> Normalizer:
        """The normalization of a loader's batches: ``loader.normalizer()``.

        Raises:
            ValueError: It is a mixture, whose parts have a normalization each.
        """
        return loader.normalizer()

    # ---- forward and back ------------------------------------------------------------------------

    @property
    def normalization(self) -> Mapping[str, Normalization]:
        """Scale and offset by key."""
        return ByName(self._scales)

    def forward(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """A batch whose values are normalized; what it has besides stays as it is.

        Args:
            batch: Tensors or arrays by key, as a loader gives them.

        Raises:
            TypeError, ValueError: It has none of the normalizer's keys; or as :meth:`normalize`.
        """
        return self._each(batch, self.normalize)

    def inverse(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The batch that :meth:`forward` made this one of, up to rounding.

        Raises:
            TypeError, ValueError: As :meth:`forward`.
        """
        return self._each(batch, self.unnormalize)

    def normalize(self, key: str, values: Values) -> Values:
        """Values of a key, normalized.

        Computed in float64 if they are of that type, else in float32, and rounded once: the bits of
        a loader that does it by itself, where the stream has the type of `values`.

        Args:
            key: One of the normalizer's.
            values: A tensor on any device, or an array; of floats, with any axes before those of
                the scale: [B,K,C] and [C], or [B,C,H,W].

        Returns:
            What `values` is, of the same type and shape, on the same device.

        Raises:
            TypeError: `<key>: expected ..., got ...`: values are no floats.
            ValueError: They have another width; or the key is unknown.
        """
        x, subtract, multiply = self._ready(key, values)
        return _as((x - subtract) * multiply, values)

    def unnormalize(self, key: str, values: Values) -> Values:
        """Values of a key as they were: ``x = y / multiply + subtract``.

        Args, Returns, Raises: as of :meth:`normalize`.
        """
        y, subtract, multiply = self._ready(key, values)
        return _as(y / multiply + subtract, values)

    # ---- as tensors ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Its numbers as float64 tensors on the CPU: ``<key>.subtract`` and ``<key>.multiply``."""
        import torch

        return {
            f"{key}.{part}": torch.tensor(numbers, dtype=torch.float64, device="cpu")
            for key, scale in self._scales.items()
            for part, numbers in scale._asdict().items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Becomes the normalizer whose state this is; what it had is gone.

        Raises:
            TypeError, ValueError: `state: expected ..., got ...`: it is no normalizer's; then
                nothing changes.
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

    # ---- within ----------------------------------------------------------------------------------

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
        """Values, and what is subtracted and multiplied, in the type to compute in."""
        scale = self._scales.get(key)
        if scale is None:
            known = ", ".join(self._scales) or "none"
            raise ValueError(f"key: expected {known}, got {key!r}")
        torch: Any = sys.modules.get("torch")  # a tensor can't come from anywhere else
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

            with torch.inference_mode(False):  # they may be needed for gradients later
                subtract, multiply = (torch.from_numpy(part).to(device, compute) for part in scale)
            found = self._tensors[key, device, compute] = subtract, multiply
        return found


def _checked(name: str, given: object) -> dict[str, Normalization]:
    """Scales of arrays of one shape each, of finite numbers."""
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
    """The axes of a key's statistics, which LeRobot's images have three of."""
    if isinstance(given, Mapping):
        parts = [np.shape(value) for name, value in given.items() if name != "count"]
        return max(parts, key=len, default=(-1,))
    return np.shape(given.subtract) if isinstance(given, Normalization) else (-1,)


def _of_ones(scale: Normalization) -> Normalization:
    """The scale of pictures from 0 to 1, from that of their bytes."""
    return Normalization(scale.subtract / 255, scale.multiply * 255)


def _check_shape(key: str, got: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    ends = got[len(got) - len(wanted) :]
    if len(got) >= len(wanted) and all(w in (1, g) for w, g in zip(wanted, ends, strict=True)):
        return
    shape = ",".join(["..."] + ["*" if size == 1 else str(size) for size in wanted])
    raise ValueError(f"{key}: expected [{shape}], got {list(got)}")


def _as(result: Any, values: Values) -> Values:
    """A result in the type of the values that it was made from."""
    like: Any = values
    rounded: Any
    if isinstance(like, np.ndarray):
        rounded = np.asarray(result, like.dtype)  # a number of no axes is no array otherwise
    else:
        rounded = result.to(like.dtype)
    return cast(Values, rounded)
