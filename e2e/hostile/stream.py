"""Good pods, one after the other for ever, and how long each waits; from a watch, by the clock of this process."""

import asyncio
import contextlib
import itertools
import time
from typing import Any, Final

import aiohttp

from e2e import objects
from e2e.controlplane import wire
from e2e.controlplane.access import RequestError
from e2e.hostile.objects.kinds import GPU_CLASS, SCHEDULER
from e2e.hostile.verdict import Wait

NAMESPACE: Final = "good"
LIFE_SECONDS: Final = 5.0
_PATIENCE_SECONDS: Final = 120.0
"""How long a pod that is not bound is left to wait."""
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
Manifest = dict[str, Any]


class Times:
    """When pods were first seen, and when with a node. Pure."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._bound: dict[str, float] = {}

    def see(self, name: str, *, has_node: bool, now: float) -> None:
        """Note a pod as a watch shows it."""
        self._seen.setdefault(name, now)
        if has_node:
            self._bound.setdefault(name, now)

    def is_bound(self, name: str) -> bool:
        """Whether a pod has been seen with a node."""
        return name in self._bound

    def waits(self, since: float, until: float, now: float) -> tuple[Wait, ...]:
        """Give how long the pods waited that were created between two moments."""
        return tuple(
            Wait(self._bound.get(name, now) - seen, name in self._bound)
            for name, seen in self._seen.items()
            if since <= seen < until
        )

    def waiting(self, since: float, until: float) -> int:
        """Count those of them that are not bound."""
        return sum(not each.is_bound for each in self.waits(since, until, until))

    def last(self, count: int) -> tuple[Wait, ...]:
        """Give how long those waited that were bound last."""
        names = list(self._bound)[-count:]
        return tuple(Wait(self._bound[name] - self._seen[name]) for name in names)


class Stream:
    """Creates good pods at a rate, and deletes each some seconds after it was bound."""

    def __init__(self, session: aiohttp.ClientSession, per_second: float, scheduler: str = SCHEDULER) -> None:
        """`scheduler` is the schedulerName of its pods; their names begin with it where it is not Dovetail."""
        self.times = Times()
        self._session = session
        self._per_second = per_second
        self._scheduler = scheduler
        self._prefix = "good" if scheduler == SCHEDULER else scheduler
        self._numbers = itertools.count()
        self._lives: set[asyncio.Task[None]] = set()
        self._bound: dict[str, asyncio.Event] = {}

    async def run(self) -> None:
        """Create until cancelled."""
        watch = asyncio.create_task(self._watch())
        try:
            began = time.monotonic()
            for number in self._numbers:
                await asyncio.sleep(max(0.0, began + number / self._per_second - time.monotonic()))
                self._begin(self._live(f"{self._prefix}-{number}"))
        finally:
            for task in (watch, *self._lives):
                task.cancel()
            await asyncio.gather(watch, *self._lives, return_exceptions=True)

    async def waited(self, since: float, until: float, tail_seconds: float) -> tuple[Wait, ...]:
        """Give how long the pods of a phase waited; those that still wait at its end get some seconds more."""
        while True:
            now = time.monotonic()
            if now > until + tail_seconds or not self.times.waiting(since, until):
                return self.times.waits(since, until, now)
            await asyncio.sleep(0.2)

    def _begin(self, life: Any) -> None:
        task = asyncio.create_task(life)
        self._lives.add(task)
        task.add_done_callback(self._lives.discard)

    async def _live(self, name: str) -> None:
        """Create a claim and its pod, wait until it is bound, let it run, delete both."""
        claim, pod = good_claim(name), good_pod(name, schedulerName=self._scheduler)
        bound = self._bound[name] = asyncio.Event()
        with contextlib.suppress(RequestError, aiohttp.ClientError):
            await objects.create(self._session, (claim,))
            await objects.create(self._session, (pod,))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await bound.wait()
            await asyncio.sleep(LIFE_SECONDS)
        with contextlib.suppress(RequestError, aiohttp.ClientError):
            await objects.delete(self._session, (pod,))
            await objects.delete(self._session, (claim,))
        del self._bound[name]

    async def _watch(self) -> None:
        async for kind, pod in wire.changes(self._session, _PODS, wire.Pod):
            name, node = pod.metadata.name, pod.spec.node_name
            if kind == "DELETED" or not name.startswith(f"{self._prefix}-"):
                continue
            self.times.see(name, has_node=bool(node), now=time.monotonic())
            if node and name in self._bound:
                self._bound[name].set()


def most_running(per_second: float) -> int:
    """Give the number of devices that the stream uses while nothing delays it."""
    return round(per_second * (LIFE_SECONDS + 1))


def good_claim(name: str) -> Manifest:
    """Make a claim for one GPU."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": GPU_CLASS}}]}},
    }


def good_pod(name: str, **spec: Any) -> Manifest:
    """Make a pod that uses the claim of its name."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "claims": [{"name": "gpu"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "example.com/none", "resources": resources}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            **spec,
        },
    }
