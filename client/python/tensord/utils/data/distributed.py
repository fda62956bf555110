"""A part of a data set for each of several programs, as torch.utils.data.distributed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized
from typing import Optional

import numpy as np

from tensord.errors import InvalidArgumentError
from tensord.utils.data.sampler import Sampler, _checked_flag, _listed


class DistributedSampler(Sampler[int]):
    """Every num_replicas-th sample, from the one of number `rank` on. All programs draw the same order from the seed and
    the epoch, another for each set_epoch(), and get as many samples: the first ones once more if need be, or with drop_last
    without the last ones.

    There are no groups of processes to ask, so num_replicas and rank are always given. One program on several devices needs
    none of this: Tensor.shard divides a batch.
    """

    def __init__(self, dataset: Sized, num_replicas: Optional[int] = None, rank: Optional[int] = None, shuffle: bool = True,
                 seed: int = 0, drop_last: bool = False) -> None:
        if num_replicas is None or rank is None:
            raise InvalidArgumentError("DistributedSampler: there are no groups of processes here, so say num_replicas and "
                                       "rank")
        if not 0 <= rank < num_replicas:
            raise InvalidArgumentError(f"DistributedSampler: rank is {rank}; it is at least 0 and below num_replicas, "
                                       f"{num_replicas}")
        self.dataset, self.num_replicas, self.rank, self.seed, self.epoch = dataset, num_replicas, rank, seed, 0
        self.shuffle = _checked_flag("DistributedSampler", shuffle, "shuffle")
        self.drop_last = _checked_flag("DistributedSampler", drop_last, "drop_last")
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order = list(range(count))
        if self.shuffle:
            order = _listed(np.random.Generator(np.random.Philox((self.seed + self.epoch) % 2**64)).permutation(count))
        if count and not self.drop_last:
            order = (order * math.ceil(self.total_size / count))[:self.total_size]
        return iter(order[self.rank:self.total_size:self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Before each epoch, in all programs: else the order stays the same."""
        self.epoch = epoch


__all__ = ["DistributedSampler"]
