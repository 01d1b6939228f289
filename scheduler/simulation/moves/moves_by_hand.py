"""
`dovetail repair plan --apply`: the moves of a plan, one by one, with the caller's credentials on the live cluster.

Before the first move the waiting pods get a condition that reserves their nodes, so that moved pods do not come back.
After each move everything is solved again; it stops unless exactly one move fewer is left.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from scheduler.kube import paths, pod_writes
from scheduler.kube.access import ClusterAccess, wait_for
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, KubeError, NotFound
from scheduler.simulation.moves.planned_moves import PlannedMoves
from solver.domain import Move, PodId, Victim

_POLL_SECONDS: Final = 0.5
_TRIES: Final = 10


class StoppedError(Exception):
    """The moves were stopped; the message says why. Moves that were made are not undone."""


Look = Callable[[], PlannedMoves | None]
"""Reads the cluster and solves; None if the pods asked for no longer wait."""


def carry_out(
    access: ClusterAccess, first: PlannedMoves, look: Look, say: Callable[[str], None], *, timeout_seconds: float
) -> None:
    """Make all moves of a plan, one by one. Raise `StoppedError` at the first deviation, and `KubeError`."""
    left = first
    nodes = {each.pod: each.node for each in first.found.placements}
    try:
        wait_for(_reserve(access, {(pod.id, pod.uid): nodes[pod.id] for pod in first.goal.wanted.pods}))
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
        wait_for(_free(access, [(pod.id, pod.uid) for pod in first.goal.wanted.pods]))


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
        victim = Victim(
            pod=move.pod, pod_uid=move.pod_uid, node=move.source, message="moved by dovetail repair plan --apply"
        )
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
