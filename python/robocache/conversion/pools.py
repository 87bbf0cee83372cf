"""Executors of a conversion's tasks: this process, worker processes, or a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import connection
from types import FrameType
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from robocache.core.extras import install_hint
from robocache.readers import MissingLibrary

Result = TypeVar("Result")
Task = tuple[Any, ...]
"""The arguments of a call."""

RETRIES = 3  # of a task whose worker died, on Ray
PATIENCE_S = 5.0  # to wait for idle worker processes to exit


class WorkerDiedError(Exception):
    """The worker process of a task died before the task finished."""


class Pool(Protocol):
    """Interface of an executor of tasks."""

    window: int
    """Number of tasks to keep in flight."""

    def submit(self, function: Callable[..., Any], task: Task) -> Any:
        """Starts a call; returns its handle."""

    def result(self, handle: Any) -> Any:
        """Waits for a call and returns its result.

        Raises:
            WorkerDiedError: The worker died; other tasks in flight may be lost too.
        """

    def renewed(self, handle: Any, function: Callable[..., Any], task: Task) -> Any:
        """Returns the call's handle, resubmitted if the death of another's worker lost the call."""

    def close(self) -> None:
        """Ends all calls that still run."""


def run_in_order(
    pool: Pool, function: Callable[..., Result], tasks: Iterable[Task]
) -> Iterator[tuple[Task, Result | None]]:
    """Yields each task with its result, in order; the result is None if its worker died twice.

    At most `pool.window` tasks are in flight, so that results do not accumulate.
    """
    waiting: deque[tuple[Task, Any]] = deque()
    remaining = iter(tasks)
    while True:
        while len(waiting) < pool.window and (task := next(remaining, None)) is not None:
            waiting.append((task, pool.submit(function, task)))
        if not waiting:
            return
        task, handle = waiting.popleft()
        result: Result | None
        try:
            result = pool.result(handle)
        except WorkerDiedError:
            # Any of the tasks in flight may have killed the worker. Wait for the others, run this
            # task again alone, and then resubmit those that were lost.
            for _, other in waiting:
                with suppress(Exception):  # raised again when that task's result is due
                    pool.result(other)
            try:
                result = pool.result(pool.submit(function, task))
            except WorkerDiedError:
                result = None
            waiting = deque((t, pool.renewed(h, function, t)) for t, h in waiting)
        yield task, result


class Inline:
    """Runs tasks in this process, one after the other."""

    window = 1

    def submit(self, function: Callable[..., Any], task: Task) -> Callable[[], Any]:
        """Defers the call until its result is requested."""
        return lambda: function(*task)

    def result(self, handle: Callable[[], Any]) -> Any:
        """Runs the call."""
        return handle()

    def renewed(self, handle: Any, function: Callable[..., Any], task: Task) -> Any:
        """Returns the handle: there is no worker whose death could lose it."""
        return handle

    def close(self) -> None:
        """Does nothing: no call runs in the background."""


class Processes:
    """Runs tasks in spawned processes: the libraries of some readers do not survive a fork."""

    def __init__(self, workers: int) -> None:
        self.window = 2 * workers
        self._workers = workers
        self._executor = self._start()
        self._handles: WeakSet[Future[Any]] = WeakSet()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._workers, multiprocessing.get_context("spawn"), initializer=_end_with_parent
        )

    def submit(self, function: Callable[..., Any], task: Task) -> Future[Any]:
        """Queues a call."""
        with _interrupts_blocked():  # a process that starts here inherits the mask
            try:
                handle = self._executor.submit(function, *task)
            except BrokenProcessPool:
                self._end(0.0)
                self._executor = self._start()
                handle = self._executor.submit(function, *task)
        self._handles.add(handle)
        return handle

    def result(self, handle: Future[Any]) -> Any:
        """Waits for a call; after a worker's death the next `submit` starts a new pool."""
        try:
            return handle.result()
        except BrokenProcessPool as error:
            raise WorkerDiedError from error

    def renewed(self, handle: Future[Any], function: Callable[..., Any], task: Task) -> Future[Any]:
        """Submits the call again if the pool broke before it finished."""
        broke = handle.done() and isinstance(handle.exception(), BrokenProcessPool)
        return self.submit(function, task) if broke else handle

    def close(self) -> None:
        """Ends the worker processes, even busy ones."""
        # Idle processes exit by themselves and clean up after their libraries.
        is_busy = any(not handle.done() for handle in self._handles)
        self._end(0.0 if is_busy else PATIENCE_S)

    def _end(self, patience: float) -> None:
        # Join each process here: the executor would wait forever for one that started while the
        # pool broke.
        processes = list((self._executor._processes or {}).values())
        results: Any = self._executor._result_queue
        self._executor.shutdown(wait=False, cancel_futures=True)
        end = time.monotonic() + patience
        try:
            for process in processes:
                process.join(max(0.0, end - time.monotonic()))
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.join()
            # A worker may have died halfway through writing a result. The executor's thread waits
            # for the rest, and Python joins that thread at exit: closing the writer ends the read.
            if results is not None:
                results._writer.close()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Defers Ctrl-C to the block's end, so that a starting worker is not interrupted.

    A process that starts here inherits the mask. The mask alone does not protect the main thread:
    any other thread may receive the signal, and Python acts on it in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    handler = signal.signal(signal.SIGINT, lambda *signals: received.append(signals))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, signal.SIG_DFL if handler is None else handler)
        if received and callable(handler):
            handler(*received[0])


def _end_with_parent() -> None:
    """Initializes a worker: it exits when its parent dies, and ignores Ctrl-C.

    A worker that outlived its parent would still write to the store's folder. The parent handles
    Ctrl-C.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class RayTasks:
    """Runs tasks on a Ray cluster whose machines share the store's folder and the recordings."""

    def __init__(self, address: str) -> None:
        try:
            import ray
        except ModuleNotFoundError as error:
            raise MissingLibrary(
                f"converting on Ray needs ray: {install_hint('ray')}", name="ray"
            ) from error
        self._ray: Any = ray
        self._was_running = ray.is_initialized()
        if not self._was_running:
            local = address == "local"
            ray.init(address=None if local else address, log_to_driver=False)
        cores = sum(node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"])
        self.window = 2 * max(1, int(cores))
        self._remote: dict[Callable[..., Any], Any] = {}

    def submit(self, function: Callable[..., Any], task: Task) -> Any:
        """Queues a call; Ray retries it if its worker dies."""
        if function not in self._remote:
            self._remote[function] = self._ray.remote(max_retries=RETRIES)(function)
        return self._remote[function].remote(*task)

    def result(self, handle: Any) -> Any:
        """Waits for a call and returns its result."""
        try:
            return self._ray.get(handle)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from error
        except (
            self._ray.exceptions.WorkerCrashedError,
            self._ray.exceptions.OutOfMemoryError,
            self._ray.exceptions.NodeDiedError,
        ) as error:
            raise WorkerDiedError from error

    def renewed(self, handle: Any, function: Callable[..., Any], task: Task) -> Any:
        """Returns the handle: on Ray a worker's death loses no other task."""
        return handle

    def close(self) -> None:
        """Disconnects from the cluster if this object connected to it."""
        if not self._was_running:
            self._ray.shutdown()
