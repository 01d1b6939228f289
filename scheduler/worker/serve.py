"""
The worker: one loop that applies changes to the replica and answers orders with checked plans.

An isolated decision is made by a `Child`, and so are the numbers of the fleet; the loop goes on and forwards the
child's answer. The loop ends when the shell closes the connection. Between orders the worker keeps only the replica and
the caches of solver and checker. `TokenBucket` gives batches more time to fill the solver's while the worker is new.
"""

import contextlib
import gc
import os
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import msgspec

from scheduler.change import Change
from scheduler.cluster import Cluster, Intake
from scheduler.cluster.interning import DeviceInterner
from scheduler.observe.tracebacks import traceback_text
from scheduler.unreadable import closed
from scheduler.worker import frames
from scheduler.worker.change_log import with_known_pods
from scheduler.worker.checked_plan import Solve, decide
from scheduler.worker.child import Child, limit_memory
from scheduler.worker.fleet_documents import fleet_document
from scheduler.worker.repair_planning import repair_planned
from solver import (
    SelectorResults,
    SolverCache,
    fleet_of,
    quota_charges,
    quota_fleet,
    solve,
    solve_greedily,
    totals_of,
    verify,
)
from solver.domain import (
    Budget,
    ResourceSlice,
    Snapshot,
    Undecided,
    UndecidedCause,
)

UNITS_PER_DEVICE: Final = 50
"""Typical selectors take 10 to 20 units for each device, once; a demand takes one."""
_REFILL: Final = 0.1
_UNITS_PER_SECOND: Final = 1_000_000
_learned_decoder: Final = msgspec.json.Decoder(tuple[SelectorResults, ...])
"""What a child learned about selectors, encoded for its parent; only the worker's processes use it."""


@dataclass(slots=True, eq=False)
class TokenBucket:
    """
    A token bucket of cost units that batches may spend beyond their own limit (`Budget.cost_units`).

    It starts full, with some units for each device. So the first batches evaluate the usual selectors and demands of a
    large cluster. Afterwards it refills at a tenth of real time, which bounds what a stream of new selectors costs.
    """

    clock: Callable[[], float] = time.monotonic
    _spent: float = 0.0
    _at: float = field(default=0.0)

    def units(self, device_count: int) -> int:
        """Return the units in the bucket; the capacity is proportional to the number of devices."""
        now = self.clock()
        self._spent = max(0.0, self._spent - (now - self._at) * _REFILL * _UNITS_PER_SECOND)
        self._at = now
        return max(0, device_count * UNITS_PER_DEVICE - round(self._spent))

    def pay(self, units: int) -> None:
        """Remove what a batch has spent beyond its own limit."""
        self._spent += max(0, units)


def serve(connection: socket.socket, memory_limit_mib: int, solver: Solve = solve) -> None:
    """
    Answer orders until the shell closes the connection.

    The process may map `memory_limit_mib` more than it has mapped now. Beyond that allocations fail and the process
    ends (`MemoryError`, or an abort in native code); the shell sees the closed connection.
    """
    limit = limit_memory(memory_limit_mib)
    with contextlib.suppress(ConnectionError):  # the shell has ended
        _Service(connection, solver).run(limit)


class _Running(NamedTuple):
    """A child, and the slices at its fork, to which its new cache entries refer."""

    child: Child
    slices: tuple[ResourceSlice, ...]


