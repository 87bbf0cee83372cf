"""The result of `align`: streams on one timeline, as arrays, a pandas table or a file."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.display import counted, cut, listed, method_text
from robocache.core.extras import require
from robocache.core.tables import html_table
from robocache.doctor.finding import Times
from robocache.store.files import naming, temporary_path
from robocache.timeline.mcap_file import write_mcap
from robocache.timeline.stream import AlignedStream
from robocache.view.figures import check_picture

SUFFIXES = (".npz", ".csv", ".parquet", ".mcap")


class Aligned(Mapping[str, AlignedStream]):
    """Streams on one timeline: ``table["force"]`` is one, iterating gives their names.

    Attributes:
        times: [T] int64 ns, when the targets are, on the recording's clock.
        rate: Targets per second.
        notes: What was left out, in words.
    """

    def __init__(
        self,
        times: Times,
        rate: float,
        streams: Mapping[str, AlignedStream],
        notes: Sequence[str],
    ) -> None:
        self.times = times
        self.rate = rate
        self.notes = list(notes)
        self._streams = dict(streams)

    @property
    def seconds(self) -> NDArray[np.float64]:
        """[T]: the times in seconds since the first."""
        seconds: NDArray[np.float64] = (self.times - self.times[:1]) / 1e9
        return seconds

    @property
    def valid(self) -> NDArray[np.bool_]:
        """[T, streams]: which targets of which stream are real."""
        return np.stack([stream.valid for stream in self._streams.values()], axis=1)

    def __getitem__(self, name: str) -> AlignedStream:
        if name not in self._streams:
            raise KeyError(f"expected one of {', '.join(self._streams)}, got {name!r}")
        return self._streams[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)

    def __repr__(self) -> str:
        return f"Aligned({self._words()}: {listed(self._streams)})"

    def _words(self) -> str:
        return f"{counted(len(self.times), 'row')} at {self.rate:g} Hz, {self.seconds[-1]:.3f} s"

    def _repr_html_(self) -> str:
        rows = [
            [
                cut(name),
                f"{stream.values.dtype}{list(stream.values.shape[1:]) or ''}".replace(" ", ""),
                method_text(stream.method),
                f"{stream.valid.mean():.1%}",
            ]
            for name, stream in self.items()
        ]
        header = ("stream", "row", "method", "valid")
        return html_table(header, rows, (0, 1, 2), f"Aligned: {self._words()}")

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def to_numpy(self) -> dict[str, NDArray[Any]]:
        """Arrays by name: ``t_ns``, ``t_s``, and of each stream NAME, NAME_valid and NAME_age_s."""
        arrays: dict[str, NDArray[Any]] = {"t_ns": self.times, "t_s": self.seconds}
        for name, stream in self._streams.items():
            arrays[name] = stream.values
            arrays[f"{name}_valid"] = stream.valid
            arrays[f"{name}_age_s"] = stream.age / 1e9
        expected = 2 + 3 * len(self._streams)
        if len(arrays) != expected:
            raise ValueError("streams: expected names that differ from those of masks and ages")
        return arrays

    def to_pandas(self) -> Any:
        """A pandas DataFrame, its index `t_s`: what is not valid is missing.

        Columns are ``t_ns``, then of each stream its channels (``force.x``, or ``force.0``),
        ``force_valid`` and ``force_age_s``. Whole numbers and flags have pandas' types that know
        missing values.
        """
        try:
            import pandas
        except ModuleNotFoundError:
            raise ImportError("to_pandas needs pandas: pip install pandas") from None
        columns: dict[str, Any] = {"t_ns": self.times}
        for name, values, valid in self._columns():
            if valid is None or values.dtype.kind == "f":
                columns[name] = values
            elif values.dtype.kind == "b":
                columns[name] = pandas.arrays.BooleanArray(values.copy(), ~valid)
            else:
                columns[name] = pandas.arrays.IntegerArray(values.copy(), ~valid)
        return pandas.DataFrame(columns, index=pandas.Index(self.seconds, name="t_s"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the table to a ``.npz``, ``.csv``, ``.parquet`` or ``.mcap`` file, or replaces it.

        NPZ holds the arrays of :meth:`to_numpy`, CSV and Parquet a column for each channel, empty
        where it is not valid, MCAP a topic for each stream, with a JSON message at each time at
        which it is valid: ``{"x": 0.5, "y": 1.0, "alignment": {"age_s": 0.004}}``.

        Raises:
            ValueError: For another name, images in another file than NPZ, and times before 0 in
                MCAP.
            MissingLibrary: For Parquet without pyarrow, and for MCAP without mcap.
            OSError: If it can't be written. A file that was there stays.
        """
        path = Path(path)
        check_output("path", path)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = temporary_path(path.parent)
        try:
            with naming(path):
                with partial.open("wb") as file:
                    if path.suffix == ".npz":
                        np.savez(file, **self.to_numpy())  # type: ignore[arg-type]
                if path.suffix == ".csv":
                    self._write_csv(partial)
                elif path.suffix == ".parquet":
                    self._write_parquet(partial)
                elif path.suffix == ".mcap":
                    write_mcap(partial, self.times, self.rate, self._streams)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def plot(self, path: str | os.PathLike[str], title: str | None = None) -> list[str]:
        """Draws the table: aligned lines over recorded rows; steps that are not valid are shaded.

        Of more than 24 streams those that move are drawn, of more than 8 channels those that vary
        most; images are not drawn.

        Args:
            path: A ``.png``, ``.jpg``, ``.svg`` or ``.pdf`` file; one there is replaced.
            title: Of the picture. None: the rows, rate and length of the table.

        Returns:
            Notes on channels and streams left out: ``"8 of 26 channels of action, which vary
            most"``.

        Raises:
            ValueError: For another name, and for a table of images alone.
            MissingLibrary: Without matplotlib.
        """
        path = Path(path)
        check_picture("path", path)
        from robocache.view.aligned import draw_aligned

        size = f"{counted(len(self.times), 'row')} at {self.rate:g} Hz, {self.seconds[-1]:.4g} s"
        pairs = [stream.series(name, self.times) for name, stream in self._streams.items()]
        return draw_aligned(pairs, size if title is None else f"{title}: {size}", path)

    def _columns(self) -> Iterator[tuple[str, NDArray[Any], NDArray[np.bool_] | None]]:
        """Name, values [T] and mask of each column after the times."""
        seen = {"t_ns", "t_s"}
        for name, stream in self._streams.items():
            if stream.is_image:
                raise ValueError(
                    f"streams[{name}]: expected numbers that fit columns, got images (NPZ holds "
                    "images)"
                )
            flat = stream.values.reshape(len(self.times), -1)
            columns: list[tuple[str, NDArray[Any], NDArray[np.bool_] | None]] = [
                (column, flat[:, i], stream.valid) for i, column in enumerate(stream.columns(name))
            ]
            columns.append((f"{name}_valid", stream.valid, None))
            columns.append((f"{name}_age_s", stream.age / 1e9, None))
            for column in columns:
                if column[0] in seen:
                    raise ValueError(f"streams[{name}]: expected columns of different names, "
                                     f"got {column[0]} twice")  # fmt: skip
                seen.add(column[0])
                yield column

    def _write_csv(self, path: Path) -> None:
        names, columns = ["t_ns", "t_s"], [self.times.astype(str), self.seconds.astype(str)]
        for name, values, valid in self._columns():
            text = values.astype(int).astype(str) if values.dtype == bool else values.astype(str)
            names.append(name)
            columns.append(text if valid is None else np.where(valid, text, ""))
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(names)
            writer.writerows(zip(*columns, strict=True))

    def _write_parquet(self, path: Path) -> None:
        pyarrow = require("pyarrow", "Parquet", "parquet", "writing")
        parquet = require("pyarrow.parquet", "Parquet", "parquet", "writing")
        columns = {"t_ns": pyarrow.array(self.times), "t_s": pyarrow.array(self.seconds)}
        for name, values, valid in self._columns():
            mask = None if valid is None else ~valid
            columns[name] = pyarrow.array(np.ascontiguousarray(values), mask=mask)
        parquet.write_table(pyarrow.table(columns), path)


def check_output(option: str, path: Path) -> None:
    """Refuses a file that :meth:`Aligned.save` can't write, before the work for it is done.

    Raises:
        ValueError: For another name; the message lists the suffixes.
        MissingLibrary: If the library that writes it is not installed.
    """
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{option}: expected a name with {', '.join(SUFFIXES)}, got {path}")
    if path.suffix == ".parquet":
        require("pyarrow", "Parquet", "parquet", "writing")
    elif path.suffix == ".mcap":
        require("mcap", "MCAP", "ros", "writing")
