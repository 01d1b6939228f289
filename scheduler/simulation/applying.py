"""
`dovetail defrag --apply`: one move after the other, with the caller's credentials, on the live cluster.

Before the first move the pods asked for get the condition that holds room for them on their node, so that what is
moved away does not come back. After each move everything is solved again: unless one move less is left, it stops.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.kube import eviction_writes, paths
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, KubeError, NotFound
from solver.domain import Batch, Move, PodId, Relocation, Victim

_POLL_SECONDS: Final = 0.5
_TRIES: Final = 10


class StoppedError(Exception):
    """The moves were not carried on with; the message says why. What was moved stays where it is."""


class Solved(NamedTuple):
    """What a look at the cluster gave: the pods asked for that still wait, and the fewest moves for them."""

    batch: Batch
    found: Relocation


Look = Callable[[], Solved | None]
"""Looks at the cluster and solves; None where the pods asked for do not wait any more."""


def carry_out(
    kubeconfig: Path | None, first: Solved, look: Look, say: Callable[[str], None], *, timeout_seconds: float
) -> None:
    """Make all moves of a plan, one by one. Raises StoppedError at the first deviation, and KubeError."""
    left = first
    nodes = {each.pod: each.node for each in first.found.placements}
    try:
        asyncio.run(_reserve(kubeconfig, {(pod.id, pod.uid): nodes[pod.id] for pod in first.batch.pods}))
        while left.found.moves:
            move = left.found.moves[0]
            say(f"{move.pod}: evicted from {move.source}, expected on {move.target}")
            asyncio.run(_move(kubeconfig, move, timeout_seconds, say))
            seen = look()
            if seen is None:
                return
            expected = len(left.found.moves) - 1
            if not seen.found.is_found or len(seen.found.moves) != expected:
                now = len(seen.found.moves) if seen.found.is_found else "no"
                raise StoppedError(f"{expected} moves were expected to be left, and there are {now}: stopped")
            left = seen
    finally:
        asyncio.run(_free(kubeconfig, [(pod.id, pod.uid) for pod in first.batch.pods]))


async def _free(kubeconfig: Path | None, pods: Sequence[tuple[PodId, str]]) -> None:
    """Hold no room any more; tried again, because nobody else ends what is held."""
    nothing = dict.fromkeys(pods, None)
    for _ in range(_TRIES - 1):
        with contextlib.suppress(KubeError):
            return await _reserve(kubeconfig, nothing)
        await asyncio.sleep(_POLL_SECONDS)
    return await _reserve(kubeconfig, nothing)


async def _reserve(kubeconfig: Path | None, nodes: Mapping[tuple[PodId, str], str | None]) -> None:
    """Hold room on a node for pods (key, uid) by a condition of their status, or take it off again."""
    async with Client.connect(kubeconfig) as client:
        for pod, node in nodes.items():
            with contextlib.suppress(NotFound, Conflict):  # gone, or another pod has its name
                await eviction_writes.reserve(client, pod, node)


async def _move(kubeconfig: Path | None, move: Move, timeout_seconds: float, say: Callable[[str], None]) -> None:
    """Evict a pod and wait until what replaces it runs. Raises StoppedError where that takes too long."""
    async with Client.connect(kubeconfig) as client:
        before = await _pods(client, move.pod.namespace)
        own = before.get(move.pod_uid)
        if own is None:
            raise StoppedError(f"pod {move.pod} is gone: stopped")
        victim = Victim(pod=move.pod, pod_uid=move.pod_uid, node=move.source, message="moved by dovetail defrag")
        try:
            await eviction_writes.evict(client, victim)
        except eviction_writes.Shielded as error:
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
    """Wait for a new pod of the same controller to run; give its node."""
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
