"""Several loaders as one, whose samples are drawn by weight: ``Loader.mixture``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from robocache.loader.outputs import Batch

if TYPE_CHECKING:
    from robocache.loader.loader import Loader
    from robocache.loader.mixture.loader import MixedLoader


class FromLoaders:
    """The part of :class:`Loader` that mixes others."""

    @staticmethod
    def mixture(
        loaders: Sequence[Loader],
        weights: Sequence[float],
        samples: int,
        batch_size: int,
        *,
        keys: Sequence[Mapping[str, str]] | None = None,
        seed: int = 0,
        drop_last: bool = False,
        concat: Mapping[str, Sequence[str]] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        reuse_buffers: bool = False,
        transforms: Sequence[Callable[[Batch, torch.Generator], Batch]] = (),
        name: str | None = None,
    ) -> MixedLoader:
        """A loader whose batches mix the samples of several, still one launch each.

        Each sample is drawn by itself: its loader by weight, then any of that loader's samples,
        each as likely. So an epoch of `samples` may have a sample twice, and leave others out.

        Each loader keeps its store, anchors, windows and statistics; of its own batch size, order,
        ranks and buffers nothing is left. Its streams are taken over and not copied. A batch has
        the keys of all, as :class:`Loader` describes them, and

        - ``dataset_index``: [B] int64, which of `loaders` a sample is of. ``episode_index`` and
          ``task_index`` count in that one's store.
        - ``<key>_dim_is_pad``: [B,D] bool, of a key whose vectors are not as wide in every loader:
          True where an element is none of the sample's. It is 0 there, after normalization.

        Where a loader has not a key, its samples have zeros there, all padded, in every dimension.

        ``index`` and :meth:`Loader.gather` count the samples of the first loader, then those of the
        second, and so on. A state goes on with the same loaders, weights and `samples`.

        Args:
            loaders: One of each data set, all on one device and with the same `with_age`; without
                transforms and concat, which the mixture has, and a budget.
            weights: How often each is drawn, against their sum: numbers of 0 or more. Taken
                exactly: shares are the same on every machine. 0: it is in `gather` alone.
            samples: Of an epoch.
            batch_size: B, of each rank.
            keys: For each loader, names that some of its keys have in the mixture:
                ``[{"qpos": "state"}, {}]``. What has one name must have as many steps in all of
                them, an axis of them or not, one type, and rows of one shape; vectors may differ
                in width.
            seed: Decides what is drawn, with the epoch's number.
            drop_last: As of :class:`Loader`, and so are the others.
            concat: By the mixture's keys.
            rank: Which of several loaders this is.
            world_size: How many they are.
            reuse_buffers: Whether a batch is overwritten by the next one of its size.
            transforms: Functions of a batch and a generator.
            name: None: the names of the loaders, with + between them.

        Raises:
            ValueError: Loaders, keys or weights that do not fit each other; more than 64 windows.
            TypeError: For an argument of a wrong type.

        Example:
            >>> loader = rc.Loader.mixture([aloha, droid], [0.3, 0.7], 10**6, batch_size=256)
            >>> for batch in loader:
            ...     is_pad = batch["action_is_pad"][..., None] | batch["action_dim_is_pad"][:, None]
            ...     loss = (policy(batch) - batch["action"]).square()[~is_pad].mean()
        """
        from robocache.loader.mixture.loader import MixedLoader

        return MixedLoader(
            loaders,
            weights,
            samples,
            batch_size,
            keys=keys,
            seed=seed,
            drop_last=drop_last,
            concat=concat,
            rank=rank,
            world_size=world_size,
            reuse_buffers=reuse_buffers,
            transforms=transforms,
            name=name,
        )
