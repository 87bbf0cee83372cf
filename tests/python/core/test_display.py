"""Notebooks and prompts: no `repr` is long, HTML is escaped, names complete."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import robocache as rc
from robocache.core.display import cut, listed, short
from robocache.doctor.examine import Diagnosis
from robocache.doctor.finding import Finding
from robocache.image.augment import parse_augment
from robocache.image.drawn import draw
from robocache.loader.mixture.mixture import MixturePart
from robocache.store.marks import Mark

MS = 1_000_000
START = 1_700_000_000_000_000_000
STREAMS, CHANNELS, EPISODES = 60, 500, 150
EVIL = "<script>alert('&')</script>"
MOST_LINES, MOST_LETTERS = 25, 4000
STEPS: list[Any] = [
    rc.RandomCrop(0.9), rc.RandomResizedCrop(), rc.RandomRotation(5), rc.RandomAffine(5),
    rc.RandomHorizontalFlip(), rc.ColorJitter(0.3), rc.RandomBrightness(0.1), rc.RandomGamma(),
    rc.RandomGrayscale(), rc.RandomSharpness(0.5), rc.RandomErasing(), rc.GaussianNoise(),
    rc.CameraDropout(0.5),
]  # fmt: skip


def write_wide_store(folder: Path) -> rc.EpisodeStore:
    """60 streams with long names, 500 named channels, 100 methods in one row; 150 episodes."""
    layout = [("linear", 1), ("previous", 9)] * (CHANNELS // 10)
    names = [EVIL, "wide", "mixed", *(f"{i:02} {'long/' * 40}" for i in range(STREAMS - 3))]
    times = START + np.arange(4) * 20 * MS
    rng = np.random.default_rng(0)
    with rc.StoreWriter(folder) as writer:
        writer.declare("wide", channels=[f"channel {i} of many" for i in range(CHANNELS)])
        writer.declare("mixed", method=layout)
        for _ in range(EPISODES):
            source = f"{EVIL}{'long/' * 500}"
            with writer.episode(task=f"{EVIL} {'pick ' * 1000}", source=source) as episode:
                for name in names:
                    width = CHANNELS if name in ("wide", "mixed") else 1
                    values = rng.normal(size=(4, width)).astype(np.float32)
                    episode.add(name, times, values, valid=np.array([True, True, False, True]))
    return rc.EpisodeStore(folder)


def make_objects(folder: Path) -> dict[str, Any]:
    store = write_wide_store(folder)
    windows: dict[str, Any] = {name: [-0.02, 0.0] for name in store.streams}
    relative = rc.Window([-0.02, 0.0], relative_to="mixed")
    loader = rc.Loader(
        store,
        4,
        windows | {"wide": relative},
        anchor="wide",
        normalize=dict.fromkeys(windows, "mean_std"),
        statistics={"wide": store.statistics["wide"]},
        device="cpu",
        episodes=range(2),
    )
    plain = rc.Loader(store, 4, windows, anchor="wide", device="cpu", episodes=range(2))
    statistics = rc.compute_stats(plain)
    spec = loader.spec()
    aligner = rc.LiveAligner(spec)
    half = dict(list(windows.items())[: STREAMS // 2])  # a mixture has 64 windows at the most
    parts = [rc.Loader(store, 4, half, anchor="wide", device="cpu", episodes=[i]) for i in (0, 1)]
    mixture = rc.Loader.mixture(parts, [1, 1], samples=8, batch_size=4)
    episode = store[0]
    aligned = episode.align(50)
    replay = rc.replay_store(store, spec, episodes=[0])
    points = torch.rand(3000, 3)
    spans = tuple((i, i + 1) for i in range(1000))
    finding = Finding("gap", "warning", "text " * 500, "advice", rows=spans, spans=spans)
    diagnosis = Diagnosis(folder, "store", 1000, [finding] * 1000)
    conversion = rc.Conversion(folder, notes=["a note " * 100] * 1000)
    normalizer = rc.Normalizer(loader.normalization)
    plan = parse_augment(STEPS, {"front": 3}, seed=0)["front"].plan
    plan.geometry.height = plan.geometry.width = 8
    drawn = draw(plan, epoch=0, episode_index=range(1000), frame_index=0)
    marks = [Mark(episode, "wide", spans, "stuck") for episode in range(1000)]
    return {
        "build": rc.build_info(),
        "conversion": conversion,
        "repair": rc.Repair(folder, marks),
        "mark": marks[0],
        "store": store,
        "streams": store.streams,
        "episodes": store.episodes,
        "some episodes": store[3:],
        "statistics": store.statistics,
        "stream": store.streams["wide"],
        "mixed stream": store.streams["mixed"],
        "stream statistics": store.streams["wide"].statistics,
        "episode": episode,
        "rows": episode["mixed"],
        "loader": loader,
        "window": rc.Window([0.1] * 1000, method=[("linear", 1)] * CHANNELS, relative_to=EVIL),
        "chosen episodes": rc.Episodes(range(1000), tasks=[EVIL * 1000] * 1000),
        "normalization": loader.normalization,
        "one normalization": loader.normalization["wide"],
        "relative": loader.relative,
        "image": rc.Image(resize=(224, 224), mode="pad", crop=(1, 2, 30, 40), normalize="imagenet"),
        "one relative": rc.Relative("mixed", mask=[True] * CHANNELS),
        "dataset": loader.dataset,
        "stats": loader.stats(),
        "summary": loader.summary(),
        "mixture": mixture,
        "mixture's summary": mixture.summary(),
        "part": mixture.parts[0],
        "computed": statistics,
        "spec": spec,
        "stream spec": spec.stream("wide"),
        "normalizer": normalizer,
        "normalizer's": normalizer.normalization,
        "aligner": aligner,
        "live stats": aligner.stats(),
        "one live stats": aligner.stats()["wide"],
        "channel order": aligner.channel_order("wide", spec.stream("wide").channels),
        "ticket": rc.LiveTicket(2**62, START),
        "JPEG frames": rc.JpegFrames.encode(np.zeros((300, 8, 8, 3), np.uint8)),
        "ragged rows": rc.RaggedArray.from_rows([np.zeros((i, 3)) for i in range(300)]),
        "aligned": aligned,
        "aligned stream": aligned[EVIL],
        "replay": replay,
        "metrics": rc.metrics(),
        "metrics of many": rc.Metrics({}, {}, {f"{i}": rc.LoaderStats() for i in range(100)}),
        "diagnosis": diagnosis,
        "finding": finding,
        "fuse": rc.Stream(torch.zeros(300, 3), torch.arange(300), valid=torch.ones(300) > 0),
        "voxels": rc.voxelize_sparse(points, 0.1),
        "transform": rc.transforms.Normalize(normalizer),
        "augmentation": rc.Augment([rc.RandomGrayscale()] * 10_000),
        "drawn augmentation": drawn,
        "subset": rc.RandomSubset([rc.RandomGrayscale()] * 10_000, 1, [1.0] * 10_000),
    } | {type(step).__name__: step for step in STEPS}


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return make_objects(tmp_path_factory.mktemp("wide") / "store")


def test_every_repr_is_short(objects: Mapping[str, Any]) -> None:
    long = {
        name: (len(repr(x).splitlines()), len(repr(x)))
        for name, x in objects.items()
        if len(repr(x)) > MOST_LETTERS or len(repr(x).splitlines()) > MOST_LINES
    }
    assert long == {}


def test_every_public_class_is_tried(objects: Mapping[str, Any]) -> None:
    classes = {
        name
        for name in rc.__all__
        if isinstance(getattr(rc, name), type) and not issubclass(getattr(rc, name), Exception)
    }
    writers = {"ShardWriter", "StoreWriter", "MetricsCollector", "config"}  # of no data to show
    dicts = {"LiveBatch"}  # tensors by key, printed as any dict
    tried = {type(x).__name__ for x in objects.values()}
    assert classes - tried - writers - dicts == set()
    assert MixturePart.__name__ in tried


class Table(HTMLParser):
    """The tags of an HTML text, the texts of its cells, and the styles of the last row's cells."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.styles: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
            self.styles.clear()
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.styles.append(dict(attrs)["style"])

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


