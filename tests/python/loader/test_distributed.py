"""Several ranks by torchrun: what they draw, a rank that dies, and the example."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import distributed_job as job
import pytest
import torch
import torch.distributed as dist
from loader_stores import write_store

import robocache as rc

TESTS = Path(__file__).parents[1]
EXAMPLES = TESTS.parents[1] / "examples"

sys.path.insert(0, str(EXAMPLES))

import train_distributed  # noqa: E402
from pusht import task  # noqa: E402

Steps = dict[int, list[tuple[int, int]]]


def run_job(store: rc.EpisodeStore, folder: Path) -> Path:
    """The folder of two ranks' samples, one of which died and was restarted."""
    folder.mkdir()
    subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", "--max-restarts", "1", "--monitor-interval", "0.1"),
            *(str(TESTS / "helpers/distributed_job.py"), store.path, str(folder)),
        ],
        env=os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},  # as docs/training.md says
        check=True,
        timeout=300,
        capture_output=True,
    )
    return folder


def read(path: Path) -> Steps:
    steps: Steps = {}
    for line in path.read_text().splitlines():
        step, *numbers = map(int, line.split())
        steps[step] = list(zip(numbers[::2], numbers[1::2], strict=True))
    return steps


def steps_of(folder: Path, kind: str, rank: int) -> Steps:
    """All of a rank's, those of the second attempt in place of those that were lost."""
    attempts = [read(path) for path in sorted(folder.glob(f"{kind}-{rank}-*"))]
    return {step: places for attempt in attempts for step, places in attempt.items()}


def test_ranks_share_out_epochs_and_go_on(tmp_path: Path) -> None:
    """One job, since starting it is what takes time."""
    store = write_store(tmp_path / "store", episodes=5)
    drawn = run_job(store, tmp_path / "drawn")
    for kind in job.KINDS:
        loaders = [job.make(store.path, kind, rank=rank, world_size=2) for rank in range(2)]
        ranks = [steps_of(drawn, kind, rank) for rank in range(2)]
        whole = everything(job.make(store.path, kind, rank=0, world_size=1))
        check_epochs(kind, loaders, ranks, set(whole))
        for loader, steps in zip(loaders, ranks, strict=True):
            expected = {step: places_of(loader.next()) for step in range(2 * len(loader))}
            assert steps == expected, "as if nothing had happened"
    lost = read(drawn / "split-1-0")
    resumed = read(drawn / "split-1-1")
    assert max(lost) == job.DEATH - 1 and min(resumed) == job.DEATH // job.SAVE * job.SAVE


def check_epochs(
    kind: str, loaders: list[rc.Loader], ranks: list[Steps], whole: set[tuple[int, int]]
) -> None:
    """Nothing comes twice in an epoch; nothing is left out but what the documents say."""
    batches = len(loaders[0])
    assert [sorted(steps) for steps in ranks] == [list(range(2 * batches))] * 2
    left_out = len(whole) % 2
    if kind == "split":
        sizes = [len(loader.dataset) for loader in loaders]
        left_out = max(sizes) - min(sizes)
        assert sum(sizes) == len(whole)
    for epoch in range(2):
        span = range(epoch * batches, (epoch + 1) * batches)
        places = [place for steps in ranks for step in span for place in steps[step]]
        assert len(set(places)) == len(places) == len(whole) - left_out
        assert set(places) <= whole
    for step in range(2 * batches):
        sizes = [len(steps[step]) for steps in ranks]
        assert max(sizes) - min(sizes) <= (0 if kind == "split" else 1)


def everything(loader: rc.Loader) -> list[tuple[int, int]]:
    return places_of(loader.gather(range(len(loader.dataset))))


def places_of(batch: dict[str, torch.Tensor]) -> list[tuple[int, int]]:
    return list(zip(batch["episode_index"].tolist(), batch["frame_index"].tolist(), strict=True))


# ---- the example ---------------------------------------------------------------------------------


def test_the_example_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stopped and started again it trains the same weights, to the bit."""
    data = task.write_store(tmp_path / "store", episodes=4, seed=0).path

    def run(output: str, *options: str) -> Any:
        command = ["train_distributed.py", "--data", data, "--output", str(tmp_path / output)]
        monkeypatch.setattr(sys, "argv", [*command, "--batch-size=16", "--width=8", *options])
        _, found = train_distributed.parse_options()
        train_distributed.train(found)
        return torch.load(tmp_path / output / "checkpoint.pt", weights_only=True)

    meeting = f"file://{tmp_path / 'meeting'}"
    dist.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
    try:
        whole = run("whole", "--steps=6")
        run("stopped", "--steps=4")
        resumed = run("stopped", "--steps=6")
    finally:
        dist.destroy_process_group()
    assert whole["step"] == resumed["step"] == 6 and whole["loader"] == resumed["loader"]
    for key, weights in whole["model"].items():
        assert torch.equal(weights, resumed["model"][key]), key
    said = capsys.readouterr().out
    assert "from step 4 to 6" in said and "samples/s in all" in said
    monkeypatch.setattr(sys, "argv", ["train_distributed.py"])
    with pytest.raises(SystemExit):
        train_distributed.main()
    assert capsys.readouterr().err.startswith("error: expected torchrun --nproc-per-node N")
