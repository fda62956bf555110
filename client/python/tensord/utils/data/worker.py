"""What a process knows that reads data for a DataLoader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional


@dataclass(frozen=True)
class WorkerInfo:
    """Of the process that asks: its number, the number of workers, its seed, and its own copy of the data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: Optional[WorkerInfo] = None


def get_worker_info() -> Optional[WorkerInfo]:
    """None outside of a DataLoader's workers. An IterableDataset reads by it the part that is its own."""
    return _info


def set_worker_info(info: WorkerInfo) -> None:
    global _info
    _info = info
