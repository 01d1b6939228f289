"""The document of `dovetail quota`: the tree, and who would lose what next."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from scheduler.simulation.quotas.next_reclaims import NextReclaim, NextReclaims
from solver.domain import GangId, PodId, QuotaState, ResourceState


class QuotaStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of the document."""


class ResourceRow(QuotaStruct, frozen=True, kw_only=True):
    """
    One of `spec.resources`, with amounts as they are written there.

    `lent` is what is held beyond the guarantee, `waiting` pods that wait and may count for it, whatever they wait for.
    `fleet` is null where it is not known.
    """

    device_class: str
    capacity: str | None
    shape: str
    guarantee: str
    limit: str | None
    weight: int
    held: str
    lent: str
    waiting: int
    fleet: str | None


class FindingRow(QuotaStruct, frozen=True, kw_only=True):
    """Something that contradicts: `reason` is that of the condition `Valid`, `message` says what to write instead."""

    reason: str
    message: str


class QuotaRow(QuotaStruct, frozen=True, kw_only=True):
    """A quota; `namespaces` are those whose claims count for it."""

    name: str
    parent: str | None
    namespaces: list[str]
    resources: list[ResourceRow]
    findings: list[FindingRow]


class NamespacedName(QuotaStruct, frozen=True, kw_only=True):
    """A pod or a gang."""

    namespace: str
    name: str


class VictimRow(QuotaStruct, frozen=True, kw_only=True):
    """
    A pod that would be evicted; `quota` is null where its namespace has none.

    `isReclaimed` says that it goes because its quota has borrowed. Others go because their priority is lower, with and
    without `preemption.reclaim`.
    """

    namespace: str
    name: str
    quota: str | None
    is_reclaimed: bool


class YoungRow(QuotaStruct, frozen=True, kw_only=True):
    """A pod that would be evicted for a pod that waits, if it had run for `minimumRunSeconds`."""

    namespace: str
    name: str
    quota: str | None
    ran_seconds: int


class ReclaimRow(QuotaStruct, frozen=True, kw_only=True):
    """
    What a pod that waits would get, or its `gang`; where both are null, one more device of `deviceClass` is asked for.

    `isFree` says that it takes nothing from anybody. Without victims and not free, it waits: perhaps until those in
    `tooYoung` have run for `minimumRunSeconds`, which is null where there are none.
    """

    quota: str
    pod: NamespacedName | None
    gang: NamespacedName | None
    device_class: str | None
    is_free: bool
    victims: list[VictimRow]
    too_young: list[YoungRow]
    minimum_run_seconds: int | None


class QuotaList(QuotaStruct, frozen=True, kw_only=True):
    """
    The quotas, each before those below it.

    `reclaimEnabled` says whether the profile that is asked for reclaims, `reclaimingProfiles` which of all do.
    `notAsked` counts the devices of which nobody was asked who would lose one, because there are too many.
    """

    items: list[QuotaRow]
    reclaims: list[ReclaimRow]
    reclaim_enabled: bool
    reclaiming_profiles: list[str]
    not_asked: int


def document(
    states: Iterable[QuotaState], found: NextReclaims, *, may_reclaim: bool, reclaiming: Sequence[str]
) -> QuotaList:
    """Convert the answer."""
    return QuotaList(
        items=[row(each) for each in states],
        reclaims=[_reclaim(each) for each in found.reclaims],
        reclaim_enabled=may_reclaim,
        reclaiming_profiles=list(reclaiming),
        not_asked=found.not_asked,
    )


def without_namespaces(state: QuotaState) -> dict[str, Any]:
    """Convert a quota for readers who may not list namespaces, perhaps; `depth` counts the quotas above it."""
    fields = {name: value for name, value in msgspec.to_builtins(row(state)).items() if name != "namespaces"}
    return {**fields, "depth": state.depth}


def row(state: QuotaState) -> QuotaRow:
    """Convert a quota."""
    return QuotaRow(
        name=state.quota,
        parent=state.parent or None,
        namespaces=list(state.namespaces),
        resources=[_resource(each) for each in state.resources],
        findings=[FindingRow(reason=each.reason, message=each.message) for each in state.findings],
    )


def _resource(each: ResourceState) -> ResourceRow:
    amount, limit = each.key.amount, each.resource.limit
    return ResourceRow(
        device_class=each.key.device_class,
        capacity=each.key.capacity or None,
        shape=each.key.shape,
        guarantee=amount(each.guarantee),
        limit=None if limit is None else amount(limit),
        weight=each.resource.weight,
        held=amount(each.held),
        lent=amount(each.lent),
        waiting=each.waiting,
        fleet=None if each.fleet is None else amount(each.fleet),
    )


def _reclaim(each: NextReclaim) -> ReclaimRow:
    return ReclaimRow(
        quota=each.quota,
        pod=None if each.pod is None or each.gang is not None else _named(each.pod),
        gang=None if each.gang is None else _named(each.gang),
        device_class=None if each.key is None else each.key.device_class,
        is_free=each.placed,
        victims=[
            VictimRow(
                namespace=one.pod.namespace, name=one.pod.name, quota=one.quota or None, is_reclaimed=one.is_reclaimed
            )
            for one in each.victims
        ],
        too_young=[
            YoungRow(
                namespace=one.pod.namespace, name=one.pod.name, quota=one.quota or None, ran_seconds=one.ran_seconds
            )
            for one in each.too_young
        ],
        minimum_run_seconds=each.minimum_run_seconds if each.too_young else None,
    )


def _named(each: PodId | GangId) -> NamespacedName:
    return NamespacedName(namespace=each.namespace, name=each.name)
