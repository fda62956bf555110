"""Processes that read batches. Each has a pipe: it takes requests in order and sends a reply to each.

A process that ends, however it does, closes its pipe, which is seen at once: nothing is polled, and nothing waits for a
process that is gone. The batches of a process come in the order of requests, so who asks the processes in turn gets the
same order each time.
"""

from __future__ import annotations

import io
import os
import pickle
import queue
import random
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple, Optional

import numpy as np
from _tensord import Tensor

from tensord import connection
from tensord.errors import InvalidArgumentError
from tensord.utils.data.worker import WorkerInfo, set_worker_info

_PATIENCE = 5.0  # seconds that a process has to finish what it is doing


class Work(NamedTuple):
    """What a process does. fetcher(dataset) begins an epoch; what it gives is called with each request, and raises
    StopIteration when there is no more."""

    dataset: Any
    fetcher: Callable[[Any], Callable[[Any], Any]]
    worker_init_fn: Optional[Callable[[int], Any]]
    workers: int
    base_seed: int


class Ended(Exception):
    """An epoch of this process has no more batches."""


_EPOCH = "epoch"  # the request that begins one, which has no reply


class _Pickler(ForkingPickler):
    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, Tensor):
            return NotImplemented
        if obj.dtype.name.startswith(("bfloat16", "float8")):
            raise InvalidArgumentError(f"DataLoader: workers get tensors as NumPy arrays, which have no {obj.dtype.name}; "
                                       "give the data set another dtype, or use num_workers=0")
        return np.asarray, (np.array(obj.detach().numpy()),)


def _pickled(work: Work) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(work)
    return buffer.getvalue()


# ---- in the process