HTML = [
    "store", "streams", "stream", "mixed stream", "episodes", "episode", "loader", "mixture",
    "summary", "spec", "aligned",
]  # fmt: skip


@pytest.mark.parametrize("name", HTML)
def test_tables_of_notebooks(objects: Mapping[str, Any], name: str) -> None:
    html = objects[name]._repr_html_()
    table = Table(html)
    assert table.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert len({len(row) for row in table.rows}) == 1
    assert max(len(cell) for row in table.rows for cell in row) <= 1000
    assert len(html) < 60_000
    assert "<script" not in html
    if name in ("store", "streams", "episode", "loader", "mixture", "summary", "spec", "aligned"):
        of = 1 if name in ("mixture",) else 0
        assert EVIL in [row[of] for row in table.rows]


def test_a_table_has_a_row_for_each_stream(objects: Mapping[str, Any]) -> None:
    assert "store: 150 episodes, 3" in objects["store"]._repr_html_()
    rows = Table(objects["streams"]._repr_html_()).rows
    assert rows[0] == ["stream", "row", "method", "Hz", "units", "rows", "statistics"]
    assert len(rows) == STREAMS + 1
    assert rows[2] == ["wide", "F32[500]", "linear", "", "", "600", "yes"]
    episodes = Table(objects["episodes"]._repr_html_()).rows
    assert len(episodes) == 100 + 1
    assert episodes[1][:3] == ["0", "4", "0.060"]
    assert "150 episodes, of which the first 100 are shown" in objects["episodes"]._repr_html_()
    assert Table(objects["episode"]._repr_html_()).rows[2] == [
        "wide", "F32[500]", "linear", "50", "4", "75.0%",
    ]  # fmt: skip
    spec = Table(objects["spec"]._repr_html_()).rows
    assert spec[0][:5] == ["stream", "row", "Hz", "offsets", "method"]
    assert spec[2] == [
        "wide", "F32[500]", "50", "-0.02 to 0 s, 2 steps", "linear", "mean_std", "mixed", "F32",
    ]  # fmt: skip


