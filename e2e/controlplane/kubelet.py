"""
Stand-in for the kubelets and DRA drivers that a cluster lacks: `python -m e2e.controlplane.kubelet --kubeconfig F`.

A pod that is bound goes to Running as soon as its claims are allocated and reserved for it, which is what a kubelet
demands; else it stays Pending. Annotated `dovetail.dev/run-seconds`, it then goes to Succeeded. A pod that is being
deleted first goes to Failed, as where a container does not heed SIGTERM; a moment later, in which the claim controller
gives its claims free, it is gone. Devices with binding conditions get them True in `status.devices`, as their driver
would do, `dovetail.dev/binding-seconds` later (annotation of the claim); `dovetail.dev/binding-fails: "true"` there
makes the driver report the failure conditions instead.

It speaks as an administrator, a group that priority and fairness leaves alone: it must not eat the share of the
scheduler under test.
"""

import argparse
import asyncio
import contextlib
import itertools
import logging
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Collection, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from e2e.controlplane import wire
from e2e.controlplane.wire import AllocatedDevice, Allocation, Claim, Pod

RUN_SECONDS = "dovetail.dev/run-seconds"
BINDING_SECONDS = "dovetail.dev/binding-seconds"
BINDING_FAILS = "dovetail.dev/binding-fails"
CONNECTIONS = 64  # beyond this the API server is the limit
ATTEMPTS = 8
REMOVAL_SECONDS = 0.5
"""Between a pod's terminal phase and the end of its object: 0.3 to 0.9 s on real nodes."""
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

log = logging.getLogger("kubelet")


async def run(kubeconfig: Path, *, real_nodes: Collection[str] = ()) -> None:
    """Act for the pods on all nodes but those that have kubelets of their own, until cancelled."""
    async with wire.session(kubeconfig, CONNECTIONS) as session:
        await StandIn(session, real_nodes=real_nodes).run()


