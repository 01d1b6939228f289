"""
Stand-in for the kubelets and DRA drivers that a cluster lacks: `python -m e2e.controlplane.kubelet --kubeconfig F`.

A pod that is bound goes to Running as soon as its claims are allocated and reserved for it, which is what a kubelet
demands. Else it stays Pending, a Warning says why in a kubelet's words, and it is tried again after the kubelet's
`syncFrequency` (`--sync-seconds`). So it is with preparations that are to fail (`preparing.PREPARE_FAILS`). Annotated
`dovetail.dev/run-seconds`, a pod that runs then goes to Succeeded. Its status says how its devices are
(`statuses.UNHEALTHY`). A pod that is being deleted goes to Failed, as where a container does not heed SIGTERM: at once,
or after `dovetail.dev/stop-seconds` but no later than its grace period. A moment later, in which the claim controller
gives its claims free, it is gone. Devices with binding conditions get them True in `status.devices`, as their driver
would do, `dovetail.dev/binding-seconds` later (annotation of the claim); `dovetail.dev/binding-fails: "true"` there
makes the driver report the failure conditions instead.

It speaks as an administrator, a group that priority and fairness leaves alone: it must not eat the share of the
scheduler under test.
"""

import argparse
import asyncio
import contextlib
import hashlib
import itertools
import logging
import os
import random
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Coroutine
from pathlib import Path
from typing import Any, Final

import aiohttp

from e2e.controlplane import statuses, wire
from e2e.controlplane.api import APPLY, JSON, MERGE, STRATEGIC_MERGE, Api, log
from e2e.controlplane.preparing import Preparation, PreparationError
from e2e.controlplane.statuses import UNHEALTHY
from e2e.controlplane.wire import Allocation, Claim, Pod

RUN_SECONDS = "dovetail.dev/run-seconds"
STOP_SECONDS = "dovetail.dev/stop-seconds"
BINDING_SECONDS = "dovetail.dev/binding-seconds"
BINDING_FAILS = "dovetail.dev/binding-fails"
CONNECTIONS = 64  # beyond this the API server is the limit
REMOVAL_SECONDS = 0.5
"""Between a pod's terminal phase and the end of its object: 0.3 to 0.9 s on real nodes."""
SYNC_SECONDS: Final = 60.0
"""A kubelet tries again after its `syncFrequency` what failed, or up to half of it later: 60 to 90 s by default."""
SYNC_JITTER: Final = 0.5
LONGEST_EVENT_PREFIX: Final = 200
NOT_PREPARED: Final = "FailedPrepareDynamicResources"


async def run(kubeconfig: Path, *, real_nodes: Collection[str] = (), sync_seconds: float = SYNC_SECONDS) -> None:
    """Act for the pods on all nodes but those that have kubelets of their own, until cancelled."""
    async with wire.session(kubeconfig, CONNECTIONS) as session:
        await StandIn(session, real_nodes=real_nodes, sync_seconds=sync_seconds).run()


