"""
Supervises the worker, in the shell: starts it, keeps its replica up to date, asks it, kills it when it takes too long.

Answers carry the id of their order. One batch can be under way at a time. Beside it run, each in a `child`, one
isolated decision, one count of the fleet and one question about the fleet.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar, assert_never

import msgspec

from scheduler.backoff import doubled, jittered
from scheduler.change import Change, Kind
from scheduler.cluster import Assumptions
from scheduler.worker import frames
from scheduler.worker.change_log import ChangeLog, without_known_pods
from scheduler.worker.decision_limits import Limits
from scheduler.worker.fork_server import COMMAND, ForkServers
from scheduler.worker.solver_process import ForkServer, SolverProcess, start_fork_server
from solver.domain import Batch, Policy

A = TypeVar("A", frames.FleetCounted, frames.FleetAnswered, frames.RepairPlanned)

_CHUNK: Final = 500
"""Changes encoded without a yield to the event loop."""
_CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Bytes of changes after which a frame ends; both processes hold a whole frame in memory."""
_UNSENT_SECONDS: Final = 0.05
"""How long a change waits for others before it is sent, so that the next batch finds the replica up to date."""
_START_SECONDS: Final = 60.0
_STALL_SECONDS: Final = 30.0
"""A worker that reads nothing for so long between two batches is stuck."""
_RESTART_SECONDS: Final = 0.2
_LONGEST_RESTART_SECONDS: Final = 30.0
_OVERRUN_SECONDS: Final = 1.0
"""
CPU seconds beyond the budget of a solve, for the steps that the budget does not cover: decoding the order, the
snapshot, the check and the encoding of the plan. The stages of the solver check the budget, so a longer solve is stuck.
"""
_OVERRUN_SECONDS_PER_OBJECT: Final = 40e-6
"""Further CPU seconds for each object of the cluster; those steps take about half of this per object."""
_COLD_SECONDS_PER_OBJECT: Final = 2e-3
"""Instead of these in the first decision of a worker, which evaluates every object once, about 1 ms each."""
FLEET_LIMITS: Final = frames.IsolationLimits(end_seconds=60.0, cpu_seconds=60.0, memory_limit_mib=1024)
"""Those of a child that answers about the fleet."""
_LEAST_WAIT_SECONDS: Final = 0.05
"""The shortest interval between two checks of the CPU time."""
_STARVED_FACTOR: Final = 3.0
"""Wall seconds allowed for each of these CPU seconds, because other processes may use the cores."""


class WorkerError(Exception):
    """The worker gave no plan."""


class WorkerAbsentError(WorkerError):
    """There is no worker now: it is starting."""


class WorkerLostError(WorkerError):
    """The worker ended, or was killed, while it solved."""


class SolveFailedError(WorkerError):
    """The solver raised; the worker goes on."""


class ChildEndedError(WorkerError):
    """The child that made an isolated decision broke a limit or crashed; the worker goes on."""

    def __init__(self, cause: frames.Cause) -> None:
        super().__init__(f"the isolated decision was ended: {cause}")
        self.cause: Final = cause


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRequest:
    """
    A batch with the assumptions, the policy and the limits for its decision.

    For isolated decisions: with `may_defer` the plan may leave pods undecided; with `is_greedy` only
    the greedy plan is made.
    """

    batch: Batch
    assumptions: Assumptions
    policy: Policy
    limits: Limits
    may_defer: bool = False
    is_greedy: bool = False


