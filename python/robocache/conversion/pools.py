"""Where the work of a conversion runs: in this process, in others, or on a Ray cluster."""

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
PATIENCE_S = 5.0  # with idle processes that are to end


class WorkerDiedError(Exception):
    """The process of a task ended before the task did."""


class Pool(Protocol):
    """Runs functions somewhere; a context manager's exit ends what still runs."""

    window: int
    """How many tasks to have under way."""

    def submit(self, function: Callable[..., Any], task: Task) -> Any:
        """Starts a call; returns a handle of it."""

    def result(self, handle: Any) -> Any:
        """Waits for it.

        Raises:
            WorkerDiedError: Its process died; other tasks under way may be lost too.
        """

    def renewed(self, handle: Any, function: Callable[..., Any], task: Task) -> Any:
        """The handle of a call after another one's process died, submitted again if need be."""

    def close(self) -> None:
        """Ends what still runs."""


def run_in_order(
    pool: Pool, function: Callable[..., Result], tasks: Iterable[Task]
) -> Iterator[tuple[Task, Result | None]]:
    """Each task with its result, in the order of the tasks; None where its worker died twice.

    A few tasks are under way at a time, so that results do not pile up.
    """
    waiting: deque[tuple[Task, Any]] = deque()
    coming = iter(tasks)
    while True:
        while len(waiting) < pool.window and (task := next(coming, None)) is not None:
            waiting.append((task, pool.submit(function, task)))
        if not waiting:
            return
        task, handle = waiting.popleft()
        result: Result | None
        try:
            result = pool.result(handle)
        except WorkerDiedError:
            # Which of the tasks under way killed it is not known: this one runs again by itself,
            # once the others have ended, and those that were lost after it.
            for _, other in waiting:
                with suppress(Exception):  # their own, when it is their turn
                    pool.result(other)
            try:
                result = pool.result(pool.submit(function, task))
            except WorkerDiedError:
                result = None
            waiting = deque((t, pool.renewed(h, function, t)) for t, h in waiting)
        yield task, result


class Inline:
    """This process, one task after the other."""

    window = 1

    def submit(self, function: Callable[..., Any], task: Task) -> Callable[[], Any]:
        """Nothing runs before its result is asked for."""
        return lambda: function(*task)

    def result(self, handle: Callable[[], Any]) -> Any:
        """Runs it."""
        return handle()

    def renewed(self, handle: Any, function: Callable[..., Any], task: Task) -> Any:
        """Nothing dies here but everything."""
        return handle

    def close(self) -> None:
        """Nothing runs."""


class Processes:
    """Processes of this machine, started anew: not every reader's library survives a fork."""

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
        with _interrupts_blocked():  # which a process that starts here inherits
            try:
                handle = self._executor.submit(function, *task)
            except BrokenProcessPool:
                self._end(0.0)
                self._executor = self._start()
                handle = self._executor.submit(function, *task)
        self._handles.add(handle)
        return handle

    def result(self, handle: Future[Any]) -> Any:
        """Waits for it; a pool that broke is started again by the next call."""
        try:
            return handle.result()
        except BrokenProcessPool as error:
            raise WorkerDiedError from error

    def renewed(self, handle: Future[Any], function: Callable[..., Any], task: Task) -> Future[Any]:
        """All that a broken pool had not finished is lost."""
        broke = handle.done() and isinstance(handle.exception(), BrokenProcessPool)
        return self.submit(function, task) if broke else handle

    def close(self) -> None:
        """Ends the processes, also where they are busy."""
        # Those that are idle end by themselves, and clean up what their libraries made.
        is_busy = any(not handle.done() for handle in self._handles)
        self._end(0.0 if is_busy else PATIENCE_S)

    def _end(self, patience: float) -> None:
        # Each by itself: an executor waits for ever for one that started while the pool broke.
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
            # A worker may have ended halfway through a result. The executor's thread reads its
            # rest, and Python waits for that thread at exit: without writers the read ends.
            if results is not None:
                results._writer.close()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Defers Ctrl-C to the end, so that worker processes start whole and print no traceback.

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
    """A worker whose parent was killed must not go on writing into the store's folder.

    Ctrl-C is the parent's to act upon.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class RayTasks:
    """Tasks of a Ray cluster whose machines share the store's folder and the recordings."""

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
        """Queues a call; Ray repeats it where its worker dies."""
        if function not in self._remote:
            self._remote[function] = self._ray.remote(max_retries=RETRIES)(function)
        return self._remote[function].remote(*task)

    def result(self, handle: Any) -> Any:
        """Waits for it."""
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
        """One worker's death is not another's."""
        return handle

    def close(self) -> None:
        """Leaves a cluster that was joined for this."""
        if not self._was_running:
            self._ray.shutdown()
