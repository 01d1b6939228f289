"""PodGroups: those of the API, and those of a definition that has no schema. And DeviceQuotas."""

from typing import Final

from e2e.controlplane import versions
from e2e.hostile.objects.draw import Draw
from e2e.hostile.objects.kinds import PRIORITIES, Manifest, Table, metadata
from scheduler.change import Kind


def _group(draw: Draw) -> Manifest:
    spec = {"schedulingPolicy": {"gang": {"minCount": draw.one((1, 2))}}}
    return {"metadata": metadata(draw, Kind.POD_GROUPS, annotations={}), "spec": spec}


def _coscheduling(draw: Draw) -> Manifest:
    return {"metadata": metadata(draw, Kind.COSCHEDULING_GROUPS, annotations={}), "spec": {"minMember": 2}}


def _quota(draw: Draw) -> Manifest:
    resources = [{"deviceClass": "mallory", "limit": draw.one((0, 1, 8))}]
    spec = {"namespaceSelector": {"matchLabels": {"mallory": "x"}}, "resources": resources}
    return {"metadata": metadata(draw, Kind.QUOTAS), "spec": spec}


POD_GROUPS: Final = Table(Kind.POD_GROUPS, _group)
COSCHEDULING_GROUPS: Final = Table(Kind.COSCHEDULING_GROUPS, _coscheduling)
QUOTAS: Final = Table(Kind.QUOTAS, _quota)
_HAS_TEXTS: Final = versions.pod_groups().endswith("v1alpha2")
_MODES: Final[tuple[object, ...]] = ("Pod", "PodGroup") if _HAS_TEXTS else ({"single": {}}, {"all": {}})
_TOPOLOGY: Final = "dovetail.dev/gang-topology"


@POD_GROUPS.twist("more members than there ever are")
def _members(draw: Draw, group: Manifest) -> None:
    group["spec"]["schedulingPolicy"] = {"gang": {"minCount": draw.one((1000, 2**31 - 1))}}


@POD_GROUPS.twist("a level by a label")
def _level(draw: Draw, group: Manifest) -> None:
    group["spec"]["schedulingConstraints"] = {"topology": [{"key": draw.label_key()}]}


@POD_GROUPS.twist("levels by an annotation")
def _annotated(draw: Draw, group: Manifest) -> None:
    group["metadata"]["annotations"][_TOPOLOGY] = draw.one((draw.text(100_000), "label:a," * 9000, "device:a/b"))


@POD_GROUPS.twist("claims of the group")
def _claims(draw: Draw, group: Manifest) -> None:
    group["spec"]["resourceClaims"] = [
        {"name": f"c{index}", draw.one(("resourceClaimName", "resourceClaimTemplateName")): draw.word()}
        for index in range(4)
    ]


@POD_GROUPS.twist("a priority and a mode")
def _priority(draw: Draw, group: Manifest) -> None:
    name = draw.one(tuple(PRIORITIES))
    group["spec"] |= {"priorityClassName": name, "priority": PRIORITIES[name]}
    group["spec"]["disruptionMode"] = draw.one(_MODES)


@POD_GROUPS.twist("a status of conditions")
def _status(draw: Draw, group: Manifest) -> None:
    condition = {
        "type": draw.one(("PodGroupInitiallyScheduled", "PodGroupScheduled")),
        "status": "False",
        "reason": "R",
        "message": draw.text(5000),
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    group["status"] = {"conditions": [condition]}


@POD_GROUPS.twist("fields that are none", is_admitted=False)
def _wrong(draw: Draw, group: Manifest) -> None:
    draw.do(
        lambda: group["spec"].update(schedulingPolicy=draw.one(({}, draw.leaf(), {"gang": draw.leaf()}))),
        lambda: group["spec"].update({draw.one(("schedulingConstraints", "resourceClaims", "priority")): draw.leaf()}),
        lambda: group.update(status=draw.leaf()),
    )


@COSCHEDULING_GROUPS.twist("a number of members that is none")
def _minimum(draw: Draw, group: Manifest) -> None:
    group["spec"]["minMember"] = draw.one((draw.integer(), draw.leaf(), draw.digits(), 10**400, 1.5))


@COSCHEDULING_GROUPS.twist("a specification that is none")
def _anything(draw: Draw, group: Manifest) -> None:
    group["spec"] = draw.one((draw.leaf(), draw.nested("["), draw.nested("{")))


@COSCHEDULING_GROUPS.twist("levels by an annotation")
def _levels(draw: Draw, group: Manifest) -> None:
    group["metadata"]["annotations"][_TOPOLOGY] = draw.one((draw.text(100_000), "preferred:" * 9000, "label:" * 9000))


@QUOTAS.twist("absurd amounts")
def _amounts(draw: Draw, quota: Manifest) -> None:
    quota["spec"]["resources"] = [
        {"deviceClass": draw.word(), "capacity": "memory", "limit": draw.published(), "weight": 2**20}
        for _ in range(draw.one((1, 16)))
    ]


@QUOTAS.twist("a parent that is none")
def _parent(draw: Draw, quota: Manifest) -> None:
    quota["spec"]["parent"] = draw.one(("no-such-quota", f"mallory-{draw.below(draw.number + 1)}"))


@QUOTAS.twist("resources that are none", is_admitted=False)
def _resources(draw: Draw, quota: Manifest) -> None:
    entry = quota["spec"]["resources"][0]
    draw.do(
        lambda: quota["spec"].update(resources=draw.leaf()),
        lambda: entry.update({draw.one(("limit", "guarantee", "weight", "shape", "deviceClass")): draw.leaf()}),
        lambda: entry.update(limit=draw.one((draw.digits(), draw.no_quantity(), -1, 10**400, 1.5))),
    )
