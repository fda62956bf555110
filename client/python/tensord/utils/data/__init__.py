"""Data sets, the order in which they are read, and batches of them, as torch.utils.data.

    loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=2)
    for images, labels in loader: ...

Where this is not PyTorch:

- Workers are started by the method "spawn" or "forkserver" and have no session: a data set that they read is pickled,
  with NumPy arrays for its tensors, and what they collate comes to this process as tensors. So their collate_fn computes
  with NumPy, and a program that uses workers begins with `if __name__ == "__main__":`.
- Orders are drawn on the host, from a seed that the generator gives; they are other ones than PyTorch's.
- pin_memory changes nothing.
- There are no groups of processes: a DistributedSampler is told num_replicas and rank.
"""

from __future__ import annotations

from tensord.utils.data.collate import default_collate, default_convert
from tensord.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from tensord.utils.data.distributed import DistributedSampler
from tensord.utils.data.loader import DataLoader
from tensord.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from tensord.utils.data.worker import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler", "IterableDataset", "RandomSampler",
    "Sampler", "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset",
    "WeightedRandomSampler", "WorkerInfo", "default_collate", "default_convert", "get_worker_info", "random_split",
]  # fmt: skip
