"""
The solver's process from the inside: one loop that applies what it is told and answers with checked plans.

It ends when the shell closes its end of the pipe. It talks to nothing else and keeps nothing but the replica and
the solver's memory between cycles.
"""

import contextlib
import resource
import socket
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from scheduler.change import Change
from scheduler.closed import closed
from scheduler.cluster import Cluster, Intake
from scheduler.worker import frames
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
    Snapshot,
    Unplaced,
    Violation,
)

Solve = Callable[..., Plan]
"""What turns a batch into a plan, called as `solve` is."""

_MIB: Final = 1024 * 1024
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
        _serve(connection, limit, solver)


def _serve(connection: socket.socket, limit: int, solver: Solve) -> None:
    replica, engine = Cluster(), Engine()
    intake = Intake(replica)
    connection.sendall(frames.encode(frames.Ready(address_space_bytes=limit)))
    while (order := frames.receive_order(connection)) is not None:
        match order:
            case frames.Apply(changes=changes):
                for raw in changes:
                    _apply(intake, replica, raw)
            case frames.Decide():
                connection.sendall(frames.encode(_answer(replica, order, engine, solver)))


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


def limit_memory(memory_limit_mib: int) -> int:
    """Limit the address space to what is mapped now and so many MiB more; give the limit in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + memory_limit_mib * _MIB
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    return limit


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


def _answer(replica: Cluster, order: frames.Decide, engine: Engine, solver: Solve) -> frames.Answer:
    budget = Budget(
        seconds=order.seconds,
        deterministic_seconds=order.deterministic_seconds,
        seed=order.seed,
        workers=order.workers,
        may_leave=True,
        is_forgiving=True,
    )
    try:
        snapshot = replica.snapshot(order.assumptions)
        plan, violations = decide(snapshot, order.batch, order.policy, budget, partial(solver, engine=engine))
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - whatever the solver raises is a defect to report; the replica is unharmed
        return frames.Failed(message=traceback.format_exc(limit=-20))
    return frames.Decided(plan=plan, violations=violations, seconds=time.monotonic() - budget.started)
