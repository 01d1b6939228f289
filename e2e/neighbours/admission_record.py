"""What watches of Workloads and pods show of a run, with the times at which they show it."""

import asyncio
import datetime as dt
import http.client
import time
from collections import defaultdict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import msgspec

from e2e.controlplane import wire
from e2e.neighbours.admission_load import CONTROLLERS, NAMESPACE, NULL, PLACEMENT, Load

_KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
_GROUP: Final = "kueue.x-k8s.io/v1beta2"
_WORKLOAD: Final = "kueue.x-k8s.io/workload"
_APPLY: Final = {"Content-Type": "application/apply-patch+yaml"}


class _Owner(msgspec.Struct):
    name: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    owner_references: list[_Owner] = []
    annotations: dict[str, str] = {}


class _Condition(msgspec.Struct):
    type: str
    status: str = ""


class _Check(msgspec.Struct):
    name: str
    state: str = ""


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] = []
    admission_checks: list[_Check] = []


class WorkloadEvent(msgspec.Struct):
    """A Workload as far as it is measured."""

    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class PodEvent(msgspec.Struct):
    """A pod as far as it is measured."""

    metadata: _Metadata
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


@dataclass(slots=True)
class _Life:
    """When a Workload got quota, was answered and let in, for the last time, and when each of its pods came."""

    quota: float | None = None
    ready: float | None = None
    admitted: float | None = None
    created: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    answer_seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Run:
    """
    The figures of a run.

    `late` are Workloads that were let in and not all of whose pods were bound in time; `answers` are seconds from quota
    to Ready (without a check: to Admitted), `bound` from the creation of a pod to its node.
    """

    arm: str
    workloads: int
    admitted: int
    late: int
    rate: float
    answers: tuple[float, ...]
    bound: tuple[float, ...]
    seconds: float


