"""The objects that the admission check reads, each kind by a watch of its own."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from scheduler.kube import paths
from scheduler.kube.client import Client
from scheduler.kube.decode.json_parts import Raw
from scheduler.placement_check.kueue_decoding import (
    decode_admission_check,
    decode_claim_spec,
    decode_flavor,
    decode_priority,
    decode_workload,
)
from scheduler.placement_check.kueue_objects import CONTROLLER, GROUP, VERSION, AdmissionCheck, KueueWorkload
from scheduler.placement_check.object_watch import ObjectWatch
from scheduler.placement_check.podset_pods import Part, WorkloadContext

_TEMPLATES: Final = f"{paths.RESOURCE}/resourceclaimtemplates"
_PRIORITIES: Final = paths.collection("scheduling.k8s.io", "v1", "priorityclasses")

T = TypeVar("T")


class KueueObjects:
    """
    Workloads, AdmissionChecks, and what Workloads name: ResourceFlavors, claim templates and PriorityClasses.

    `on_workload` gets the key of a Workload that has changed, `on_part` what Workloads name (see `Part`). `on_check` is
    called where an AdmissionCheck has changed.
    """

    def __init__(
        self,
        client: Client,
        *,
        on_workload: Callable[[str], None],
        on_part: Callable[[Part], None],
        on_check: Callable[[], None],
        on_error: Callable[[str, Exception], None],
    ) -> None:
        def watch(path: str, kind: str, decode: Callable[[Raw], T]) -> ObjectWatch[T]:
            """Follow what Workloads name."""
            return ObjectWatch(client, path, decode, on_change=lambda key: on_part((kind, key)), on_error=on_error)

        self._workloads: Final[ObjectWatch[KueueWorkload]] = ObjectWatch(
            client,
            paths.collection(GROUP, VERSION, "workloads"),
            decode_workload,
            on_change=on_workload,
            on_error=on_error,
        )
        self._checks: Final[ObjectWatch[AdmissionCheck]] = ObjectWatch(
            client,
            paths.collection(GROUP, VERSION, "admissionchecks"),
            decode_admission_check,
            on_change=lambda _: on_check(),
            on_error=on_error,
        )
        flavors = paths.collection(GROUP, VERSION, "resourceflavors")
        self._flavors: Final = watch(flavors, "ResourceFlavor", decode_flavor)
        self._templates: Final = watch(_TEMPLATES, "ResourceClaimTemplate", decode_claim_spec)
        self._priorities: Final = watch(_PRIORITIES, "PriorityClass", decode_priority)

    async def run(self) -> None:
        """Follow all of them until cancelled."""
        await asyncio.gather(*(watch.run() for watch in self._all()))

    async def synced(self) -> None:
        """Wait until each kind was listed."""
        await asyncio.gather(*(watch.synced.wait() for watch in self._all()))

    @property
    def problem(self) -> str:
        """Why some of them are not followed now; "" while all are."""
        return "; ".join(watch.problem for watch in self._all() if watch.problem)

    @property
    def workloads(self) -> Mapping[str, KueueWorkload]:
        """The Workloads, by namespace/name."""
        return self._workloads.objects

    @property
    def checks(self) -> Iterable[AdmissionCheck]:
        """The AdmissionChecks that name this controller."""
        return [check for check in self._checks.objects.values() if check.controller == CONTROLLER]

    @property
    def around(self) -> WorkloadContext:
        """What Workloads name."""
        return WorkloadContext(self._flavors.objects, self._templates.objects, self._priorities.objects)

    def _all(self) -> tuple[ObjectWatch[Any], ...]:
        return self._workloads, self._checks, self._flavors, self._templates, self._priorities