def _run(number: int, data: bytes, pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all of a terminal's processes; the parent ends this one
    connection.refuse("a worker of a DataLoader has no session: its data set and collate_fn compute with NumPy, and the "
                      "loader makes tensors of what they give")
    # The pipe is always read and written by threads: neither side can wait for the other to take what it sends.
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    replies: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stop = threading.Event()

    def receive() -> None:
        try:
            while (request := pipe.recv()) is not None:
                requests.put(request)
        except (EOFError, OSError):
            os._exit(1)  # the parent is gone
        stop.set()
        requests.put(None)

    def send() -> None:
        try:
            while (reply := replies.get()) is not None:
                pipe.send_bytes(reply)
        except OSError:
            pass  # nobody wants it any more

    threading.Thread(target=receive, daemon=True).start()
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    _serve(number, data, requests, replies, stop)
    replies.put(None)
    sender.join()


def _serve(number: int, data: bytes, requests: queue.SimpleQueue[Any], replies: queue.SimpleQueue[Any],
           stop: threading.Event) -> None:
    work: Optional[Work] = None
    fetch: Any = None
    failed: Optional[bytes] = None  # the reply to all requests, if it could not begin
    while (request := requests.get()) is not None and not stop.is_set():
        try:
            if work is None and failed is None:
                work = _begin(number, data)
            if work is not None and request == _EPOCH:
                fetch, failed = None, None
                fetch = work.fetcher(work.dataset)
                continue
        except Exception as error:
            failed = _failure(number, error)
        if request == _EPOCH:
            continue
        if failed is not None:
            replies.put(failed)
            continue
        try:
            replies.put(pickle.dumps(("data", fetch(request)), pickle.HIGHEST_PROTOCOL))
        except StopIteration:
            replies.put(pickle.dumps(("ended", None)))
        except Exception as error:
            replies.put(_failure(number, error))


def _begin(number: int, data: bytes) -> Work:
    work: Work = pickle.loads(data)
    seed = (work.base_seed + number) % 2**64
    random.seed(seed)
    np.random.seed(seed % 2**32)
    set_worker_info(WorkerInfo(number, work.workers, seed, work.dataset))
    if work.worker_init_fn is not None:
        work.worker_init_fn(number)
    return work


def _failure(number: int, error: Exception) -> bytes:
    text = f"{type(error).__name__} in worker {number} of a DataLoader. There:\n{traceback.format_exc()}"
    try:
        return pickle.dumps(("failed", (type(error), text)))
    except Exception:
        return pickle.dumps(("failed", (RuntimeError, text)))  # a class that the parent cannot find


# ---- in the parent

class Pool:
    """Processes numbered from 0. RuntimeError if one ends or takes longer than `timeout` seconds (0: any time) for a
    batch; an error of a process is raised here with the same class and its traceback as text."""

    def __init__(self, work: Work, context: Any, timeout: float) -> None:
        data = _pickled(work)
        self._timeout = timeout or None
        self.epoch = 0
        self.expected: deque[int] = deque()  # whose replies of this epoch are still to come, in order
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        for number in range(work.workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_run, args=(number, data, theirs), daemon=True)
            try:
                process.start()
            except BaseException:
                self.close()
                raise
            # The process alone holds its end, which closes with it.
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    @property
    def is_open(self) -> bool:
        return bool(self._pipes)

    def begin_epoch(self) -> None:
        """What is still to come of the last one is thrown away, whoever may wait for it."""
        self.epoch += 1
        while self.expected:
            number = self.expected.popleft()
            self.first_ready([number])
            try:
                self._pipes[number].recv_bytes()
            except (EOFError, ConnectionError):
                self._fail_ended(number)
        for number in range(len(self._pipes)):
            self.request(number, _EPOCH)

    def request(self, number: int, request: Any) -> None:
        try:
            self._pipes[number].send(request)
        except OSError:
            self._fail_ended(number)

    def first_ready(self, numbers: Sequence[int]) -> int:
        """The first of these processes that has a reply, or has ended."""
        pipes = {number: self._pipes[number] for number in numbers}
        ready = wait(list(pipes.values()), self._timeout)
        if not ready:
            pids = [self._processes[number].pid for number in pipes]
            self.kill()
            raise RuntimeError(f"DataLoader: no batch within {self._timeout} seconds from workers {pids}, which were ended")
        return next(number for number, pipe in pipes.items() if pipe in ready)

    def reply(self, number: int) -> Any:
        """Ended if there are no more."""
        self.first_ready([number])
        try:
            kind, value = pickle.loads(self._pipes[number].recv_bytes())
        except (EOFError, ConnectionError):
            self._fail_ended(number)
        if kind == "ended":
            raise Ended
        if kind == "failed":
            cls, text = value
            try:
                error = cls(text)
            except Exception:
                error = RuntimeError(text)  # a class with other arguments
            raise error from None
        return value

    def _fail_ended(self, number: int) -> None:
        process = self._processes[number]
        process.join(_PATIENCE)
        pid, code = process.pid, process.exitcode
        self.kill()
        how = f"by signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"with exit code {code}"
        raise RuntimeError(f"DataLoader: worker {number} (process {pid}) ended {how} before its batches were read")

    def close(self) -> None:
        """Asks all to end, and sees to it that they do."""
        self._end(_PATIENCE)

    def kill(self) -> None:
        self._end(0)

    def _end(self, patience: float) -> None:
        pipes, self._pipes = self._pipes, []
        processes, self._processes = self._processes, []
        for pipe in pipes:
            if patience:
                try:
                    pipe.send(None)
                except OSError:
                    pass  # it has ended
        if patience:
            # What they still send has to be taken, or they would wait for that.
            _drain(pipes, patience)
        for pipe in pipes:
            pipe.close()
        for process in processes:
            if not patience:
                process.kill()
            process.join(_PATIENCE)
            if process.is_alive():
                process.kill()
                process.join()


def _drain(pipes: list[Connection], patience: float) -> None:
    waiting: list[Any] = list(pipes)
    while waiting and (ready := wait(waiting, patience)):
        for pipe in ready:
            assert isinstance(pipe, Connection)
            try:
                pipe.recv_bytes()
            except (EOFError, OSError):
                waiting.remove(pipe)