class WorkerSupervisor:
    """
    The supervisor of the worker process.

    `run` keeps a worker alive until it is cancelled. One task at a time may call `decide`, and one `decide_isolated`.
    Changes given to `note` reach the replica soon, and before the next batch. A new worker first gets all objects.
    """

    def __init__(
        self,
        limits: Limits,
        command: Sequence[str] = COMMAND,
        on_start: Callable[[int], None] | None = None,
        on_failure: Callable[[Exception], None] | None = None,
        *,
        servers: ForkServers | None = None,
    ) -> None:
        """`on_start` gets a ready worker's process id, `on_failure` why one did not start; `servers` starts them."""
        self._limits: Final = limits
        self._servers: Final = servers or ForkServers(limits.memory_limit_mib, command)
        self._on_start: Final = on_start or (lambda _: None)
        self._on_failure: Final = on_failure or (lambda _: None)
        self._changes: Final = ChangeLog()
        self._is_unsent: Final = asyncio.Event()
        self._is_idle: Final = asyncio.Event()
        """Set while no batch is under way: the worker reads then."""
        self._is_idle.set()
        self._sending: Final = asyncio.Lock()
        self._process: SolverProcess | None = None
        self._ready: Final = asyncio.Event()
        self._tried: Final = asyncio.Event()
        self._ends_in_a_row = 0

    @property
    def is_ready(self) -> bool:
        """Whether a batch given now would be solved."""
        return self._ready.is_set()

    @property
    def change_count(self) -> int:
        """How many changes `note` has been given."""
        return self._changes.appended

    @property
    def pid(self) -> int | None:
        """The process id of the worker, None if there is none."""
        return self._process.pid if self._process is not None else None

    async def wait_until_ready(self) -> None:
        """Wait until a worker has its replica and takes batches."""
        await self._ready.wait()

    async def wait_until_tried(self) -> None:
        """Wait until a worker has been ready once, or the first one could not be started."""
        await self._tried.wait()

    def note(self, change: Change) -> None:
        """Take a change that the shell's `Cluster` has applied."""
        self._changes.append(change)
        self._is_unsent.set()

    async def run(self) -> None:
        """Keep a worker alive; start another when it ends, with an exponential backoff while none answers a batch."""
        while True:
            try:
                await self._run_fork_server()
            except OSError as error:  # no memory, process or file descriptor is left; others may free some
                self._on_failure(error)
                self._tried.set()
            await self._pause()

    async def decide(self, batch: Batch, assumptions: Assumptions, policy: Policy) -> frames.Decided:
        """
        Solve a batch in the worker, after bringing its replica up to date.

        Raise `WorkerAbsentError`, `WorkerLostError` (it ended, or was killed because it was too slow) or
        `SolveFailedError`.
        """
        request = DecisionRequest(batch=batch, assumptions=assumptions, policy=policy, limits=self._limits)
        self._is_idle.clear()
        try:
            answer = await self._ask(request, None, self.end_seconds(self._limits))
        finally:
            self._is_idle.set()
        self._ends_in_a_row = 0
        return answer

    async def decide_isolated(self, request: DecisionRequest) -> frames.Decided:
        """
        Solve a batch in a child of the worker, while the worker goes on.

        Raise `ChildEndedError` where the child broke a limit or crashed, and what `decide` raises.
        """
        end_seconds = self.end_seconds(request.limits)
        isolation = frames.IsolationLimits(
            end_seconds=end_seconds * _STARVED_FACTOR,
            cpu_seconds=end_seconds,
            memory_limit_mib=request.limits.memory_limit_mib,
            may_defer=request.may_defer,
            is_greedy=request.is_greedy,
        )
        patience = isolation.end_seconds + self.end_seconds(self._limits) * _STARVED_FACTOR
        return await self._ask(request, isolation, patience)

    async def ask_child(
        self,
        order_of: Callable[[int, frames.IsolationLimits], frames.Order],
        kind: type[A],
        limits: frames.IsolationLimits = FLEET_LIMITS,
    ) -> A:
        """
        Have a child of the worker answer an order about the fleet; the worker goes on deciding. Raise `WorkerError`.

        `order_of` makes the order of its id and limits. No late answer, nor a caller that gives up, ends the worker.
        """
        process = self._process
        if process is None or not self.is_ready:
            raise WorkerAbsentError("the worker process is starting")
        number, future = process.expect()
        try:
            # To a worker that decides this takes long. One that reads nothing for longer is ended.
            await asyncio.shield(self._send_in_time(process, self.end_seconds(self._limits) * _STARVED_FACTOR))
            order = order_of(number, limits)
            process.writer.write(frames.encode(order))
            async with asyncio.timeout(limits.end_seconds * _STARVED_FACTOR):
                answer = await future
        except (TimeoutError, asyncio.IncompleteReadError, OSError) as error:
            raise WorkerLostError(f"no answer about the fleet: {error!r}") from error
        finally:
            future.cancel()
        if isinstance(answer, frames.ChildEnded):
            raise ChildEndedError(answer.cause)
        if not isinstance(answer, kind):
            raise WorkerLostError(f"the worker answered with {type(answer).__name__}")
        return answer

    def end_seconds(self, limits: Limits) -> float:
        """Return the CPU seconds of one thread after which a solve counts as stuck; grows with the cluster."""
        is_warm = self._process is not None and self._process.has_answered
        per_object = _OVERRUN_SECONDS_PER_OBJECT if is_warm else _COLD_SECONDS_PER_OBJECT
        return limits.seconds + _OVERRUN_SECONDS + per_object * self._changes.object_count

    async def _ask(
        self, request: DecisionRequest, isolation: frames.IsolationLimits | None, end_seconds: float
    ) -> frames.Decided:
        process = self._process
        if process is None or not self.is_ready:
            raise WorkerAbsentError("the worker process is starting")
        number, future = process.expect()
        try:
            async with asyncio.timeout(end_seconds * _STARVED_FACTOR):
                await self._send_changes(process)
                process.writer.write(frames.encode(self._order(number, request, isolation)))
                answer = await self._answered(process, future, end_seconds)
        except TimeoutError as error:
            self._give_up(process)
            raise WorkerLostError(f"no plan within {end_seconds:.1f} s; the process was ended") from error
        except (asyncio.IncompleteReadError, OSError) as error:
            self._give_up(process)
            raise WorkerLostError(f"the process ended while it solved: {error}") from error
        finally:
            future.cancel()
        match answer:
            case frames.Decided():
                return answer
            case frames.SolveFailed(message=message):
                raise SolveFailedError(message)
            case frames.ChildEnded(cause=cause):
                raise ChildEndedError(cause)
            case frames.WorkerReady() | frames.FleetCounted() | frames.FleetAnswered() | frames.RepairPlanned():
                raise WorkerLostError(f"the process answered with {type(answer).__name__}")
            case _:
                assert_never(answer)

    def _order(self, number: int, request: DecisionRequest, isolation: frames.IsolationLimits | None) -> frames.Decide:
        """Make an order for a replica that is up to date, so that it has most pods of the batch."""
        limits, pods = request.limits, request.batch.pods
        known = frozenset(pod.id for pod in pods if self._changes.is_sent(Kind.PODS, str(pod.id), pod))
        return frames.Decide(
            id=number,
            batch=without_known_pods(request.batch, known),
            known=known,
            assumptions=request.assumptions,
            policy=request.policy,
            seconds=limits.seconds,
            deterministic_seconds=limits.deterministic_seconds,
            cost_units=limits.cost_units,
            seed=limits.seed,
            workers=limits.workers,
            isolation=isolation,
        )

    async def _answered(
        self, process: SolverProcess, future: asyncio.Future[frames.Answer], end_seconds: float
    ) -> frames.Answer:
        """
        Wait for an answer until the worker has used `end_seconds` of CPU time per thread; then raise `TimeoutError`.

        The watchdog measures CPU time, because on a loaded machine a healthy solve needs much more wall time. It begins
        after `_LEAST_WAIT_SECONDS`, before which most decisions end.
        """
        await asyncio.wait((future,), timeout=_LEAST_WAIT_SECONDS)
        started, most = process.cpu_seconds() if not future.done() else 0.0, end_seconds * self._limits.workers
        while not future.done():
            left = most - (process.cpu_seconds() - started)
            if left <= 0:
                raise TimeoutError
            await asyncio.wait((future,), timeout=max(left / self._limits.workers, _LEAST_WAIT_SECONDS))
        return future.result()

    def _give_up(self, process: SolverProcess) -> None:
        if process is self._process:
            self._ready.clear()
        process.kill()

    async def _run_fork_server(self) -> None:
        """Run a fork server, and one worker after the other until one does not become ready."""
        async with start_fork_server(self._servers) as server:
            while server.is_running and await self._run_worker(server):
                await self._pause()

    async def _run_worker(self, server: ForkServer) -> bool:
        """Start a worker and keep its replica up to date until it ends; return whether it became ready."""
        async with server.start_worker() as process:
            self._process = process
            try:
                is_ready = await self._fill_replica(process)
                await self._keep_up_to_date(process)
            finally:
                self._ready.clear()
                self._process = None
                self._changes.detach()
            return is_ready

    async def _fill_replica(self, process: SolverProcess) -> bool:
        """Send all objects to a new worker; kill it if that fails. Give whether it is ready."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                self._changes.attach()
                await self._send_changes(process)
        except (TimeoutError, OSError) as error:
            process.kill()
            self._on_failure(error)
            return False
        else:
            self._ready.set()
            self._on_start(process.pid)
            return True
        finally:
            self._tried.set()

    async def _pause(self) -> None:
        """Return at once after the first end of a worker; then back off exponentially until one answers a batch."""
        self._ends_in_a_row += 1
        if self._ends_in_a_row > 1:
            await asyncio.sleep(jittered(doubled(_RESTART_SECONDS, _LONGEST_RESTART_SECONDS, self._ends_in_a_row)))

    async def _keep_up_to_date(self, process: SolverProcess) -> None:
        """Send changes also between batches, until the worker ends."""
        sending = asyncio.create_task(self._send_between_batches(process))
        try:
            await process.wait()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send_between_batches(self, process: SolverProcess) -> None:
        with contextlib.suppress(OSError):  # the worker has ended, or was killed because it reads nothing
            while True:
                await self._is_unsent.wait()
                await asyncio.sleep(_UNSENT_SECONDS)
                while not self._is_idle.is_set():  # the next batch may begin before this task goes on
                    await self._is_idle.wait()
                await self._send_in_time(process, _STALL_SECONDS)

    async def _send_in_time(self, process: SolverProcess, seconds: float) -> None:
        """Send every unsent change, unless another sender takes too long, or the worker, which ends then."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._send_changes(process)

    async def _send_changes(self, process: SolverProcess) -> None:
        """Send every unsent change; one caller at a time, so that states arrive in order."""
        async with self._sending:
            self._is_unsent.clear()
            try:
                while changes := self._changes.take_unsent():
                    await self._send(process, changes)
            except BaseException:
                self._give_up(process)  # the changes taken are lost for it; only a new worker gets them again
                raise

    async def _send(self, process: SolverProcess, changes: Sequence[Change]) -> None:
        chunk, size = list[msgspec.Raw](), 0
        for number, change in enumerate(changes, start=1):
            raw = frames.encode_change(change)
            chunk.append(raw)
            size += len(bytes(raw))
            if len(chunk) == _CHUNK or size >= _CHUNK_BYTES or number == len(changes):
                process.writer.write(frames.encode(frames.Apply(tuple(chunk))))
                chunk, size = [], 0
                await process.writer.drain()
                if number < len(changes):
                    await asyncio.sleep(0)  # the event loop also renews the Lease