class Recorder:
    """Watches; with `answers` it is the controller of the null check itself."""

    def __init__(self, session: aiohttp.ClientSession, arm: str, *, answers: bool) -> None:
        self._session: Final = session
        self._arm: Final = arm
        self._answers: Final = answers
        self._lives: defaultdict[str, _Life] = defaultdict(_Life)
        self._began = time.monotonic()
        self._check: Final = {"null": NULL, "dovetail": PLACEMENT}.get(arm, "")
        self._is_active: Final = asyncio.Event()
        self._has_bound: Final = asyncio.Event()

    def watches(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return what runs beside the load."""
        return self._watch_workloads(), self._watch_pods(), self._activate()

    async def synced(self) -> None:
        """Wait until the check is active, where there is one."""
        await self._is_active.wait()
        self._began = time.monotonic()

    async def until_over(self, load: Load) -> None:
        """Wait until all pods of every Workload that can be let in have a node."""
        pods = {name: count for name, _, count in load.workloads}
        while any(len(self._lives[name].bound) < pods[name] for name in load.names):
            self._has_bound.clear()
            await self._has_bound.wait()

    def run(self, load: Load, grace_seconds: float) -> Run:
        """Return the figures."""
        now, pods = time.monotonic(), {name: count for name, _, count in load.workloads}
        lives = {name: self._lives[name] for name in pods}
        admitted = [name for name, life in lives.items() if life.admitted is not None]
        late = [name for name in admitted if self._is_late(lives[name], pods[name], now, grace_seconds)]
        last = max((life.admitted for life in lives.values() if life.admitted is not None), default=now)
        bound = [
            at - life.created[pod] for life in lives.values() for pod, at in life.bound.items() if pod in life.created
        ]
        return Run(
            arm=self._arm,
            workloads=len(pods),
            admitted=len(admitted),
            late=len(late),
            rate=len(admitted) / max(last - self._began, 1e-9),
            answers=tuple(seconds for life in lives.values() for seconds in life.answer_seconds),
            bound=tuple(bound),
            seconds=now - self._began,
        )

    @staticmethod
    def _is_late(life: _Life, pods: int, now: float, grace: float) -> bool:
        waits = [life.bound.get(pod, now) - at for pod, at in life.created.items()]
        is_young = life.admitted is not None and now - life.admitted < grace
        return any(seconds > grace for seconds in waits) or (len(life.bound) < pods and not is_young)

    async def _watch_workloads(self) -> None:
        path = f"{_KUEUE}/workloads"
        async with asyncio.TaskGroup() as answering:
            await self._follow_workloads(path, answering)

    async def _follow_workloads(self, path: str, answering: asyncio.TaskGroup) -> None:
        async for event, workload in wire.changes(self._session, path, WorkloadEvent):
            if event == "DELETED":
                continue
            now = time.monotonic()
            owners = workload.metadata.owner_references
            name = owners[0].name if len(owners) == 1 else workload.metadata.name
            life = self._lives[name]
            true = {each.type for each in workload.status.conditions if each.status == "True"}
            checks = {each.name: each.state for each in workload.status.admission_checks}
            self._note(life, true, checks, now)
            if self._answers and "QuotaReserved" in true and checks.get(NULL) == "Pending":
                answering.create_task(self._answer(workload))

    def _note(self, life: _Life, true: set[str], checks: dict[str, str], now: float) -> None:
        if "QuotaReserved" not in true:
            life.quota = life.ready = None
            return
        life.quota = life.quota or now
        is_answered = checks.get(self._check) == "Ready" if self._check else "Admitted" in true
        if is_answered and life.ready is None:
            life.ready = now
            life.answer_seconds.append(now - life.quota)
        if "Admitted" in true:
            life.admitted = life.admitted or now

    async def _answer(self, workload: WorkloadEvent) -> None:
        """Say Ready, as a check without any work would."""
        metadata = workload.metadata
        moment = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        state = {"name": NULL, "state": "Ready", "message": "", "lastTransitionTime": moment}
        body = {
            "apiVersion": _GROUP,
            "kind": "Workload",
            "metadata": {
                "name": metadata.name,
                "namespace": metadata.namespace,
                "resourceVersion": metadata.resource_version,
            },
            "status": {"admissionChecks": [state]},
        }
        path = f"{_KUEUE}/namespaces/{metadata.namespace}/workloads/{metadata.name}/status"
        await self._apply(path, body)

    async def _watch_pods(self) -> None:
        async for event, pod in wire.changes(self._session, f"/api/v1/namespaces/{NAMESPACE}/pods", PodEvent):
            if event == "DELETED":
                continue
            now, owners = time.monotonic(), pod.metadata.owner_references
            group = pod.metadata.name.rpartition("-")[0]
            life = self._lives[owners[0].name if owners and owners[0].name in self._lives else group]
            if pod.metadata.annotations.get(_WORKLOAD) or owners:  # a plain pod begins to wait when it is let in
                life.created.setdefault(pod.metadata.name, now)
            if pod.spec.node_name:
                life.bound.setdefault(pod.metadata.name, now)
                self._has_bound.set()

    async def _activate(self) -> None:
        """Wait until the check is active; the null check's condition is written here."""
        if not self._check:
            self._is_active.set()
            return
        path = f"{_KUEUE}/admissionchecks/{self._check}"
        if self._answers:
            moment = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            condition = {
                "type": "Active",
                "status": "True",
                "reason": "Active",
                "message": CONTROLLERS[NULL],
                "lastTransitionTime": moment,
            }
            body = {
                "apiVersion": _GROUP,
                "kind": "AdmissionCheck",
                "metadata": {"name": NULL},
                "status": {"conditions": [condition]},
            }
            await self._apply(f"{path}/status", body)
        while True:
            async with self._session.get(path) as answer:
                found = await answer.json()
            conditions = found.get("status", {}).get("conditions", [])
            if any(each["type"] == "Active" and each["status"] == "True" for each in conditions):
                self._is_active.set()
                return
            await asyncio.sleep(0.1)

    async def _apply(self, path: str, body: dict[str, Any]) -> None:
        query = {"fieldManager": "null-check", "force": "true"}
        data = msgspec.json.encode(body)
        async with self._session.patch(path, data=data, headers=_APPLY, params=query) as answer:
            if answer.status not in {http.client.OK, http.client.CONFLICT}:  # it has changed, and comes again
                raise RuntimeError(f"PATCH {path}: {answer.status} {await answer.text()}")
