"""`SampleIdentity`: binds states to the samples of a loader, and names changes since a state."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robocache.core.display import counted
from robocache.loader.sampling.episodes import Episodes
from robocache.loader.sampling.sampler import derived_seed
from robocache.store.episode_store import EpisodeStore

_PRIME = 2**31 - 1  # so that two sums fit into 62 bits
_PLACES = 2**20  # of each loader of a mixture
_CHANGED = "several of its shards changed, or episodes were appended, since the state was saved"
_UNKNOWN = "another store, or other options that choose its samples"


class Part(NamedTuple):
    """An option or a shard that samples depend on."""

    name: str
    check: int  # of its value or contents
    place: int  # its number among the parts of its kind, from 1; unique in a mixture too


class Shards(NamedTuple):
    """All shards of a loader's store."""

    parts: Sequence[Part]
    first_episodes: Sequence[int]  # of each shard, and the number of all episodes
    is_split: bool  # whether `split` draws the loader's episodes from those of all shards


@dataclass(frozen=True)
class SampleIdentity:
    """Identifies the samples of a loader or a mixture.

    A state has `fingerprint`, which decides whether it fits. It also has a summary of `options`
    and one of `shards`, which serve error messages alone: see :func:`summarize`.
    """

    fingerprint: int
    """63 bits of the anchors, the chosen episodes and the shards that hold them."""
    first_fingerprint: int
    """The fingerprint in states of version 1: of all shards of the store."""
    ranks: int
    """The ranks that a store is split over; 1: none is."""
    options: Sequence[Part]
    """The options that choose samples, the ranks first."""
    shards: Sequence[Shards]
    """The shards of each store."""

    def summaries(self) -> dict[str, int]:
        """The integers of a state that serve its error messages."""
        shards = [part for store in self.shards for part in store.parts]
        return {"options": summarize(self.options), "shards": summarize(shards)}

    def difference(self, state: Mapping[str, int]) -> str:
        """The hint of an error: how the samples differ from those of a state of version 2."""
        own = self.summaries()
        if state["options"] != own["options"]:
            option = find_changed(self.options, state["options"])
            if option is None:
                return "the state was saved with two or more other options that choose samples"
            return f"the state was saved with another value of {option.name}"
        if state["shards"] == own["shards"]:
            return _UNKNOWN
        for store in self.shards:
            count = _count_appended(own["shards"], store.parts, state["shards"])
            if count:
                return _appended(store, count)
        everything = [part for store in self.shards for part in store.parts]
        shard = find_changed(everything, state["shards"])
        if shard is None:
            return f"another store, or {_CHANGED}"
        return f"{shard.name} has other contents than when the state was saved"


def identify(
    store: EpisodeStore,
    table: NDArray[np.int64],
    anchors: NDArray[Any],
    anchor: str | float | None,
    episodes: Episodes,
    ranks: int,
) -> SampleIdentity:
    """The identity of the samples of a loader of one store.

    Args:
        store: The store.
        table: [E,4], the chosen episodes of all ranks: index in the store, task, start_ns, 0.
        anchors: [A] of anchors.ANCHOR, of all ranks.
        anchor: The stream whose rows are the anchors, or their rate in Hz.
        episodes: The user's choice.
        ranks: Those that the episodes are split over; 1: each rank has all.
    """
    shards = store._shards
    counts = np.array([shard.episodes for shard in shards], np.int64)
    is_chosen = np.zeros(len(shards), np.bool_)
    is_chosen[np.searchsorted(np.cumsum(counts), table[:, 0], side="right")] = True
    samples = hashlib.blake2b(digest_size=8)
    samples.update(np.ascontiguousarray(anchors).view(np.int64).data)
    samples.update(np.ascontiguousarray(table).data)
    prints: list[int] = []
    for numbers in (np.flatnonzero(is_chosen), range(len(shards))):
        digest = samples.copy()
        digest.update("".join(shards[i].crc32 for i in numbers).encode())
        prints.append(_integer(digest.digest()))
    if ranks > 1:
        prints = [derived_seed(each, ranks) for each in prints]
    by_ranks = "world_size (rc.Episodes(replicate=False) splits the store over ranks)"
    options: dict[str, object] = {by_ranks: ranks, "anchor": anchor}
    for name in ("tasks", "subset", "split", "split_seed", "time_ranges"):
        options[f"rc.Episodes({name}=)"] = getattr(episodes, name)
    options["rc.Episodes(indices=)"] = _plain(episodes.indices)
    options["rc.Episodes(predicate=)"] = episodes.predicate is not None
    for name in ("drop_n_first_frames", "drop_n_last_frames"):
        options[f"rc.Episodes({name}=)"] = int(getattr(episodes, name))
    firsts = [0, *np.cumsum(counts).tolist()]
    of_chosen, of_all = prints
    return SampleIdentity(
        of_chosen,
        of_all,
        ranks,
        _parts(options),
        [
            Shards(
                _parts({f"{shard.file} of {store.path}": shard.crc32 for shard in shards}),
                firsts,
                episodes.split is not None,
            )
        ],
    )