TEXTS = {
    "stream", "key", "row", "method", "units", "statistics", "field", "value", "task", "subsets",
    "source", "offsets", "normalize", "relative to", "output",
}  # fmt: skip
"""Columns of texts; the other columns have numbers."""


@pytest.mark.parametrize("name", HTML)
def test_texts_are_aligned_on_the_left_and_numbers_on_the_right(
    objects: Mapping[str, Any], name: str
) -> None:
    table = Table(objects[name]._repr_html_())
    for column, style in zip(table.rows[0], table.styles, strict=True):
        assert style == f"text-align: {'left' if column in TEXTS else 'right'}", column


def test_a_long_summary_is_cut_and_print_shows_all(objects: Mapping[str, Any]) -> None:
    summary = objects["summary"]
    assert len(str(summary).splitlines()) == STREAMS + 2
    lines = repr(summary).splitlines()
    assert lines[-2:] == ["and 40 more (print shows all)", summary.caption]


def test_names_complete(objects: Mapping[str, Any]) -> None:
    names = list(objects["store"].streams)
    for name in ("streams", "statistics", "episode", "aligned", "normalization", "normalizer's",
                 "live stats", "computed"):  # fmt: skip
        value = objects[name]
        completed = (
            list(value) if isinstance(value, dict) else value._ipython_key_completions_()
        )  # of a dict IPython does by itself
        left_out = {"wide", "mixed"} if name == "aligned" else set()  # by default, as many channels
        assert sorted(completed) == sorted(set(names) - left_out), name
        assert value[completed[0]] is not None


def test_indices_that_others_would_try(objects: Mapping[str, Any]) -> None:
    with pytest.raises(TypeError) as error:
        objects["store"]["wide"]
    assert str(error.value) == (
        "episode: expected an index or a slice, got 'wide' (store.streams['wide'] describes the "
        "stream, store[0]['wide'] has its rows of episode 0, store.stream_rows('wide') all rows)"
    )
    with pytest.raises(TypeError) as error:
        objects["loader"][0]
    assert str(error.value) == (
        "Loader: expected no index (loader.dataset[0] is sample 0, loader.gather([0, 7]) a batch "
        "of samples, loader.next() the next batch, loader.store[0] an episode), got 0"
    )


def test_streams_are_read_only(objects: Mapping[str, Any]) -> None:
    with pytest.raises(TypeError, match=re.escape("does not support item assignment")):
        objects["streams"]["new"] = None
    assert "wide" in objects["streams"] and "narrow" not in objects["streams"]


def test_short_values() -> None:
    assert short(np.arange(3)) == "[0, 1, 2]"
    assert short(np.zeros((2, 9), np.float32)) == "float32[2, 9]"
    assert short(torch.zeros(3, dtype=torch.bfloat16)) == "bfloat16[3]"
    assert short([*range(9)]) == "[0, 1, 2, 3, 4, 5, ... 3 more]"
    assert short((1,)) == "(1,)"
    assert short({"a": [1, 2], "b": None}) == "{'a': [1, 2], 'b': None}"
    assert short(np.float64(0.5)) == repr(np.float64(0.5))
    assert listed("abc", 2) == "a, b and 1 more"
    assert cut("abcdefghij", 5) == "ab…ij"
    assert len(cut("x" * 300)) == 120
