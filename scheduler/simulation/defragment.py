"""
`dovetail defrag`: the fewest pods to move so that a pod or a gang fits, and `--apply`, which makes the moves.

`--apply` uses the caller's credentials on the live cluster. Before the first move the waiting pods get a condition that
reserves their nodes, so that moved pods do not come back. After each move everything is solved again; it stops unless
exactly one move fewer is left.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TextIO

import msgspec
from rich import box
from rich.table import Table
from rich.text import Text

from scheduler.kube import paths, pod_writes
from scheduler.kube.access import ClusterAccess, wait_for
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, KubeError, NotFound
from scheduler.simulation import printing
from scheduler.worker.recording import Record
from solver import plan_moves
from solver.domain import (
    Batch,
    Budget,
    Move,
    Pod,
    PodId,
    Relocation,
    RepairGoal,
    RepairRules,
    Snapshot,
    Staying,
    Victim,
)

_POLL_SECONDS: Final = 0.5
_TRIES: Final = 10


class StoppedError(Exception):
    """The moves were stopped; the message says why. Moves that were made are not undone."""


class WantedMoves(NamedTuple):
    """The pods asked for that still wait, and the fewest moves for them."""

    batch: Batch
    found: Relocation


Look = Callable[[], WantedMoves | None]
"""Reads the cluster and solves; None if the pods asked for no longer wait."""


def carry_out(
    access: ClusterAccess, first: WantedMoves, look: Look, say: Callable[[str], None], *, timeout_seconds: float
) -> None:
    """Make all moves of a plan, one by one. Raise `StoppedError` at the first deviation, and `KubeError`."""
    left = first
    nodes = {each.pod: each.node for each in first.found.placements}
    try:
        wait_for(_reserve(access, {(pod.id, pod.uid): nodes[pod.id] for pod in first.batch.pods}))
        while left.found.moves:
            move = left.found.moves[0]
            say(f"{move.pod}: evicted from {move.source}, expected on {move.target}")
            wait_for(_move(access, move, timeout_seconds, say))
            seen = look()
            if seen is None:
                return
            expected = len(left.found.moves) - 1
            if not seen.found.is_found or len(seen.found.moves) != expected:
                now = len(seen.found.moves) if seen.found.is_found else "no"
                raise StoppedError(f"{expected} moves were expected to be left, and there are {now}: stopped")
            left = seen
    finally:
        wait_for(_free(access, [(pod.id, pod.uid) for pod in first.batch.pods]))


async def _free(access: ClusterAccess, pods: Sequence[tuple[PodId, str]]) -> None:
    """Remove the reservations. It retries, because no other component removes them."""
    nothing = dict.fromkeys(pods, None)
    for _ in range(_TRIES - 1):
        with contextlib.suppress(KubeError):
            return await _reserve(access, nothing)
        await asyncio.sleep(_POLL_SECONDS)
    return await _reserve(access, nothing)


async def _reserve(access: ClusterAccess, nodes: Mapping[tuple[PodId, str], str | None]) -> None:
    """Reserve nodes for pods (key, uid) by a condition of their status; None removes the reservation."""
    async with access.connect() as client:
        for pod, node in nodes.items():
            with contextlib.suppress(NotFound, Conflict):  # deleted, or replaced by a pod of the same name
                await pod_writes.reserve_node(client, pod, node)


async def _move(access: ClusterAccess, move: Move, timeout_seconds: float, say: Callable[[str], None]) -> None:
    """Evict a pod and wait until its replacement runs. Raise `StoppedError` if that takes too long."""
    async with access.connect() as client:
        before = await _pods(client, move.pod.namespace)
        own = before.get(move.pod_uid)
        if own is None:
            raise StoppedError(f"pod {move.pod} is gone: stopped")
        victim = Victim(pod=move.pod, pod_uid=move.pod_uid, node=move.source, message="moved by dovetail defrag")
        try:
            await pod_writes.evict(client, victim)
        except pod_writes.EvictionBlocked as error:
            raise StoppedError(f"pod {move.pod} may not be evicted: {error}") from error
        controller = _controller(own)
        try:
            async with asyncio.timeout(timeout_seconds):
                node = await _replaced(client, move, controller, set(before))
        except TimeoutError as error:
            message = f"nothing that replaces pod {move.pod} runs after {timeout_seconds:.0f} s: stopped"
            raise StoppedError(message) from error
        say(f"{move.pod}: its replacement runs on {node}")


async def _replaced(client: Client, move: Move, controller: str, before: set[str]) -> str:
    """Wait for a new pod of the same controller to run; return its node."""
    while True:
        pods = await _pods(client, move.pod.namespace)
        for uid, pod in pods.items():
            is_new = uid not in before and _controller(pod) == controller
            if is_new and pod.get("status", {}).get("phase") == "Running" and move.pod_uid not in pods:
                return str(pod["spec"]["nodeName"])
        await asyncio.sleep(_POLL_SECONDS)


async def _pods(client: Client, namespace: str) -> dict[str, dict[str, Any]]:
    """Read the pods of a namespace, by uid."""
    items = msgspec.json.decode(await client.request("GET", f"{paths.CORE}/namespaces/{namespace}/pods"))["items"]
    return {each["metadata"]["uid"]: each for each in items}


def _controller(pod: Mapping[str, Any]) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((each["uid"] for each in owners if each.get("controller")), "")


_SECONDS: Final = 120.0
_SHOWN: Final = 8
"""The most pods per reason that the table names; JSON has all."""


class UnknownPodError(ValueError):
    """No pod or gang of that name waits; the message says so."""


class MovesReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The stable JSON form: `for` are the pods asked for, `least` is the proven bound on the number of moves."""

    wanted: tuple[str, ...] = msgspec.field(name="for")
    found: bool
    moves: tuple[dict[str, str], ...] = ()
    placements: tuple[dict[str, str], ...] = ()
    least: int = 0
    proven: bool = False
    stepwise: bool = True
    reason: str = ""
    staying: tuple[dict[str, str], ...] = ()


