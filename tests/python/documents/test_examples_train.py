"""The training examples: the task that they generate, their loaders, and that they learn."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from recordings import DATA, needs
from support import assert_same_bits

import robocache as rc

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
PUSHT = DATA / "pusht_zarr" / "pusht.zarr"

sys.path.insert(0, str(EXAMPLES))

import transformer_step  # noqa: E402
from pusht import loaders, task  # noqa: E402

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> loaders.Data:
    folder = tmp_path_factory.mktemp("train")
    store = task.write_store(folder / "store", episodes=20, seed=0)
    return loaders.Data(store, task.RATE, *loaders.split(store), folder, CPU)


def run(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / program), *options],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


# The task -----------------------------------------------------------------------------------------


def test_distances_to_the_block() -> None:
    """They equal the smallest distance to many points of the outline."""
    points = np.random.default_rng(0).uniform(-150, 150, (500, 2))
    corners = task.OUTLINE + task.ORIGIN
    parts = np.linspace(0, 1, 400)[:, None]
    edges = [a + parts * (b - a) for a, b in zip(corners, np.roll(corners, -1, 0), strict=True)]
    outline = np.concatenate(edges)
    nearest = np.linalg.norm(points[:, None] - outline, axis=-1)
    distances, normals = task.distance_to_block(points)
    outside = distances > 0
    assert 100 < outside.sum() < 500
    np.testing.assert_allclose(distances[outside], nearest.min(-1)[outside], atol=0.1)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=-1), 1)
    on_it = (points - normals * distances[:, None])[outside]
    np.testing.assert_allclose(task.distance_to_block(on_it)[0], 0, atol=1e-9)


@pytest.mark.parametrize(
    ("at", "turns"), [(0.0, 0), (40.0, 1), (-40.0, -1)], ids=["middle", "right", "left"]
)
def test_a_push_on_the_bar(at: float, turns: int) -> None:
    """Against its outer edge: the block goes ahead, the pushed end first."""
    table = task.Table(1, np.random.default_rng(0))
    table.center, table.angle = np.array([[256.0, 256.0]]), np.zeros(1)
    table.pusher = np.array([[256.0 + at, 256.0 + task.ORIGIN[1] - task.RADIUS - 5]])
    table.velocity[:] = 0
    goal = table.pusher + np.array([0, 60])
    table.step(table.pusher.copy())
    np.testing.assert_array_equal(table.center, [[256.0, 256.0]])  # it was not touched
    for _ in range(10):
        table.step(goal)
    assert 5 < table.center[0, 1] - 256 < 60
    assert np.sign(round(float(table.angle[0]), 6)) == turns
    seen = task.rotate(table.pusher - table.center, -table.angle)
    assert task.distance_to_block(seen)[0] == pytest.approx(task.RADIUS, abs=0.1)


def test_demonstrations_reach_the_goal() -> None:
    found = task.demonstrate(10, seed=3)
    assert len(found) == 10
    for states, actions in found:
        assert states.shape == (len(actions), 5) and 16 < len(actions) <= task.LONGEST
        assert ((states >= 0) & (states <= task.TABLE)).all()
        assert np.abs(states[-1, 2:4] - task.GOAL[:2]).max() < 30
        assert abs(task.wrap(states[-1, 4] - task.GOAL[2])) < 0.4
    again, other = task.demonstrate(10, seed=3), task.demonstrate(10, seed=4)
    for (a, b), (c, d) in zip(found, again, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)
    assert not np.array_equal(found[0][0][0], other[0][0][0])


def test_share_reached() -> None:
    def stay(states: task.Floats) -> task.Floats:
        return states[:, :2]

    assert task.share_reached(stay, 10, seed=0, steps=5) < 0.3


# Loaders ------------------------------------------------------------------------------------------


def all_samples(data: loaders.Data) -> dict[str, torch.Tensor]:
    """As RoboCache has them."""
    loader = loaders.robocache_loader(data, data.train, batch_size=1, seed=0)
    return loaders.pick(loader.gather(range(len(loader.dataset))))


def test_windows_are_the_loaders(data: loaders.Data) -> None:
    """The plain torch Dataset has the same samples, to the bit."""
    dataset = loaders.Windows(data)
    in_order = torch.utils.data.DataLoader(dataset, batch_size=len(dataset))
    (batch,) = loaders.prepare(iter(in_order), data, lambda batch: batch)
    for key, values in all_samples(data).items():
        assert_same_bits(batch[key], values, key)


@pytest.mark.parametrize("name", ["robocache", "torch"])
def test_batches(data: loaders.Data, name: str) -> None:
    """Normalized, of the samples that there are, each once in an epoch."""
    batches = loaders.LOADERS[name](data, 16, 0, 0)
    there = all_samples(data)
    known = torch.cat([values.float().flatten(1) for values in there.values()], 1)
    seen = []
    for _ in range(len(known) // 16):
        batch = next(batches)
        assert list(batch) == ["state", "action", "is_pad"]
        assert batch["state"].shape == (16, 2, 5) and batch["action"].shape == (16, 16, 2)
        assert batch["is_pad"].shape == (16, 16) and batch["is_pad"].dtype == torch.bool
        assert all(batch[key].abs().max() <= 1 + 1e-6 for key in ("state", "action"))
        rows = torch.cat([values.float().flatten(1) for values in batch.values()], 1)
        difference, which = torch.cdist(rows, known, p=torch.inf).min(1)
        assert difference.max() < 1e-6
        seen += which.tolist()
    assert len(set(seen)) == len(seen) > 900


# Training -----------------------------------------------------------------------------------------


def train(data: loaders.Data, loader: str = "robocache", steps: int = 60) -> Any:
    import train_pusht

    with train_pusht.determinism():
        return train_pusht.train(loader, data, train_pusht.Options(steps, 64, 32, 0, 0))


def test_training_learns_the_same_twice(data: loaders.Data) -> None:
    pytest.importorskip("matplotlib")
    one, two = train(data), train(data)
    assert one.losses[-1] < 0.8 * one.losses[0]
    assert one.losses == two.losses
    for a, b in zip(one.policy.parameters(), two.policy.parameters(), strict=True):
        assert_same_bits(a, b)
    assert len(one.waits) == len(one.works) == 60
    assert 0 < one.waiting < 1 and one.samples_per_second > 0
    assert one.seconds_to(10) == one.seconds(one.evaluated[0]) and one.seconds_to(0) is None


def test_a_run_of_one_step(data: loaders.Data) -> None:
    """Its rates are those of the first step, which longer runs leave out."""
    pytest.importorskip("matplotlib")
    run = train(data, steps=1)
    (waited,), (worked,) = run.waits, run.works
    assert run.samples_per_second == pytest.approx(64 / (waited + worked))
    assert run.waiting == pytest.approx(waited / (waited + worked))
    run.waits, run.works = [8.0, 1.0, 1.0], [8.0, 3.0, 3.0]
    assert (run.samples_per_second, run.waiting) == (16, 0.25)


def test_resumed_training_equals_an_uninterrupted_run(data: loaders.Data, tmp_path: Path) -> None:
    """Stopped between two checkpoints it continues with the very next sample: losses and weights
    are equal to the bit."""
    pytest.importorskip("matplotlib")
    from train_pusht import Options, Saving, determinism, save_checkpoint
    from train_pusht import train as run_training

    options = Options(steps=12, batch_size=600, width=16, seed=0, workers=0)
    seen: list[int] = []

    def stop(steps: int, loss: float) -> None:
        seen.append(steps)
        if steps == 8:
            raise InterruptedError

    with determinism():
        whole = run_training("robocache", data, options)
        with pytest.raises(InterruptedError):
            run_training("robocache", data, options, Saving(tmp_path, 5, resume=False), stop)
        saving = Saving(tmp_path, 5, resume=True)
        state = torch.load(saving.checkpoint, weights_only=True)
        assert state["steps"] == 5 and seen[-1] == 8 and state["loader"]["epoch"] > 0
        seen.clear()
        resumed = run_training("robocache", data, options, saving, lambda *at: seen.append(at[0]))
        assert seen == whole.evaluated[1:] == [6, 7, 8, 9, 10, 11, 12]
        assert (resumed.evaluated, resumed.losses) == (whole.evaluated, whole.losses)
        assert len(resumed.waits) == len(resumed.works) == 12
        for a, b in zip(resumed.policy.parameters(), whole.policy.parameters(), strict=True):
            assert_same_bits(a, b)
        assert torch.load(saving.checkpoint, weights_only=True)["steps"] == 12
        assert rc.replay_store(data.store, saving.spec).differing_bits == 0

        state["loader"]["position"] -= 600  # the batch before once more
        save_checkpoint(saving.checkpoint, state)
        assert run_training("robocache", data, options, saving).losses != whole.losses
        other = Options(steps=13, batch_size=600, width=16, seed=0, workers=0)
        message = (
            "--steps: expected 12, as the checkpoint was trained with, got 13 (train anew without "
            "--resume)"
        )
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            run_training("robocache", data, other, saving)


def test_loaders_train_alike(data: loaders.Data) -> None:
    """To the same loss within the noise of another order; tests/parity has the other loaders."""
    pytest.importorskip("matplotlib")
    ours, theirs = train(data, steps=300), train(data, "torch", steps=300)
    assert theirs.losses[-1] == pytest.approx(ours.losses[-1], rel=0.1)


def test_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    options = ["--steps", "8", "--batch-size", "32", "--width", "16", "--output", str(tmp_path)]
    done = run("train_pusht.py", *options, "--loader", "robocache", "torch", "--loss", "9")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("300 episodes, ")
    rows = [line.split() for line in lines if line.startswith(("robocache ", "torch "))]
    assert [row[0] for row in rows] == ["robocache", "torch"]
    assert all(len(row) == 9 and row[-1] == "%" for row in rows), lines
    picture = tmp_path / "training.png"
    assert lines[-4:] == [
        f"Picture: {picture}",
        f"Checkpoint: {tmp_path / 'checkpoint.pt'}",
        f"Policy spec: {tmp_path / 'policy_spec.json'}",
        "Replay: 28,579 anchors, 0 differing bits",
    ]
    assert picture.read_bytes().startswith(b"\x89PNG")
    again = run("train_pusht.py", *options, "--loss", "9")
    assert again.returncode == 0, again.stderr
    (row,) = (line.split() for line in again.stdout.splitlines() if line.startswith("robocache "))
    assert row[-3:] == rows[0][-3:], "the same loss and share of goals in another process"

    monkeypatch.setattr(sys, "argv", ["train_pusht.py", *options, "--loss", "9", "--resume"])
    monkeypatch.setattr(task, "share_reached", lambda *_: 0.5)  # which takes long
    importlib.import_module("train_pusht").main()
    said = capsys.readouterr().out.splitlines()
    (resumed,) = (line.split() for line in said if line.startswith("robocache "))
    assert resumed == [*row[:-2], "50", "%"], "nothing is left to train; its history was saved"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "a checkpoint {0}/checkpoint.pt, got no such file (train without --resume first)"),
        (
            ("--loader", "robocache", "torch"),
            "--loader robocache, which alone can be resumed, got robocache torch",
        ),
    ],
)
def test_nothing_to_resume(
    options: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("matplotlib")
    command = ["train_pusht.py", "--output", str(tmp_path), "--resume", *options]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as stop:
        importlib.import_module("train_pusht").main()
    assert stop.value.code == 2
    assert capsys.readouterr() == ("", f"error: --resume: expected {message.format(tmp_path)}\n")
    assert not list(tmp_path.iterdir()), "nothing is generated"


@needs(PUSHT)
def test_recordings_of_people(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("zarr")
    options = ["--steps", "8", "--batch-size", "32", "--width", "16", "--output", str(tmp_path)]
    done = run("train_pusht.py", *options, "--data", str(PUSHT))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("206 episodes, 25,650 rows; 8 steps of 32 samples on CPU")


@pytest.mark.parametrize("program", ["train_pusht", "transformer_step"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--steps", "0"), "--steps: expected an integer of 1 or more, got 0"),
        (("--device", "tpu"), "--device: expected cpu or cuda, got tpu"),
    ],
)
def test_wrong_options(
    program: str,
    options: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys, "argv", [program, *options])
    with pytest.raises(SystemExit) as stop:
        importlib.import_module(program).main()
    assert stop.value.code == 2
    assert capsys.readouterr() == ("", f"error: {message}\n")


# The transformer ----------------------------------------------------------------------------------


def test_the_usual_torch_code() -> None:
    values, times, targets = transformer_step.make_recordings(transformer_step.SMALL, CPU)
    torch.testing.assert_close(
        transformer_step.usual_torch_code(values, times, targets),
        rc.resample_trajectories(values, times, targets),
    )


def test_the_transformer_learns_the_same_twice() -> None:
    small = transformer_step.SMALL
    runs = [
        transformer_step.measure(small, CPU, "float32", 12, rc.resample_trajectories)
        for _ in range(2)
    ]
    (parts, losses), (_, again) = runs
    assert tuple(parts) == transformer_step.PARTS and min(parts.values()) > 0
    assert losses == again and losses[-1] < losses[0]


def test_the_transformer_program() -> None:
    done = run("transformer_step.py", "--small", "--steps", "3")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.endswith(tuple("0123456789"))]
    assert [row.split("  ")[0] for row in rows] == [
        "float32", "bfloat16", "bfloat16, usual torch code",
    ]  # fmt: skip
    assert all(row.count("%") == 4 for row in rows)