def join(
    parts: Sequence[SampleIdentity], thresholds: Sequence[int], samples: int
) -> SampleIdentity:
    """The identity of a mixture's samples.

    Args:
        parts: The identities of its loaders.
        thresholds: Of its weights.
        samples: Of an epoch.
    """
    ranks = max(part.ranks for part in parts)
    by_ranks = (
        "world_size (with rc.Episodes(replicate=False) a mixture goes on with the same number of "
        "ranks only)"
    )
    options = _parts({by_ranks: ranks, "weights": list(thresholds), "samples": samples})
    shards = []
    for i, part in enumerate(parts):
        first = (i + 1) * _PLACES
        options += [
            Part(f"{of.name} of loaders[{i}]", of.check, first + of.place)
            for of in part.options[1:]
        ]
        shards += [
            store._replace(parts=[of._replace(place=first + of.place) for of in store.parts])
            for store in part.shards
        ]

    def of_all(prints: Sequence[int]) -> int:
        text = repr((prints, list(thresholds), samples))
        return _integer(hashlib.blake2b(text.encode(), digest_size=8).digest())

    return SampleIdentity(
        of_all([part.fingerprint for part in parts]),
        of_all([part.first_fingerprint for part in parts]),
        ranks,
        options,
        shards,
    )


def _integer(digest: bytes) -> int:
    return int.from_bytes(digest, "little") >> 1


# ---- summaries -----------------------------------------------------------------------------------


def summarize(parts: Sequence[Part]) -> int:
    """62 bits of parts, from which :func:`find_changed` finds the one that changed.

    They are two sums of the parts' checks modulo a prime, the second weighted by place: if one
    check changes by d, the first sum changes by d and the second by d times its place.
    """
    plain, weighted = _sums(parts)
    return plain << 31 | weighted


def find_changed(parts: Sequence[Part], saved: int) -> Part | None:
    """The only part that differs from those of a summary; None: several do."""
    plain, weighted = _sums(parts)
    before = saved >> 31, saved & _PRIME
    by = (plain - before[0]) % _PRIME
    if by == 0:
        return None
    place = (weighted - before[1]) * pow(by, -1, _PRIME) % _PRIME
    return next((part for part in parts if part.place == place), None)


def _count_appended(own: int, parts: Sequence[Part], saved: int) -> int:
    """The number of the last parts without which a summary is the saved one; 0: none is."""
    plain, weighted = own >> 31, own & _PRIME
    for count, part in enumerate(reversed(parts), 1):
        plain = (plain - part.check) % _PRIME
        weighted = (weighted - part.check * part.place) % _PRIME
        if plain << 31 | weighted == saved:
            return count
    return 0


def _sums(parts: Sequence[Part]) -> tuple[int, int]:
    plain = sum(part.check for part in parts) % _PRIME
    return plain, sum(part.check * part.place for part in parts) % _PRIME


def _parts(values: Mapping[str, object]) -> list[Part]:
    return [Part(name, _check(value), i) for i, (name, value) in enumerate(values.items(), 1)]


def _check(value: object) -> int:
    digest = hashlib.blake2b(repr(value).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % _PRIME


def _plain(indices: Any) -> object:
    """Indices whose repr is the same for each kind of list of them."""
    if indices is None or isinstance(indices, slice):
        return indices
    return np.asarray(indices, np.int64).tobytes()


def _appended(store: Shards, count: int) -> str:
    old = len(store.parts) - count
    episodes = store.first_episodes[old]
    more = counted(store.first_episodes[-1] - episodes, "episode")
    text = f"{more} appended since the state was saved, from {store.parts[old].name} on"
    if store.is_split:
        return f"{text}; rc.Episodes(split=) draws from all episodes"
    return f"{text}; rc.Episodes(range({episodes})) leaves them out"
