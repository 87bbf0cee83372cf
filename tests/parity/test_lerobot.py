"""rc.Loader.from_lerobot beside LeRobotDataset, item by item: v3.0 by LeRobot 0.4, v2.1 by 0.3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lerobot_sets
import pytest
import torch
from comparing import compare

import robocache as rc

HERE = Path(__file__).parent
OLDER = HERE.parents[1] / "build/parity/lerobot-0.3"
FPS = (30, 10)
STEP = 1 / 30


@dataclass
class Case:
    """The arguments of one comparison of LeRobotDataset with from_lerobot."""

    deltas: dict[str, list[float]] | None = None
    episodes: list[int] | None = None
    fps: int = 30
    tolerance_s: float = 1e-4
    refused: str = ""  # how from_lerobot's error begins; LeRobot refuses too, some only an item
    is_v2_too: bool = True

    def request(self, root: Path) -> dict[str, Any]:
        wanted = {"delta_timestamps": self.deltas, "episodes": self.episodes}
        return {"root": str(root), "tolerance_s": self.tolerance_s, **wanted}


VECTORS = ("observation.state", "action", "observation.grid", "observation.field",
           "observation.bits", "serial", "contacts")  # fmt: skip
SCALARS = ("counter", "next.done", "next.reward", "score", "frame_index", "episode_index", "index")

CASES = {
    "nothing": Case(),
    "policy": Case({
        "observation.state": [-2 * STEP, 0.0], "action": [k * STEP for k in range(9)],
        "observation.image": [-STEP, 0.0], "observation.film": [-STEP, 0.0],
    }),
    "one offset": Case({"observation.image": [0.0], "observation.film": [0.0], "action": [0.0]}),
    "one offset away": Case({"observation.image": [-STEP], "observation.film": [STEP]}),
    "vectors": Case({key: [-3 * STEP, STEP, STEP, 0.0] for key in VECTORS}),
    "scalars": Case({key: [-STEP, 0.0, 5 * STEP] for key in SCALARS}),
    "a task index": Case({"task_index": [STEP]}),
    "past every episode": Case({"action": [-40 * STEP, 40 * STEP], "next.done": [9.0]}),
    "some episodes": Case({"action": [-STEP, 2 * STEP], "observation.film": [0.0]}, [4, 2],
                          is_v2_too=False),  # LeRobot 0.3 fails: it looks for their ends elsewhere
    "an episode of a row": Case({"action": [-STEP, STEP]}, [1], is_v2_too=False),
    "sloppy offsets": Case({"action": [0.0333, -0.0667, 0.1]}),
    "halves": Case({"action": [k * STEP / 2 for k in (-5, -3, -1, 1, 3, 5)]}, tolerance_s=0.02),
    "10 Hz": Case({"observation.state": [-0.3, 0.1], "observation.film": [-0.1]}, fps=10),
    "between rows": Case({"action": [0.0, 0.01]}, refused="offsets['action']: "),
    "two task indices": Case({"task_index": [0.0, STEP]}, refused="delta_timestamps['task_index']"),
    "unknown": Case({"arm": [0.0]}, refused="delta_timestamps: "),
    "no offsets": Case({"action": []}, refused="offsets['action']: "),
    "no offsets of video": Case({"observation.film": []}, refused="offsets['observation"),
}  # fmt: skip


@dataclass
class Sets:
    """The data sets by version and rate, and what LeRobot made of each case."""

    roots: dict[tuple[str, int], Path] = field(default_factory=dict)
    items: dict[tuple[str, str], Any] = field(default_factory=dict)


@pytest.fixture(scope="session")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Sets:
    folder = tmp_path_factory.mktemp("lerobot")
    found = Sets()
    for fps in FPS:
        v3 = lerobot_sets.write_v3(folder / f"v3-{fps}", fps)
        store = v3.with_name(f"{v3.name}-store")
        found.roots["v3.0", fps] = v3
        found.roots["v2.1", fps] = lerobot_sets.write_v2(folder / f"v2-{fps}", v3, store)
    for version, library in (("v3.0", ""), ("v2.1", str(OLDER))):
        names = [name for name, case in CASES.items() if version == "v3.0" or case.is_v2_too]
        requests = [CASES[n].request(found.roots[version, CASES[n].fps]) for n in names]
        answers = ask(requests, folder / version, library)
        found.items |= {(version, n): answer for n, answer in zip(names, answers, strict=True)}
    return found


def ask(requests: list[dict[str, Any]], folder: Path, library: str) -> list[Any]:
    """The answers of a LeRobot version, which runs in a separate process."""
    folder.mkdir()
    (folder / "requests.json").write_text(json.dumps(requests))
    files = [str(folder / "requests.json"), str(folder / "items.pt")]
    caches = {"HF_HOME": str(folder / "hub"), "HF_HUB_OFFLINE": "1"}
    subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / "lerobot_items.py"), *files],
        env={**os.environ, "PYTHONPATH": library, **caches},
        check=True,
    )
    return torch.load(files[1], weights_only=True)


def version_of(library: str) -> str:
    names = {"v3.0": "peers.txt", "v2.1": "peers-v21.txt"}
    lines = (HERE / names[library]).read_text().splitlines()
    return next(line for line in lines if line.startswith("lerobot")).partition("==")[2]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.refused])
@pytest.mark.parametrize("version", ["v3.0", "v2.1"])
def test_items(sets: Sets, version: str, name: str) -> None:
    case = CASES[name]
    if version == "v2.1" and not case.is_v2_too:
        pytest.skip("LeRobot 0.3 does not read it")
    items = sets.items[version, name]
    assert not isinstance(items, str), items
    loader = rc.Loader.from_lerobot(
        sets.roots[version, case.fps], case.deltas, batch_size=4, episodes=case.episodes,
        tolerance_s=case.tolerance_s, device="cpu",
    )  # fmt: skip
    assert len(loader.dataset) == len(items)
    library = f"LeRobot {version_of(version)}"
    compare(library, f"{version}", loader.gather(range(len(items))), items)
    # Drawn batches are the same samples.
    batch = loader.next()
    order = {int(item["index"].flatten()[0]): item for item in items}
    if case.deltas is None or "index" not in case.deltas:
        compare(library, f"{version}", batch, [order[i] for i in batch["index"].tolist()])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.refused])
def test_refused(sets: Sets, name: str) -> None:
    case = CASES[name]
    for version in ("v3.0", "v2.1"):
        assert isinstance(sets.items[version, name], str)
        with pytest.raises(ValueError, match=r"expected") as error:
            rc.Loader.from_lerobot(sets.roots[version, case.fps], case.deltas, batch_size=1)
        assert str(error.value).startswith(case.refused)


def test_a_dataset_of_lerobot(sets: Sets) -> None:
    """Its own choices hold where the call has none."""
    lerobot = pytest.importorskip("lerobot.datasets.lerobot_dataset")
    dataset = lerobot.LeRobotDataset(
        "made/here", sets.roots["v3.0", 30], episodes=[2], video_backend="pyav",
        delta_timestamps={"action": [0.0, STEP]},
    )  # fmt: skip
    loader = rc.Loader.from_lerobot(dataset, batch_size=2, device="cpu")
    items = [dataset[i] for i in range(len(dataset))]
    compare(f"LeRobot {version_of('v3.0')}", "v3.0", loader.gather(range(len(items))), items)
