"""The solver's process from the inside: one loop that applies what it is told and answers with checked plans.

A decision that may be costly is a child's (`child`); the loop goes on with others and forwards the child's answer. It
ends when the shell closes its end of the pipe. It talks to nothing else and keeps nothing but the replica and the
solver's memory between cycles.

What a batch may spend on what the solver's process does not know yet: more while the process is new.
"""

import contextlib
import os
import selectors
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from scheduler.change import Change
from scheduler.cluster import Cluster, Intake
from scheduler.unreadable import closed
from scheduler.worker import frames
from scheduler.worker.child import Child, limit_memory
from solver import Engine, solve, solve_greedily, verify
from solver.domain import (
    Batch,
    Budget,
    GangId,
    Plan,
    PodId,
    Policy,
    Reason,
    ReasonCode,
    ResourceSlice,
    Snapshot,
    Unplaced,
    Violation,
)

UNITS_PER_DEVICE: Final = 50
"""The selectors of a usual cluster take about 10 to 20 units for each device, once, and a demand takes one."""
_REFILL: Final = 0.1
_UNITS_PER_SECOND: Final = 1_000_000


@dataclass(slots=True, eq=False)
class TokenBucket:
    """
    More than the allowance of a batch (`Budget.cost_units`).

    It is full while the process is new, with some units for each device, so that the usual selectors and demands of a
    large cluster are worked out in the first batches. After that a tenth of the time fills it: a stream of new ones
    gets no more than that.
    """

    clock: Callable[[], float] = time.monotonic
    _spent: float = 0.0
    _at: float = field(default=0.0)

    def units(self, device_count: int) -> int:
        """Give what is in the bucket of a cluster with so many devices."""
        now = self.clock()
        self._spent = max(0.0, self._spent - (now - self._at) * _REFILL * _UNITS_PER_SECOND)
        self._at = now
        return max(0, device_count * UNITS_PER_DEVICE - round(self._spent))

    def pay(self, units: int) -> None:
        """Take out what a batch has spent beyond its own allowance."""
        self._spent += max(0, units)


Solve = Callable[..., Plan]
"""What turns a batch into a plan, called as `solve` is."""

_DROPPED: Final = Reason(
    code=ReasonCode.SOLVER_FAILED, message="a plan for the pods that were decided together broke a rule and was dropped"
)


def serve(connection: socket.socket, memory_limit_mib: int, solver: Solve = solve) -> None:
    """
    Answer orders until the shell closes the connection.

    The process may map `memory_limit_mib` more than it has mapped now; beyond that the solver gets no memory and
    the process ends (`MemoryError`, or an abort in native code), which the shell notices by the closed connection.
    """
    limit = limit_memory(memory_limit_mib)
    with contextlib.suppress(ConnectionError):  # the shell went away: nobody waits for an answer any more
        _Service(connection, solver).run(limit)


