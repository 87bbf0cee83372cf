"""LiveAligner.undo by tickets: an answer is relative to the query that it came from."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from live_specs import ACTION, MS, SPEC, make_stream
from torch.utils import _pytree

import robocache as rc
from robocache.loader.window_spec import RelativeTo

RELATIVE = replace(ACTION, normalization=None, relative_to=RelativeTo("joints", (0, 1)))
RELATIVE_SPEC = rc.PolicySpec([make_stream("joints"), RELATIVE], anchor="joints")
ZEROS = np.zeros((1, 2))


def expect(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message


def ticket_of(batch: rc.LiveBatch) -> rc.LiveTicket:
    assert batch.ticket is not None
    return batch.ticket


def test_an_asynchronous_policy() -> None:
    """Each answer comes three queries late, while the joints move."""
    aligner = rc.LiveAligner(RELATIVE_SPEC)
    batches: list[rc.LiveBatch] = []
    for i in range(20):
        aligner.push("joints", i * MS, [i, -i])
        batches.append(aligner.query(i * MS))
        if i >= 3:
            of = batches[i - 3]
            assert aligner.undo("action", ZEROS, of).tolist() == [[i - 3, 3 - i]]
            assert aligner.undo("action", ZEROS, of.ticket).tolist() == [[i - 3, 3 - i]]
    sequences = [ticket_of(batch).sequence for batch in batches]
    assert sequences == sorted(set(sequences))
    assert [ticket_of(batch).now_ns for batch in batches] == [i * MS for i in range(20)]


def test_the_last_queries_are_known() -> None:
    aligner = rc.LiveAligner(RELATIVE_SPEC, kept_queries=2)
    assert aligner.kept_queries == 2
    batches = []
    for i in range(3):
        aligner.push("joints", i * MS, [i, -i])
        batches.append(aligner.query(i * MS))
    old = ticket_of(batches[0])
    message = (
        "batch: expected a query of this aligner since its last reset, one of the last 2, got "
        f"query {old.sequence} at 0 ns (the option kept_queries)"
    )
    expect(RuntimeError, message, lambda: aligner.undo("action", ZEROS, batches[0]))
    assert aligner.undo("action", ZEROS, batches[1]).tolist() == [[1, -1]]
    other = rc.LiveAligner(RELATIVE_SPEC)
    other.push("joints", 0, [7, 7])
    foreign = other.query(0)
    with pytest.raises(RuntimeError, match=r"^batch: expected a query of this aligner"):
        aligner.undo("action", ZEROS, foreign)
    message = "kept_queries: expected 1 to 65536, got 0"
    expect(ValueError, message, lambda: rc.LiveAligner(SPEC, kept_queries=0))
    message = "kept_queries: expected an int, got float"
    no_int: Any = 1.0
    expect(TypeError, message, lambda: rc.LiveAligner(SPEC, kept_queries=no_int))


def test_relative_answers_need_the_batch() -> None:
    aligner = rc.LiveAligner(RELATIVE_SPEC)
    batch: Any = aligner.query(0)
    hint = "(undo('action', action, batch))"
    why = "or its ticket, since action is relative to joints"
    for given, got in (
        (None, "NoneType"),
        (dict(batch), "dict"),
        (rc.LiveBatch(), "one without a ticket"),
        (3, "int"),
    ):
        message = f"batch: expected the batch that query returned, {why}, got {got} {hint}"
        expect(TypeError, message, lambda given=given: aligner.undo("action", ZEROS, given))
    plain = rc.LiveAligner(SPEC)
    assert np.array_equal(plain.undo("action", ZEROS), plain.undo("action", ZEROS, batch))
    message = f"batch: expected the batch that query returned, or its ticket, got dict {hint}"
    no_batch: Any = {}
    expect(TypeError, message, lambda: plain.undo("action", ZEROS, no_batch))


def test_batches_are_dicts_that_keep_their_tickets() -> None:
    aligner = rc.LiveAligner(RELATIVE_SPEC)
    batch = aligner.query(5 * MS)
    assert isinstance(batch, dict) and list(batch) == ["joints", "joints_is_pad"]
    doubled = _pytree.tree_map(lambda tensor: tensor * 2, batch)
    for same in (
        doubled,
        copy.copy(batch),
        copy.deepcopy(batch),
        pickle.loads(pickle.dumps(batch)),
    ):
        assert type(same) is rc.LiveBatch and same.ticket == batch.ticket
        assert list(same) == list(batch)
    assert torch.equal(doubled["joints"], batch["joints"] * 2)
    # Batches of other queries have the same structure, as exported programs require.
    specs = [_pytree.tree_flatten(each)[1] for each in (batch, aligner.query(6 * MS))]
    assert specs[0] == specs[1]
    program = torch.export.export(_Policy(), (batch,)).module()
    later = aligner.query(7 * MS)
    assert torch.equal(program(later), later["joints"] + 1)


class _Policy(torch.nn.Module):
    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return batch["joints"] + 1


def test_answers_are_refused_where_training_is_padded(tmp_path: Path) -> None:
    """The mask of the loader's actions, at every anchor, decides whether undo takes an answer."""
    count = 40
    times = np.arange(count) * 10 * MS
    keep = np.ones(count, bool)
    keep[10:20] = False  # a silence of the joints, longer than max_gap_s
    valid = np.ones(count, bool)
    valid[30:33] = False
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        rows = np.arange(count, dtype=np.float32)[:, None]
        episode.add("joints", times[keep], rows[keep], valid=valid[keep])
        episode.add("action", times, rows)
    windows = {
        "joints": rc.Window([-0.01, 0.0], max_gap_s=0.025),
        "action": rc.Window([0.0], relative_to="joints"),
    }
    loader = rc.Loader(tmp_path / "s", 40, windows, anchor="action", shuffle=False, device="cpu")
    trained = loader.next()
    assert 5 < int(trained["action_is_pad"].sum()) < 20
    aligner = rc.LiveAligner(loader.spec())
    for i in range(count):
        if keep[i]:
            aligner.push("joints", int(times[i]), rows[i], valid=bool(valid[i]))
        batch = aligner.query(int(times[i]))
        action = trained["action"][i : i + 1]
        if trained["action_is_pad"][i].any():
            with pytest.raises(RuntimeError, match=r"^undo: expected a valid value of joints"):
                aligner.undo("action", action, batch)
        else:
            assert aligner.undo("action", action, batch).item() == i