class _Service:
    """
    The loop over orders of the shell and answers of the child.

    It has one thread, because a fork copies only the calling thread. While it solves, a child's answer waits in the
    pipe; the kernel enforces the child's limits.
    """

    def __init__(self, connection: socket.socket, solver: Solve) -> None:
        self._connection: Final = connection
        self._solver: Final = solver
        self._replica: Final = Cluster()
        self._intake: Final = Intake(self._replica)
        self._interner: Final = DeviceInterner()
        self._cache: Final = SolverCache()
        self._verifier_cache: Final = verify.VerifierCache()
        self._bucket: Final = TokenBucket()
        self._children: Final[dict[type[frames.Order], _Running]] = {}
        """By the kind of their order."""
        self._sources: Final = selectors.DefaultSelector()
        self._counted_slices: tuple[ResourceSlice, ...] = ()
        self._device_count = 0

    def run(self, limit: int) -> None:
        self._connection.sendall(frames.encode(frames.WorkerReady(pid=os.getpid(), address_space_bytes=limit)))
        self._sources.register(self._connection, selectors.EVENT_READ)
        while True:
            for key, _ in self._sources.select():
                if isinstance(key.fileobj, Child):
                    self._read_child(key.fileobj)
                elif (order := frames.receive_order(self._connection)) is not None:
                    self._execute(order)
                else:
                    return

    def _execute(self, order: frames.Order) -> None:
        match order:
            case frames.Apply(changes=changes):
                for raw in changes:
                    _apply(self._intake, self._replica, self._interner, raw)
            case frames.Decide(isolation=None):
                self._connection.sendall(frames.encode(self._decide_batch(order)))
            case frames.Decide(isolation=frames.IsolationLimits() as limits):
                self._fork_child(order, limits, partial(self._decide_isolated, order), threads=order.workers)
            case frames.CountFleet():
                self._fork_child(order, order.limits, partial(self._count_fleet, order))
            case frames.AskFleet():
                self._fork_child(order, order.limits, partial(self._ask_fleet, order))
            case frames.PlanRepair():
                work = partial(repair_planned, order, self._cache)
                self._fork_child(order, order.limits, work, threads=order.workers)

    def _decide_batch(self, order: frames.Decide) -> frames.Decided | frames.SolveFailed:
        """Decide in this process, with extra cost units from the bucket."""
        snapshot = self._replica.snapshot(order.assumptions)
        if self._counted_slices is not snapshot.slices:
            self._counted_slices = snapshot.slices
            self._device_count = sum(len(each.devices) for each in snapshot.slices)
        extra = self._bucket.units(self._device_count)
        paid = self._cache.paid_units
        enlarged = msgspec.structs.replace(order, cost_units=order.cost_units + extra)
        answer = self._answer(enlarged, snapshot, self._solver)
        self._bucket.pay(self._cache.paid_units - paid - order.cost_units)
        if not gc.isenabled():  # it is the first decision: replica and caches are built
            gc.freeze()
            gc.enable()
        return answer

    def _fork_child(
        self,
        order: frames.Decide | frames.CountFleet | frames.AskFleet | frames.PlanRepair,
        limits: frames.IsolationLimits,
        work: Callable[[Snapshot], frames.Answer],
        *,
        threads: int = 1,
    ) -> None:
        """Fork a child for an order; kill a previous one of its kind, for which the shell no longer waits."""
        previous = self._children.get(type(order))
        if previous is not None:
            self._remove_child(previous.child)
            previous.child.kill()
        snapshot = self._replica.snapshot(order.assumptions)
        try:
            child = Child(order.id, limits, partial(self._in_child, work, snapshot), self._connection, threads=threads)
        except OSError:  # no memory or process table entry is left
            self._connection.sendall(frames.encode(frames.ChildEnded(id=order.id, cause=frames.Cause.MEMORY)))
            return
        self._children[type(order)] = _Running(child, snapshot.slices)
        self._sources.register(child, selectors.EVENT_READ)

    def _read_child(self, child: Child) -> None:
        """Take what a child has sent; once it has ended, forward its answer and add its cache entries to ours."""
        if not child.read():
            return
        slices = self._remove_child(child)
        result = child.reap()
        if isinstance(result, frames.ChildEnded):
            self._connection.sendall(frames.encode(result))
            return
        answer, learned = result
        self._cache.learn(_learned_decoder.decode(learned), slices)
        self._connection.sendall(frames.framed(bytes(answer)))

    def _remove_child(self, child: Child) -> tuple[ResourceSlice, ...]:
        """Forget a child; return the slices at its fork."""
        self._sources.unregister(child)
        kind = next(kind for kind, running in self._children.items() if running.child is child)
        return self._children.pop(kind).slices

    def _in_child(self, work: Callable[[Snapshot], frames.Answer], snapshot: Snapshot) -> tuple[bytes, bytes]:
        """Work on an order, in a child; return the encoded answer and the new cache entries."""
        self._cache.learned()  # discard entries that the parent has
        answer = frames.encode_body(work(snapshot))
        return answer, msgspec.json.encode(self._cache.learned())

    def _count_fleet(self, order: frames.CountFleet, snapshot: Snapshot) -> frames.FleetCounted:
        """Count the fleet."""
        fleet = fleet_of(snapshot, order.policy, self._cache, node_group_label=order.node_group_label)
        totals = totals_of(fleet, per_node=order.per_node, most_namespaces=order.most_namespaces)
        return frames.FleetCounted(
            id=order.id,
            totals=totals,
            quotas=quota_fleet(snapshot, order.policy, self._cache),
            charges=quota_charges(snapshot, None, self._cache),
        )

    def _ask_fleet(self, order: frames.AskFleet, snapshot: Snapshot) -> frames.FleetAnswered:
        """Answer a question about the fleet."""
        fleet = fleet_of(snapshot, order.policy, self._cache, node_group_label=order.question.node_group_label)
        labels = {node.name: dict(node.labels) for node in snapshot.nodes}
        document = fleet_document(fleet, labels, order.question)
        return frames.FleetAnswered(id=order.id, document=frames.encode_raw(document))

    def _decide_isolated(self, order: frames.Decide, snapshot: Snapshot) -> frames.Decided | frames.SolveFailed:
        """Decide; after a failure of the solver, with the greedy solver."""
        is_greedy = order.isolation is not None and order.isolation.is_greedy
        answer = self._answer(order, snapshot, solve_greedily if is_greedy else self._solver)
        if isinstance(answer, frames.SolveFailed) and not is_greedy:
            answer = self._answer(order, snapshot, solve_greedily)
        return answer

    def _answer(self, order: frames.Decide, snapshot: Snapshot, solver: Solve) -> frames.Decided | frames.SolveFailed:
        budget = Budget(
            seconds=order.seconds,
            deterministic_seconds=order.deterministic_seconds,
            seed=order.seed,
            workers=order.workers,
            cost_units=order.cost_units,
            may_defer=order.isolation is None or order.isolation.may_defer,
            is_forgiving=True,
        )
        batch = with_known_pods(order.batch, order.known, self._replica.observed_pod)
        try:
            solve_it = partial(solver, cache=self._cache)
            plan, violations = decide(snapshot, batch, order.policy, budget, solve_it, cache=self._verifier_cache)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the solver raises is a defect to report; the replica stays intact
            return frames.SolveFailed(id=order.id, message=str(traceback_text(error)))
        if plan is not None and len(batch.pods) < len(order.batch.pods):
            present = {pod.id for pod in batch.pods}
            missing = (pod.id for pod in order.batch.pods if pod.id not in present)
            later = tuple(Undecided(pod, UndecidedCause.LATER) for pod in missing)
            plan = msgspec.structs.replace(plan, undecided=(*plan.undecided, *later))
        seconds = time.monotonic() - budget.started
        charges = quota_charges(snapshot, plan, self._cache)
        return frames.Decided(id=order.id, plan=plan, violations=violations, seconds=seconds, charges=charges)


def _apply(intake: Intake, replica: Cluster, interner: DeviceInterner, raw: msgspec.Raw) -> None:
    """
    Apply one change to the replica. A change that raises makes its object unusable, as in the shell.

    It must not end the process: the next worker would get the same change.
    """
    try:
        change = frames.decode_change(raw)
        if isinstance(change.value, ResourceSlice):
            interner.share(change.value)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - such an object keeps its last readable state
        kind, key = frames.identify(raw)
        last = replica.seen(kind, key)
        if last is None:
            return
        change = Change(kind=kind, key=key, value=closed(last, f"{type(error).__name__}: {error}"))
    intake.take(change)