class _Service:
    """
    The loop: orders of the shell, and what a child sends that decides meanwhile.

    It has one thread, so that what it forks is whole. While it solves, the child's answer waits in the pipe; the
    child's limits are the kernel's to keep.
    """

    def __init__(self, connection: socket.socket, solver: Solve) -> None:
        self._connection: Final = connection
        self._solver: Final = solver
        self._replica: Final = Cluster()
        self._intake: Final = Intake(self._replica)
        self._engine: Final = Engine()
        self._bucket: Final = TokenBucket()
        self._child: Child | None = None
        self._slices: tuple[ResourceSlice, ...] = ()
        """Those that the child knows, so that what it has learned about them is understood."""
        self._sources: Final = selectors.DefaultSelector()

    def run(self, limit: int) -> None:
        self._connection.sendall(frames.encode(frames.WorkerReady(pid=os.getpid(), address_space_bytes=limit)))
        self._sources.register(self._connection, selectors.EVENT_READ)
        while True:
            for key, _ in self._sources.select():
                if key.fileobj is not self._connection:
                    self._hear()
                elif (order := frames.receive_order(self._connection)) is not None:
                    self._obey(order)
                else:
                    return

    def _obey(self, order: frames.Order) -> None:
        match order:
            case frames.Apply(changes=changes):
                for raw in changes:
                    _apply(self._intake, self._replica, raw)
            case frames.Decide(aside=None):
                self._connection.sendall(frames.encode(self._decide_batch(order)))
            case frames.Decide():
                self._put_aside(order)

    def _decide_batch(self, order: frames.Decide) -> frames.Decided | frames.SolveFailed:
        """Decide at once, with more to spend on what is not known while the process is new."""
        snapshot = self._replica.snapshot(order.assumptions)
        more = self._bucket.units(sum(len(each.devices) for each in snapshot.slices))
        paid = self._engine.paid_units
        larger = msgspec.structs.replace(order, cost_units=order.cost_units + more)
        answer = self._answer(larger, snapshot, self._solver)
        self._bucket.pay(self._engine.paid_units - paid - order.cost_units)
        return answer

    def _put_aside(self, order: frames.Decide) -> None:
        """Fork a child for an order; one that still decides has taken too long for the shell."""
        if self._child is not None:
            before = self._child
            self._forget(before)
            before.kill()
        snapshot = self._replica.snapshot(order.assumptions)
        self._slices = snapshot.slices
        try:
            self._child = Child(order, partial(self._decide_aside, order, snapshot), self._connection)
        except OSError:  # no memory or process is left for one more
            self._connection.sendall(frames.encode(frames.Ended(id=order.id, cause=frames.Cause.MEMORY)))
            return
        self._sources.register(self._child, selectors.EVENT_READ)

    def _hear(self) -> None:
        """Take what the child has sent; once it has ended, forward its answer and take over what it has learned."""
        child = self._child
        if child is None or not child.read():
            return
        self._forget(child)
        result = child.end()
        if isinstance(result, frames.Ended):
            self._connection.sendall(frames.encode(result))
            return
        answer, learned = result
        self._engine.learn(frames.decode_learned(learned), self._slices)
        self._connection.sendall(frames.framed(bytes(answer)))

    def _forget(self, child: Child) -> None:
        self._child = None
        self._sources.unregister(child)

    def _decide_aside(self, order: frames.Decide, snapshot: Snapshot) -> tuple[bytes, bytes]:
        """Decide in the child; give the answer, and what was worked out for it that the parent does not know."""
        self._engine.learned()  # what came before is its parent's own
        is_greedy = order.aside is not None and order.aside.is_greedy
        answer = self._answer(order, snapshot, solve_greedily if is_greedy else self._solver)
        if isinstance(answer, frames.SolveFailed) and not is_greedy:
            answer = self._answer(order, snapshot, solve_greedily)
        return frames.encode_body(answer), frames.encode_learned(self._engine.learned())

    def _answer(self, order: frames.Decide, snapshot: Snapshot, solver: Solve) -> frames.Decided | frames.SolveFailed:
        budget = Budget(
            seconds=order.seconds,
            deterministic_seconds=order.deterministic_seconds,
            seed=order.seed,
            workers=order.workers,
            cost_units=order.cost_units,
            may_leave=order.aside is None or order.aside.may_leave,
            is_forgiving=True,
        )
        batch = frames.filled(order, self._replica.seen_pod)
        try:
            solve_it = partial(solver, cache=self._engine)
            plan, violations = decide(snapshot, batch, order.policy, budget, solve_it)
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - whatever the solver raises is a defect to report; the replica is unharmed
            return frames.SolveFailed(id=order.id, message=traceback.format_exc(limit=-20))
        if plan is not None and len(batch.pods) < len(order.batch.pods):
            there = {pod.id for pod in batch.pods}
            lacking = tuple(pod.id for pod in order.batch.pods if pod.id not in there)
            plan = msgspec.structs.replace(plan, later=(*plan.later, *lacking))
        seconds = time.monotonic() - budget.started
        return frames.Decided(id=order.id, plan=plan, violations=violations, seconds=seconds)


def _apply(intake: Intake, replica: Cluster, raw: msgspec.Raw) -> None:
    """
    Take one change; one that raises is its object's own problem, as it is in the shell.

    The same change comes again with every new process: it must not end this one.
    """
    try:
        change = frames.decode_change(raw)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - an object that does not survive the pipe counts as it did before
        kind, key = frames.identify(raw)
        last = replica.seen(kind, key)
        if last is None:
            return
        change = Change(kind=kind, key=key, value=closed(last, f"{type(error).__name__}: {error}"))
    intake.take(change)


def decide(
    snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget, solver: Solve
) -> tuple[Plan | None, tuple[Violation, ...]]:
    """
    Solve and check; a plan that breaks a rule is replaced by a greedy one, for as many pods as possible.

    Give the plan to use, None where neither will do, and what was wrong with the first one. Pods that the plan leaves
    for later, or for a larger allowance, are no part of it.
    """
    plan = solver(snapshot, batch, policy, budget)
    violations = verify.check(snapshot, batch.without(frozenset((*plan.later, *plan.costly))), plan, policy)
    return (_salvaged(snapshot, batch, policy, budget) if violations else plan), violations


def _salvaged(snapshot: Snapshot, batch: Batch, policy: Policy, budget: Budget) -> Plan | None:
    """
    Plan greedily for as much of a batch as keeps every rule: all of it, else a half, a quarter and so on.

    One pod whose plan breaks a rule must not hold up the others. A gang is left out whole or not at all. Those that
    are left out are said to have failed, and come back; None where not even a single pod (or gang) can be planned for,
    or the time is up.
    """
    plan = solve_greedily(snapshot, batch, policy, budget)
    if not verify.check(snapshot, batch, plan, policy):
        return plan
    first, second = _halves(batch)
    for rest in (second, first) if first and second else ():
        if budget.should_stop():
            break
        found = _salvaged(snapshot, batch.without(rest), policy, budget)
        if found is not None:
            failed = (pod for pod in batch.pods if pod.id in rest)
            dropped = tuple(Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(_DROPPED,)) for pod in failed)
            return msgspec.structs.replace(found, unplaced=(*found.unplaced, *dropped))
    return None


def _halves(batch: Batch) -> tuple[set[PodId], set[PodId]]:
    """Divide a batch where its middle is; a gang stands where its first pod does, and goes with that."""
    units: dict[GangId | PodId, list[PodId]] = {}
    for pod in batch.pods:
        units.setdefault(pod.gang or pod.id, []).append(pod.id)
    first, second = set[PodId](), set[PodId]()
    for number, unit in enumerate(units.values()):
        is_first = number == 0 or (not second and len(first) + len(unit) <= len(batch.pods) // 2)
        (first if is_first else second).update(unit)
    return first, second
