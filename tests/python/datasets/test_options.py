"""Every option of the constructors of data sets: tried, or refused with a message of its own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from data_sets import LENGTHS, write_buffer, write_demonstrations, write_lerobot

import robocache as rc

for library in ("h5py", "pyarrow", "zarr"):
    pytest.importorskip(library, reason=f"data sets need {library}")

ROWS = sum(LENGTHS)
KEYS = {"from_lerobot": "state", "from_robomimic": "actions", "from_diffusion_policy": "action"}
NAMES = list(KEYS)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    writers = (write_lerobot, write_demonstrations, write_buffer)
    return {
        name: write(tmp_path_factory.mktemp(name))
        for name, write in zip(NAMES, writers, strict=True)
    }


Make = Callable[..., Any]


@pytest.fixture(params=NAMES)
def make(request: pytest.FixtureRequest, paths: dict[str, Path]) -> Make:
    name = request.param

    def made(**options: Any) -> Any:
        own = {"horizon": 1} if name == "from_diffusion_policy" else {}
        given = {"batch_size": 2, "device": "cpu", **own, **options}
        return getattr(rc.Loader, name)(paths[name], **given)

    made.__name__ = name
    return made


def values(batch: dict[str, Any], make: Make) -> list[float]:
    """The first element of each sample's first row, which counts rows in `KEYS`' streams."""
    rows = batch[KEYS[make.__name__]]
    return rows.reshape(len(rows), -1)[:, 0].tolist()


def everything(loader: Any, make: Make) -> list[float]:
    return values(loader.gather(range(len(loader.dataset))), make)


def check_refused(make: Make, kind: type[Exception], message: str, **options: Any) -> None:
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        make(**options)


# ---- the options of a loader ---------------------------------------------------------------------


def try_windows(make: Make) -> None:
    message = f"windows: expected none ({make.__name__} decides it), got one"
    check_refused(make, TypeError, message, windows={})


def try_delta_timestamps(make: Make) -> None:
    if make.__name__ == "from_lerobot":  # which has them itself
        assert make(delta_timestamps={"state": [0.0, 0.1]}).next()["state"].shape == (2, 2, 2)
        return
    message = f"delta_timestamps: expected none ({make.__name__} decides it), got one"
    check_refused(make, TypeError, message, delta_timestamps={})


def try_anchor(make: Make) -> None:
    assert everything(make(anchor=KEYS[make.__name__]), make) == everything(make(), make)
    with pytest.raises(ValueError, match=r"^anchor: expected a stream of the store \(.*got 'x'$"):
        make(anchor="x")
    message = f"anchor: expected a stream ({make.__name__} counts rows from the anchor's), got 10.0"
    check_refused(make, ValueError, message, anchor=10.0)


def try_shuffle(make: Make) -> None:
    loader = make(shuffle=False, batch_size=ROWS)
    assert values(loader.next(), make) == everything(loader, make)
    assert loader.state_dict()["shuffle"] == 0


def try_seed(make: Make) -> None:
    orders = {tuple(values(make(seed=seed, batch_size=ROWS).next(), make)) for seed in range(9)}
    assert len(orders) > 1
    check_refused(make, ValueError, f"seed: expected 0 to {2**64 - 1}, got -1", seed=-1)


def try_drop_last(make: Make) -> None:
    assert (len(make()), len(make(drop_last=True))) == (3, 2)


def try_normalize(make: Make) -> None:
    loader = make(normalize={KEYS[make.__name__]: "min_max"})
    found = everything(loader, make)
    assert (min(found), max(found)) == (-1.0, 1.0)


def try_statistics(make: Make) -> None:
    key = KEYS[make.__name__]
    width = 2 if make.__name__ == "from_lerobot" else 1
    given = {key: {"min": [0.0] * width, "max": [100.0] * width}}
    found = everything(make(normalize={key: "min_max"}, statistics=given), make)
    raw = everything(make(), make)
    assert found == pytest.approx([value / 50 - 1 for value in raw])


def try_concat(make: Make) -> None:
    given = {"all": [KEYS[make.__name__]]}
    if make.__name__ == "from_diffusion_policy":  # whose batches have the keys of the loader
        assert make(concat=given).next()["all"].shape == (2, 1, 1)
        return
    message = f"concat: expected none ({make.__name__} decides it), got one"
    check_refused(make, TypeError, message, concat=given)


def try_with_age(make: Make) -> None:
    if make.__name__ == "from_diffusion_policy":
        assert make(with_age=True).next()["action_age"].shape == (2, 1)
        return
    message = f"with_age: expected none ({make.__name__} decides it), got one"
    check_refused(make, TypeError, message, with_age=True)


def try_device(make: Make) -> None:
    assert make(device="cpu").device == torch.device("cpu")
    check_refused(
        make, TypeError, "device: expected a torch.device or its name, got float", device=3.5
    )


def try_budget(make: Make) -> None:
    loader = make(budget={"ram": "1MB"})
    assert everything(loader, make) == everything(make(), make)
    with pytest.raises(ValueError, match=r"^budget"):
        make(budget={"ram": 1})


def try_ranks(make: Make) -> None:
    parts = [make(rank=rank, world_size=2, shuffle=False) for rank in range(2)]
    found = [[x for batch in part for x in values(batch, make)] for part in parts]
    assert not set(found[0]) & set(found[1])
    assert len(found[0] + found[1]) == ROWS - 1  # the rest is smaller than the ranks


def try_reuse_buffers(make: Make) -> None:
    loader = make(reuse_buffers=True, shuffle=False)
    plain = make(shuffle=False)
    for _ in range(4):
        assert values(loader.next(), make) == values(plain.next(), make)


def try_transforms(make: Make) -> None:
    def add(batch: dict[str, Any], generator: torch.Generator) -> dict[str, Any]:
        return batch | {"noise": torch.rand(2, generator=generator)}

    loader, again = make(transforms=[add]), make(transforms=[add])
    assert loader.next()["noise"].tolist() == again.next()["noise"].tolist()


def try_augment(make: Make) -> None:
    if make.__name__ != "from_lerobot":  # its set alone has a camera
        with pytest.raises(ValueError, match=r"^augment: expected .*image"):
            make(augment="lerobot")
        return
    batch, again, plain = (make(augment=steps).next() for steps in ("lerobot", "lerobot", None))
    cameras = [
        key for key in batch if isinstance(batch[key], torch.Tensor) and batch[key].ndim >= 4
    ]
    assert cameras
    assert all(torch.equal(batch[key], again[key]) for key in cameras)
    assert not all(torch.equal(batch[key], plain[key]) for key in cameras)


def try_name(make: Make) -> None:
    assert make(name="a data set").name == "a data set"


TRIED: dict[str, Callable[[Make], None]] = {
    "windows": try_windows,
    "delta_timestamps": try_delta_timestamps,
    "anchor": try_anchor,
    "shuffle": try_shuffle,
    "seed": try_seed,
    "drop_last": try_drop_last,
    "normalize": try_normalize,
    "statistics": try_statistics,
    "concat": try_concat,
    "with_age": try_with_age,
    "device": try_device,
    "budget": try_budget,
    "rank": try_ranks,
    "world_size": try_ranks,
    "reuse_buffers": try_reuse_buffers,
    "transforms": try_transforms,
    "augment": try_augment,
    "name": try_name,
}


@pytest.mark.parametrize("option", TRIED)
def test_options_of_a_loader(make: Make, option: str) -> None:
    TRIED[option](make)


def test_every_option_of_a_loader_is_tried() -> None:
    """The others are parameters of the constructors themselves."""
    options = set(inspect.signature(rc.Loader).parameters)
    assert options - set(TRIED) == {"store", "batch_size", "episodes"}


# ---- the options of rc.Episodes ------------------------------------------------------------------

NUMBERS = {"from_lerobot": [1], "from_robomimic": [1], "from_diffusion_policy": [1]}
DECIDED = {
    "from_lerobot": (),
    "from_robomimic": ("subset", "drop_n_first_frames", "drop_n_last_frames"),
    "from_diffusion_policy": ("indices",),
}
WITH_PADDING = ("drop_n_first_frames", "drop_n_last_frames", "time_ranges")
CHOICES: dict[str, tuple[dict[str, Any], int]] = {
    # options, and the rows that they leave
    "indices": ({"indices": [1]}, 2),
    "tasks": ({"tasks": "pull"}, 2),
    "subset": ({"subset": "train"}, ROWS),  # of LeRobot's "splits"
    "predicate": ({"predicate": lambda episode: episode.length == 2}, 2),
    "split": ({"split": ("train", 0.5), "split_seed": 0}, 2),
    "split_seed": ({"split": ("train", 0.5), "split_seed": 3}, 3),
    "time_ranges": ({"time_ranges": [(0, 0.05)]}, 2),
    "drop_n_first_frames": ({"drop_n_first_frames": 1}, 3),
    "drop_n_last_frames": ({"drop_n_last_frames": 2}, 1),
    "replicate": ({"replicate": False}, 2),
}


@pytest.mark.parametrize("option", CHOICES)
def test_options_of_episodes(make: Make, option: str) -> None:
    given, rows = CHOICES[option]
    name, episodes = make.__name__, rc.Episodes(**given)
    if option in DECIDED[name]:
        default = getattr(rc.Episodes, option)
        message = f"episodes.{option}: expected {default!r} ({name} decides it), got "
        check_refused(make, ValueError, f"{message}{given[option]!r}", episodes=episodes)
    elif name == "from_diffusion_policy" and option in WITH_PADDING:
        message = f"{option}: expected none, since pad_before and pad_after choose windows here, "
        check_refused(make, ValueError, f"{message}got {given[option]}", episodes=episodes)
    elif option == "tasks" and name != "from_lerobot":  # whose data have none
        message = "tasks: expected nothing, since the store has none, got 'pull'"
        check_refused(make, ValueError, message, episodes=episodes)
    elif option == "subset" and name == "from_diffusion_policy":
        message = "subset: expected nothing, since the store has none, got 'train'"
        check_refused(make, ValueError, message, episodes=episodes)
    elif option == "replicate":
        loaders = [make(episodes=episodes, rank=rank, world_size=2) for rank in range(2)]
        assert {len(loader.dataset) for loader in loaders} == set(LENGTHS)
    else:
        assert len(make(episodes=episodes).dataset) == rows


def test_every_option_of_episodes_is_tried() -> None:
    fields = list(inspect.signature(rc.Episodes).parameters)
    assert fields == list(CHOICES)