def scheduler_of(pods: Sequence[Pod], kind: str, name: str) -> str:
    """Return the scheduler that a pod or the pods of a gang name; empty without such pods."""
    return next((pod.scheduler_name for pod in _meant(pods, kind, name) if not pod.node_name or kind == "pod"), "")


def _meant(pods: Sequence[Pod], kind: str, name: str) -> tuple[Pod, ...]:
    """Return a pod by its name, or the pods of a gang."""
    namespace, _, short = name.rpartition("/")
    key = (namespace or "default", short)
    if kind == "gang":
        return tuple(pod for pod in pods if pod.gang is not None and tuple(pod.gang[:2]) == key)
    return tuple(pod for pod in pods if tuple(pod.id) == key)


def wanted(asked: Record, kind: str, name: str) -> Batch:
    """Find what has to fit: a waiting pod, or all waiting pods of a gang. Raise `UnknownPodError`."""
    pods = _meant(asked.batch.pods, kind, name)
    if not pods:
        namespace, _, short = name.rpartition("/")
        key = (namespace or "default", short)
        raise UnknownPodError(f"{kind} {'/'.join(key)} does not wait for this scheduler")
    return Batch(pods=pods, gangs=asked.batch.gangs_of(pods))


def relocation(asked: Record, batch: Batch, *, seconds: float = _SECONDS) -> Relocation:
    """Find the fewest moves on the present cluster; it does not wait for pods that are being deleted."""
    work = max(asked.deterministic_seconds, seconds)
    budget = Budget(seconds=seconds, deterministic_seconds=work, seed=asked.seed, workers=asked.workers)
    snapshot = _without_own_nominations(asked.snapshot, batch.pods)
    rules = RepairRules(now=asked.policy.preemption.now)
    return plan_moves(snapshot, RepairGoal(wanted=batch), asked.policy, budget, rules)


def _without_own_nominations(snapshot: Snapshot, pods: tuple[Pod, ...]) -> Snapshot:
    """Remove the nominations of the pods themselves, so that they can use that room."""
    own = {pod.id for pod in pods}
    return msgspec.structs.replace(snapshot, nominated=tuple(pod for pod in snapshot.nominated if pod.id not in own))


def answer(batch: Batch, found: Relocation) -> MovesReport:
    """Convert a relocation to its JSON form."""
    return MovesReport(
        wanted=tuple(str(pod.id) for pod in batch.pods),
        found=found.is_found,
        moves=tuple({"pod": str(each.pod), "from": each.source, "to": each.target} for each in found.moves),
        placements=tuple({"pod": str(each.pod), "node": each.node} for each in found.placements),
        least=found.least,
        proven=found.is_proven,
        stepwise=found.is_stepwise,
        reason=found.reason,
        staying=tuple({"pod": str(each.pod), "node": each.node, "reason": each.reason} for each in found.staying),
    )


def summary(found: Relocation) -> str:
    """Summarize a relocation in one sentence."""
    count = len(found.moves)
    if not found.is_found:
        proof = "proven" if found.is_proven else "not proven"
        return f"No plan: {found.reason} ({proof})."
    if not count:
        return "It fits already: no pod has to be moved."
    moved = printing.counted(count, "move")
    if found.is_proven:
        proof = "proven: it cannot be done with fewer"
    else:
        proof = f"not proven to be the fewest, which is at least {max(1, found.least)}"
    order = "" if found.is_stepwise else " They cannot be made one by one: they depend on each other in a cycle."
    return f"{moved} ({proof}).{order}"


def show(found: Relocation, to: TextIO) -> None:
    """Write the table and the sentence."""
    console = printing.console(to)
    found = printing.visible(found)
    if found.moves or found.placements:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("STEP", "POD", "FROM", "TO"):
            table.add_column(column, overflow="fold")
        for step, move in enumerate(found.moves, start=1):
            table.add_row(str(step), Text(str(move.pod)), Text(move.source), Text(move.target, "green"))
        for placement in found.placements:
            table.add_row("then", Text(str(placement.pod)), "", Text(placement.node, "green"))
        console.print(table)
    if found.staying:
        console.print(_staying(found.staying))
    console.print(Text(summary(found)))


def _staying(staying: Sequence[Staying]) -> Table:
    """List the pods that may not be moved, grouped by reason."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("STAYS", "NODE", "BECAUSE"):
        table.add_column(column, overflow="fold")
    by_reason: defaultdict[str, list[Staying]] = defaultdict(list)
    for each in staying:
        by_reason[each.reason].append(each)
    for reason, pods in by_reason.items():
        names = [str(each.pod) for each in pods[:_SHOWN]]
        more = [f"and {len(pods) - _SHOWN} more"] if len(pods) > _SHOWN else []
        nodes = [each.node for each in pods[:_SHOWN]]
        table.add_row(Text("\n".join([*names, *more])), Text("\n".join(nodes)), Text(reason, "yellow"))
    return table