class StandIn:
    """Every kubelet and driver at once; `run` works until it is cancelled."""

    def __init__(
        self, session: aiohttp.ClientSession, *, real_nodes: Collection[str] = (), sync_seconds: float = SYNC_SECONDS
    ) -> None:
        self._session = session
        self._api = Api(session)
        self._real_nodes = frozenset(real_nodes)
        self._sync_seconds = sync_seconds
        self._claims: dict[tuple[str, str], Claim] = {}
        self._preparation = Preparation(self._api, self._claims)
        # By uid, until the object is gone: a finished life must not begin again because of an event that came late.
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._removals: dict[str, asyncio.Task[None]] = {}
        self._bindings: dict[str, asyncio.Task[None]] = {}
        self._running: dict[str, Pod] = {}
        self._addresses = itertools.count(1)

    async def run(self) -> None:
        """Watch pods and claims until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch_pods())
                group.create_task(self._watch_claims())
        finally:
            for tasks in (self._lives, self._removals, self._bindings):
                for uid in list(tasks):
                    _end(tasks, uid)

    # pods

    async def _watch_pods(self) -> None:
        async for kind, pod in wire.changes(self._session, "/api/v1/pods", Pod, "spec.nodeName!="):
            uid = pod.metadata.uid
            if kind == "DELETED":
                _end(self._lives, uid)
                _end(self._removals, uid)
                self._running.pop(uid, None)
                self._preparation.forget(uid)
            elif pod.spec.node_name in self._real_nodes:
                continue
            elif pod.metadata.deletion_timestamp is not None:
                if uid not in self._removals:
                    _end(self._lives, uid)
                    self._removals[uid] = _begin(self._remove(pod))
            elif pod.status.phase in {"Pending", "Running"} and uid not in self._lives:
                self._lives[uid] = _begin(self._live(pod))

    async def _live(self, pod: Pod) -> None:
        if pod.status.phase == "Pending" and not await self._start(pod):
            return
        self._running.setdefault(pod.metadata.uid, pod)
        if seconds := pod.metadata.annotations.get(RUN_SECONDS):
            await asyncio.sleep(float(seconds))
            await self._patch(pod, statuses.ended(pod, 0, "Succeeded"))

    async def _start(self, pod: Pod) -> bool:
        """Start a pod's containers once its claims are prepared; False where the pod was gone first."""
        warnings: Counter[str] = Counter()
        newest: Pod | None = pod
        while newest is not None and newest.metadata.uid == pod.metadata.uid:
            try:
                claims = await self._preparation.prepare(newest)
            except PreparationError as error:
                if not warnings:
                    await self._patch(newest, statuses.unprepared(newest))
                await self._warn(newest, NOT_PREPARED, f"Failed to prepare dynamic resources: {error}", warnings)
                await asyncio.sleep(self._sync_seconds * (1 + SYNC_JITTER * random.random()))  # noqa: S311 - no secret
                newest = await self._api.read(pod.path, Pod)
            else:
                self._running[pod.metadata.uid] = newest
                await self._patch(newest, statuses.running(newest, claims, next(self._addresses)))
                return True
        return False

    async def _warn(self, pod: Pod, reason: str, message: str, given: Counter[str]) -> None:
        """Write an event about a pod, or count one that was given before."""
        given[message] += 1
        begin = pod.metadata.name[:LONGEST_EVENT_PREFIX].rstrip("-.")
        name = f"{begin}.{hashlib.sha256(f'{pod.metadata.uid} {message}'.encode()).hexdigest()[:16]}"
        events = f"/api/v1/namespaces/{pod.metadata.namespace}/events"
        if given[message] == 1:
            await self._api.send("POST", events, statuses.warning(pod, name, reason, message), JSON)
        else:
            body = {"count": given[message], "lastTimestamp": statuses.now()}
            await self._api.send("PATCH", f"{events}/{name}", body, MERGE)

    async def _patch(self, pod: Pod, status: dict[str, Any]) -> None:
        # With the uid, so that a new pod of the same name never gets the old one's status.
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        await self._api.send("PATCH", f"{pod.path}/status", body, STRATEGIC_MERGE)

    async def _remove(self, pod: Pod) -> None:
        grace = pod.metadata.deletion_grace_period_seconds or 0
        if not grace:
            # The API server removes it itself, if no finalizer keeps it and that request is not cut short.
            await asyncio.sleep(REMOVAL_SECONDS)
        if pod.status.phase in {"Pending", "Running"}:
            await asyncio.sleep(min(float(pod.metadata.annotations.get(STOP_SECONDS, "0")), grace))
            await self._patch(pod, statuses.ended(pod, 143, "Failed"))
            await asyncio.sleep(REMOVAL_SECONDS)
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}}
        await self._api.send("DELETE", pod.path, body, JSON)

    # claims

    async def _watch_claims(self) -> None:
        async for kind, claim in wire.changes(self._session, "/apis/resource.k8s.io/v1/resourceclaims", Claim):
            uid, key = claim.metadata.uid, (claim.metadata.namespace, claim.metadata.name)
            if kind == "DELETED":
                self._claims.pop(key, None)
                _end(self._bindings, uid)
                self._preparation.forget(uid)
                continue
            before, self._claims[key] = self._claims.get(key, claim), claim
            if before.metadata.annotations.get(UNHEALTHY) != claim.metadata.annotations.get(UNHEALTHY):
                await self._tell_health(claim)
            if claim.awaits_binding() and (uid not in self._bindings or self._bindings[uid].done()):
                self._bindings[uid] = _begin(self._bind(key))

    async def _tell_health(self, claim: Claim) -> None:
        """Tell anew of the devices of the pods that run with a claim, as a kubelet does when a driver tells it."""
        namespace = claim.metadata.namespace
        for pod in list(self._running.values()):
            if pod.metadata.namespace == namespace and claim.metadata.name in pod.claim_names():
                claims = {name: found for name in pod.claim_names() if (found := self._claims.get((namespace, name)))}
                await self._patch(pod, statuses.device_health(pod, claims))

    async def _bind(self, key: tuple[str, str]) -> None:
        """Act as the drivers of a claim's devices: say that what they wait for has happened, or has failed."""
        answered: Allocation | None = None
        while (claim := self._claims.get(key)) and claim.awaits_binding() and claim.status.allocation != answered:
            await asyncio.sleep(float(claim.metadata.annotations.get(BINDING_SECONDS, "0")))
            claim = self._claims.get(key, claim)  # in the meantime it may have got another allocation
            answered = claim.status.allocation
            await self._answer(claim)

    async def _answer(self, claim: Claim) -> None:
        is_failure = claim.metadata.annotations.get(BINDING_FAILS) == "true"
        by_driver: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for device in claim.devices_with_conditions():
            by_driver[device.driver].append(statuses.bound_device(device, is_failure=is_failure))
        for driver, devices in by_driver.items():
            body = {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": claim.metadata.name, "uid": claim.metadata.uid},
                "status": {"devices": devices},
            }
            await self._api.send("PATCH", f"{claim.path}/status?fieldManager={driver}&force=true", body, APPLY)


def _begin(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(work)
    task.add_done_callback(_tell_failure)
    return task


def _end(tasks: dict[str, asyncio.Task[None]], uid: str) -> None:
    if task := tasks.pop(uid, None):
        task.cancel()


def _tell_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error("a pod or claim was left alone", exc_info=error)


async def _run_until_told(kubeconfig: Path, real_nodes: Collection[str], sync_seconds: float) -> None:
    """Run until SIGTERM or SIGINT, or until the parent process is gone (see `processes.Component`)."""
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(run(kubeconfig, real_nodes=real_nodes, sync_seconds=sync_seconds))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    if os.environ.get("DOVETAIL_END_WITH_STDIN"):
        loop.add_reader(sys.stdin.fileno(), task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m e2e.controlplane.kubelet", description=__doc__.split("\n\n")[0])
    parser.add_argument("--kubeconfig", type=Path, required=True, help="file with a token of an administrator")
    parser.add_argument(
        "--except", dest="real_nodes", nargs="*", default=[], metavar="NODE", help="nodes with kubelets of their own"
    )
    parser.add_argument(
        "--sync-seconds",
        type=float,
        default=SYNC_SECONDS,
        help="at least so long after a preparation that failed it is tried again (default: %(default)g)",
    )
    arguments = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(name)s %(levelname)s %(message)s")
    asyncio.run(_run_until_told(arguments.kubeconfig, arguments.real_nodes, arguments.sync_seconds))


if __name__ == "__main__":
    main()