class StandIn:
    """Every kubelet and driver at once; `run` works until it is cancelled."""

    def __init__(self, session: aiohttp.ClientSession, *, real_nodes: Collection[str] = ()) -> None:
        self._session = session
        self._real_nodes = frozenset(real_nodes)
        self._claims: dict[tuple[str, str], Claim] = {}
        self._claim_changed: dict[tuple[str, str], list[asyncio.Event]] = defaultdict(list)
        # By uid, until the object is gone: a finished life must not begin again because of an event that came late.
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._removals: dict[str, asyncio.Task[None]] = {}
        self._bindings: dict[str, asyncio.Task[None]] = {}
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
            elif pod.spec.node_name in self._real_nodes:
                continue
            elif pod.metadata.deletion_timestamp is not None:
                # Without any grace left only a finalizer keeps it, and that is not ours.
                if uid not in self._removals and pod.metadata.deletion_grace_period_seconds != 0:
                    _end(self._lives, uid)
                    self._removals[uid] = _begin(self._remove(pod))
            elif pod.status.phase in {"Pending", "Running"} and pod.knows_its_claims() and uid not in self._lives:
                self._lives[uid] = _begin(self._live(pod))

    async def _live(self, pod: Pod) -> None:
        if pod.status.phase == "Pending":
            for name in pod.claim_names():
                await self._reserved(pod, name)
            await self._patch(pod, self._running(pod))
        if seconds := pod.metadata.annotations.get(RUN_SECONDS):
            await asyncio.sleep(float(seconds))
            await self._patch(pod, _ended(pod, 0, "Succeeded"))

    async def _reserved(self, pod: Pod, name: str) -> None:
        """Wait until a claim is allocated and reserved for the pod."""
        key = (pod.metadata.namespace, name)
        changed = asyncio.Event()
        self._claim_changed[key].append(changed)
        try:
            while (claim := self._claims.get(key)) is None or not claim.is_reserved_for(pod):
                changed.clear()
                await changed.wait()
        finally:
            self._claim_changed[key].remove(changed)
            if not self._claim_changed[key]:
                del self._claim_changed[key]

    def _running(self, pod: Pod) -> dict[str, Any]:
        now, number = _now(), next(self._addresses)
        ip = f"10.{128 + (number >> 16 & 127)}.{number >> 8 & 255}.{number & 255}"
        conditions = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
        return {
            "phase": "Running",
            "startTime": now,
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "conditions": [{"type": name, "status": "True", "lastTransitionTime": now} for name in conditions],
            "containerStatuses": _container_statuses(pod, {"running": {"startedAt": now}}, is_ready=True),
        }

    async def _patch(self, pod: Pod, status: dict[str, Any]) -> None:
        # With the uid, so that a new pod of the same name never gets the old one's status.
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        await self._send("PATCH", f"{pod.path}/status", body, STRATEGIC_MERGE)

    async def _remove(self, pod: Pod) -> None:
        if pod.status.phase in {"Pending", "Running"}:
            await self._patch(pod, _ended(pod, 143, "Failed"))
            await asyncio.sleep(REMOVAL_SECONDS)
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}}
        await self._send("DELETE", pod.path, body, "application/json")

    # claims

    async def _watch_claims(self) -> None:
        async for kind, claim in wire.changes(self._session, "/apis/resource.k8s.io/v1/resourceclaims", Claim):
            uid, key = claim.metadata.uid, (claim.metadata.namespace, claim.metadata.name)
            if kind == "DELETED":
                self._claims.pop(key, None)
                _end(self._bindings, uid)
                continue
            self._claims[key] = claim
            for changed in self._claim_changed.get(key, ()):
                changed.set()
            if claim.awaits_binding() and (uid not in self._bindings or self._bindings[uid].done()):
                self._bindings[uid] = _begin(self._bind(key))

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
            by_driver[device.driver].append(_device_status(device, is_failure=is_failure))
        for driver, devices in by_driver.items():
            body = {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": claim.metadata.name, "uid": claim.metadata.uid},
                "status": {"devices": devices},
            }
            await self._send("PATCH", f"{claim.path}/status?fieldManager={driver}&force=true", body, APPLY)

    # requests

    async def _send(self, method: str, path: str, body: dict[str, Any], content: str) -> None:
        """Send one write, again while the server is busy; what is gone or has become another object needs none."""
        data, headers = msgspec.json.encode(body), {"Content-Type": content}
        for attempt in range(ATTEMPTS):
            with contextlib.suppress(aiohttp.ClientConnectionError, TimeoutError):
                async with self._session.request(method, path, data=data, headers=headers) as answer:
                    if answer.ok or answer.status in {404, 409}:
                        return
                    if answer.status < 500 and answer.status != 429:
                        log.warning("%s %s: %d %s", method, path, answer.status, await answer.text())
                        return
            await asyncio.sleep(0.05 * 2**attempt)
        log.error("%s %s: given up", method, path)


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


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _container_statuses(pod: Pod, state: dict[str, Any], *, is_ready: bool) -> list[dict[str, Any]]:
    return [
        {
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": is_ready,
            "started": is_ready,
            "restartCount": 0,
            "state": state,
        }
        for container in pod.spec.containers
    ]


def _ended(pod: Pod, exit_code: int, phase: str) -> dict[str, Any]:
    now = _now()
    reason = "Error" if exit_code else "Completed"
    state = {"terminated": {"exitCode": exit_code, "reason": reason, "finishedAt": now}}
    return {
        "phase": phase,
        "conditions": [
            {"type": name, "status": "False", "reason": "PodCompleted", "lastTransitionTime": now}
            for name in ("ContainersReady", "Ready")
        ],
        "containerStatuses": _container_statuses(pod, state, is_ready=False),
    }


def _device_status(device: AllocatedDevice, *, is_failure: bool) -> dict[str, Any]:
    true = device.binding_failure_conditions if is_failure else device.binding_conditions
    now = _now()
    status = {
        "driver": device.driver,
        "pool": device.pool,
        "device": device.device,
        "conditions": [
            {"type": name, "status": "True", "reason": "StandIn", "message": "", "lastTransitionTime": now}
            for name in true
        ],
    }
    return status if device.share_id is None else {**status, "shareID": device.share_id}


async def _run_until_told(kubeconfig: Path, real_nodes: Collection[str]) -> None:
    """Run until SIGTERM or SIGINT, or until the parent process is gone (see `processes.Component`)."""
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(run(kubeconfig, real_nodes=real_nodes))
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
    arguments = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(name)s %(levelname)s %(message)s")
    asyncio.run(_run_until_told(arguments.kubeconfig, arguments.real_nodes))


if __name__ == "__main__":
    main()
