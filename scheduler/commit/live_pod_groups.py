"""
Whether the PodGroups for which claims are reserved still exist, by a live read just before the binding.

A pod names its PodGroup and does not state its uid. The watches of pods, claims and PodGroups run apart. So the cache
may show a new pod beside the group that had the name before, and the claim would be reserved for that one. The claim
controller removes the entry of a group that is gone, and takes the allocation back while the pod runs.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

from scheduler.cluster import Unit
from scheduler.commit.claims import api_reason
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.errors import KubeError
from scheduler.kube.writer import Writer
from scheduler.observe.unexpected_errors import together
from solver.domain import Claim, GangId, Reason, ReasonCode


class LivePodGroups:
    """
    Reads the PodGroups of units that reserve claims for them; others cost no request.

    `collection` is the path of PodGroups on the API server, empty where it has none: no claim is reserved for a group.
    """

    def __init__(self, client: Client, writer: Writer, collection: str) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._collection: Final = collection

    async def objections(self, unit: Unit, claims: Iterable[Claim]) -> tuple[Reason, ...]:
        """Return which groups that have reserved one of `claims`, as the API server answered them, are gone."""
        reserved = {each.uid for claim in claims for each in claim.reserved_for if each.resource == "podgroups"}
        asked = [(group, uid) for group, uid in unit.pod_groups if uid in reserved] if self._collection else []
        found = await together(self._objection(group, uid) for group, uid in asked)
        return tuple(each for each in found if each is not None)

    async def _objection(self, group: GangId, uid: str) -> Reason | None:
        try:
            live = await self._writer.read(partial(writes.read_group_uid, self._client, self._collection, group))
        except KubeError as error:
            return api_reason(error)
        if live == uid:
            return None
        message = f"PodGroup {group} was deleted" + (", and another one has its name" if live else "")
        return Reason(code=ReasonCode.CONFLICT, message=message)
