"""Groups and cases in the API server: created, and taken away again."""

import asyncio
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from e2e import objects
from e2e.controlplane.access import RequestError
from e2e.differential.groups import Case, Group
from e2e.objects import Manifest

SETTLE_SECONDS: Final = 30.0


@dataclass(slots=True)
class Stage:
    """What is there of a group; `refused` are cases that the API server does not take, with what it says."""

    session: aiohttp.ClientSession
    refused: dict[str, str] = field(default_factory=dict)

    async def build(self, group: Group) -> None:
        """Create a group's cluster. Raises RequestError: a generator made what the API server refuses."""
        for phase in group.cluster:
            await create(self.session, phase)
            # One after the other: what its controller cannot write at once, it tries again 15 s later.
            await self._volumes_settle(phase)

    async def clear(self, group: Group) -> None:
        """Take a group's cluster away."""
        for phase in reversed(group.cluster):
            await objects.delete(self.session, phase)

    async def admit(self, cases: Sequence[Case]) -> dict[str, Case]:
        """Create cases and give those that the API server takes, by the uid of the pod."""
        await asyncio.gather(*(self._try_objects(each) for each in cases))
        pods = await asyncio.gather(*(self._try_pod(each) for each in cases))
        return {uid: case for uid, case in zip(pods, cases, strict=True) if uid is not None}

    async def dismiss(self, cases: Iterable[Case]) -> None:
        """Delete cases."""
        gone = list(cases)
        await objects.delete(self.session, (each.pod for each in gone))
        await objects.delete(self.session, (each for case in gone for each in case.objects))

    async def _volumes_settle(self, phase: Sequence[Manifest]) -> None:
        """Wait until the controller has seen all volumes and bound the claims that name one. Raises TimeoutError."""
        waiting = [each for each in phase if _settles(each)]
        end = time.monotonic() + SETTLE_SECONDS
        while waiting:
            now = await asyncio.gather(
                *(objects.request(self.session, "GET", objects.object_path(each)) for each in waiting)
            )
            waiting = [
                each
                for each, found in zip(waiting, now, strict=True)
                if found.get("status", {}).get("phase") not in {"Bound", "Available"}
            ]
            if waiting and time.monotonic() > end:
                raise TimeoutError(f"{waiting[0]['kind']} {waiting[0]['metadata']['name']} is not bound or available")

    async def _try_objects(self, case: Case) -> None:
        try:
            await create(self.session, case.objects)
        except RequestError as error:
            self.refused[case.name] = _said(error)

    async def _try_pod(self, case: Case) -> str | None:
        if case.name in self.refused:
            return None
        try:
            (made,) = await objects.create(self.session, (case.pod,))
        except RequestError as error:
            self.refused[case.name] = _said(error)
            return None
        uid: str = made["metadata"]["uid"]
        return uid


async def create(session: aiohttp.ClientSession, manifests: Sequence[Manifest]) -> None:
    """Create objects, then write the status of claims and pods: the API server ignores it on creation."""
    made = await objects.create(session, manifests)
    await asyncio.gather(
        *(
            objects.request(session, "PUT", f"{objects.object_path(wanted)}/status", _with_status(created, wanted))
            for wanted, created in zip(manifests, made, strict=True)
            if wanted["kind"] in {"ResourceClaim", "Pod"} and "status" in wanted
        )
    )


def _settles(manifest: Manifest) -> bool:
    named = manifest["kind"] == "PersistentVolumeClaim" and "volumeName" in manifest["spec"]
    return named or manifest["kind"] == "PersistentVolume"


def _said(error: RequestError) -> str:
    """Shorten an answer to what it says."""
    found = re.search(r'"message":"(.*?[^\\])"[,}]', str(error))
    return found[1] if found else str(error)


def _with_status(created: Manifest, wanted: Manifest) -> Manifest:
    head = {"apiVersion": wanted["apiVersion"], "kind": wanted["kind"]}
    return {**created, **head, "status": {**created.get("status", {}), **wanted["status"]}}
