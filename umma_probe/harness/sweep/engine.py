"""The engine: cases to worker processes, results back; a case that hangs or dies costs itself alone.

- A case that exceeds its time is ended with its worker and counts as a hang. The runner's own watchdog comes first
  (it can say who waits on what); the engine waits ``GRACE_S`` longer.
- A worker that dies takes its case with it: a bug of ours, with the signal. Only SIGKILL comes from outside (an
  operator, the kernel out of memory): then the case runs once more, and a second time is its outcome.
- A dead worker is replaced. On a GPU a worker is also replaced after a fault or a hang, since its context is lost.
- The journal has the last word: a worker may have died after it wrote its result.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections import deque
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.reduction import DupFd
from typing import TYPE_CHECKING, Any

from umma_probe.errors import ExitCode, InternalError
from umma_probe.harness.sweep.journal import CaseRecord, internal_record
from umma_probe.harness.sweep.worker import READY, STARTED, Job, run_case, work
from umma_probe.harness.worker_process import GRACE_S, START_S, WorkerProcess, ending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from umma_probe.harness.sweep.journal import Journal
    from umma_probe.harness.sweep.worker import Runner

_STARTS = 3
"""So many workers in a row may fail to start."""
_LAST_RITES_S = 10.0
"""So long a process may take to end after its channel closed."""
_CONTEXT_LOST = ("fault", "hang", "error")

OnFinish = "Callable[[CaseRecord], None]"


@dataclass(eq=False)
class _Worker:
    """A process and what it is doing."""

    process: WorkerProcess
    target: str
    deadline: float
    ready: bool = False
    job: Job | None = None
    started: bool = False
    """It has taken the job."""
    since: float = 0.0


@dataclass
class Engine:
    """Runs cases on ``jobs`` workers, which take the ``targets`` in turn.

    ``pins``: digest of a job to the only target that may run it.
    """

    journal: Journal
    targets: Sequence[str]
    jobs: int
    runner: Runner = run_case
    grace_s: float = GRACE_S
    pins: Mapping[str, str] = field(default_factory=dict)
    _workers: list[_Worker] = field(default_factory=list)
    _queue: deque[Job] = field(default_factory=deque)
    _killed: set[str] = field(default_factory=set)
    _failed_starts: int = 0

    def run(self, jobs: Iterable[Job], on_finish: Callable[[CaseRecord], None]) -> None:
        """Run every job; tell of each result once, in the order in which they finish.

        :raises InternalError: workers do not even start.
        """
        self._queue = deque(jobs)
        try:
            while self._queue or self._busy():
                self._staff()
                for record in self._step():
                    on_finish(record)
        finally:
            self._dismiss()

    # ---------------------------------------------------------------------------------------------------- workers
    def _busy(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.job is not None]

    def _staff(self) -> None:
        """Start the workers that are wanted and give work to those that have none."""
        wanted = min(self.jobs, len(self._queue) + len(self._busy()))
        while len(self._workers) < wanted:
            self._workers.append(self._hire())
        for target in self._unserved():
            self._workers.append(self._hire(target))
        for worker in self._workers:
            if worker.ready and worker.job is None and (job := self._take(worker.target)):
                worker.job, worker.started = job, False
                worker.since = time.monotonic()
                worker.deadline = worker.since + worker.job[0].timeout_s + self.grace_s
                with contextlib.suppress(OSError):  # it died while idle: the next step sees that
                    worker.process.channel.send(worker.job)

    def _unserved(self) -> list[str]:
        """Targets that queued jobs are pinned to and that no worker has."""
        pinned = {self.pins[digest] for _, digest in self._queue if digest in self.pins}
        return sorted(pinned - {worker.target for worker in self._workers})

    def _take(self, target: str) -> Job | None:
        """The first queued job that this target may run."""
        for job in self._queue:
            if self.pins.get(job[1], target) == target:
                self._queue.remove(job)
                return job
        return None

    def _hire(self, target: str | None = None) -> _Worker:
        load = {target: sum(worker.target == target for worker in self._workers) for target in self.targets}
        target = target or min(self.targets, key=lambda name: load[name])
        process = WorkerProcess(work, _Lazy(self.journal.fd), self.runner, target)
        return _Worker(process, target, time.monotonic() + START_S)

    def _dismiss(self) -> None:
        """End all workers, busy or not."""
        for worker in self._workers:
            if worker.job is None:
                with contextlib.suppress(OSError):
                    worker.process.channel.send(None)
            else:
                worker.process.kill()
        for worker in self._workers:
            worker.process.join(1.0)
            worker.process.bury()
        self._workers.clear()

    # ------------------------------------------------------------------------------------------------------- steps
    def _step(self) -> list[CaseRecord]:
        """Wait for something to happen and return the cases that it finished."""
        watched: dict[Any, _Worker] = {}
        for worker in self._workers:
            watched[worker.process.channel] = worker
            watched[worker.process.sentinel] = worker
        soonest = min((worker.deadline for worker in self._workers if not worker.ready or worker.job), default=0.0)
        happened = connection.wait(list(watched), max(soonest - time.monotonic(), 0.0))
        finished: list[CaseRecord] = []
        for worker in dict.fromkeys(watched[thing] for thing in happened):
            finished += self._hear(worker)
        now = time.monotonic()
        for worker in [entry for entry in self._workers if now >= entry.deadline and (entry.job or not entry.ready)]:
            finished += self._overdue(worker)
        return finished

    def _hear(self, worker: _Worker) -> list[CaseRecord]:
        """A message, or the end of the channel."""
        try:
            message = worker.process.channel.recv()
        except (EOFError, OSError):
            return self._died(worker)
        if message == READY:
            worker.ready, self._failed_starts = True, 0
            return []
        if message == STARTED:
            worker.started = True
            return []
        record: CaseRecord = message
        worker.job = None
        if worker.target != "model" and record.verdict in _CONTEXT_LOST:
            self._workers.remove(worker)
            worker.process.bury()
        return [record]

    def _died(self, worker: _Worker) -> list[CaseRecord]:
        self._workers.remove(worker)
        status, job, since = worker.process.join(_LAST_RITES_S), worker.job, worker.since
        worker.process.bury()
        if job is None:
            if not worker.ready:
                self._failed_start(f"ended with status {status}")
            return []
        if (written := self.journal.records().get(job[1])) is not None:
            return [written]
        from_outside = status == -signal.SIGKILL and job[1] not in self._killed
        if from_outside or not worker.started:
            self._killed.add(job[1])
            self._queue.appendleft(job)
            return []
        return [self._note(internal_record(job[1], f"the worker process {ending(status)}", _seconds(since)))]

    def _overdue(self, worker: _Worker) -> list[CaseRecord]:
        self._workers.remove(worker)
        job, since = worker.job, worker.since
        worker.process.bury()
        if job is None:
            self._failed_start(f"did not start within {START_S:g} s")
            return []
        if (written := self.journal.records().get(job[1])) is not None:
            return [written]
        message = f"not finished after {job[0].timeout_s:g} s, and its own watchdog did not end it"
        return [self._note(CaseRecord(job[1], "hang", ExitCode.HANG, message, _seconds(since)))]

    def _note(self, record: CaseRecord) -> CaseRecord:
        self.journal.append(record)
        return record

    def _failed_start(self, how: str) -> None:
        self._failed_starts += 1
        if self._failed_starts >= _STARTS:
            raise InternalError(f"{_STARTS} worker processes in a row {how}", hint="see their messages above")


class _Lazy:
    """A file descriptor that is duplicated into the new process while it is being started."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __reduce__(self) -> tuple[Any, ...]:
        return (_same, (DupFd(self.fd),))


def _same(value: Any) -> Any:
    return value


def _seconds(since: float) -> float:
    return round(time.monotonic() - since, 4)
