"""An episode as a recording for Rerun's viewer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.display import cut
from robocache.core.extras import require
from robocache.doctor.episode_data import EpisodeData
from robocache.doctor.finding import Series

UNIX_NS = 100_000_000_000_000_000  # later times (1973) are Unix time, others durations
QUALITY = 90  # of JPEG


def write_rerun(episode: EpisodeData, streams: Sequence[Series], title: str, path: Path) -> None:
    """Writes an .rrd file: channels as lines, images of stores as pictures, at their own times.

    Args:
        episode: Where images come from.
        streams: The episode's, as it was loaded.
        title: What the viewer calls the recording.
        path: The file.

    Raises:
        MissingLibrary: If rerun-sdk is not installed.
    """
    rr = require("rerun", "a Rerun recording", "view", "writing")
    path.parent.mkdir(parents=True, exist_ok=True)
    recording = rr.RecordingStream("robocache", recording_id=cut(title, 200))
    recording.save(str(path))
    for series in streams:
        if not len(series.times):
            continue
        entity = "/" + series.name.strip("/").replace(" ", "_")
        if series.is_image:
            _log_frames(rr, recording, entity, episode, series)
            continue
        names = [series.channel(i) for i in range(series.values.shape[1])]
        recording.log(entity, rr.SeriesLines(names=names), static=True)
        recording.send_columns(
            entity,
            indexes=[rr.TimeColumn("time", **_timeline(series))],
            columns=rr.Scalars.columns(scalars=series.values.astype(np.float64)),
        )
    recording.flush()
    recording.disconnect()


def _log_frames(rr: Any, recording: Any, entity: str, episode: EpisodeData, series: Series) -> None:
    ((kind, times),) = _timeline(series).items()
    for row, time in enumerate(times):
        frames = episode.frames(series.name, [row])
        if frames is None:
            return
        recording.set_time("time", **{kind: time})
        recording.log(entity, rr.Image(frames[0]).compress(jpeg_quality=QUALITY))


def _timeline(series: Series) -> dict[str, NDArray[Any]]:
    """The times under Rerun's name for their kind."""
    if int(series.times[0]) > UNIX_NS:
        return {"timestamp": series.times.astype("datetime64[ns]")}
    return {"duration": series.times.astype("timedelta64[ns]")}
