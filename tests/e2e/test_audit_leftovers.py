"""What is left over in a cluster at rest is named; what is held by pods that run, or that still leave, is not."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from e2e import audit
from e2e.audit.reading import Json


def pod(name: str, where: str = "", **spec: Any) -> Json:
    return {
        "metadata": {"namespace": "default", "name": name, "uid": name},
        "spec": {"nodeName": where, "containers": [], **spec},
        "status": {"phase": "Running" if where else "Pending"},
    }


def member(name: str, where: str) -> Json:
    made = pod(name, where)
    made["metadata"]["labels"] = {"dovetail.dev/gang": "trainer"}
    made["metadata"]["annotations"] = {"dovetail.dev/gang-minimum": "2"}
    return made


def of_group(name: str, where: str) -> Json:
    return pod(name, where, schedulingGroup={"podGroupName": "group"})


def claim(name: str, *consumers: Json) -> Json:
    return {
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"},
        "spec": {},
        "status": {
            "allocation": {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": name}]}},
            "reservedFor": list(consumers),
        },
    }


def of(name: str, resource: str = "pods") -> Json:
    return {"resource": resource, "name": name, "uid": name}


def cluster() -> audit.Objects:
    """A pod that runs with its claim and volume, one that waits for a victim, two gangs that run and one that waits."""
    waits = pod("preemptor")
    waits["status"]["nominatedNodeName"] = "n2"
    victim = pod("victim", "n2")
    victim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    volume_claim = {"metadata": {"namespace": "default", "name": "v", "uid": "v"}, "spec": {"volumeName": "volume"}}
    kept = {"name": "v", "uid": "v"}
    return audit.Objects(
        pods=[
            pod("runs", "n1"),
            waits,
            victim,
            member("m0", "n1"),
            member("m1", "n1"),
            member("m2", ""),
            of_group("g0", "n1"),
            of_group("g1", "n2"),
        ],
        nodes=[],
        claims=[claim("own", of("runs")), claim("shared", of("group", "podgroups"))],
        slices=[],
        classes=[],
        volumes=[{"metadata": {"name": "volume"}, "spec": {"claimRef": kept}, "status": {"phase": "Bound"}}],
        volume_claims=[volume_claim],
        groups=[
            {
                "metadata": {"namespace": "default", "name": "group", "uid": "group"},
                "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
            }
        ],
    )


def test_nothing_is_left_over_where_everything_is_held_by_pods_that_run() -> None:
    assert audit.leftovers(cluster()) == []


def forget(index: int) -> Callable[[audit.Objects], None]:
    def change(objects: audit.Objects) -> None:
        del objects.pods[index]

    return change


def unbind(index: int) -> Callable[[audit.Objects], None]:
    def change(objects: audit.Objects) -> None:
        objects.pods[index]["spec"]["nodeName"] = ""
        objects.pods[index]["status"]["phase"] = "Pending"

    return change


def drop_group(objects: audit.Objects) -> None:
    objects.groups.clear()


def drop_volume_claim(objects: audit.Objects) -> None:
    objects.volume_claims.clear()


def bind_elsewhere(objects: audit.Objects) -> None:
    objects.volume_claims[0]["spec"]["volumeName"] = "another"


def release(objects: audit.Objects) -> None:
    objects.claims[0]["status"]["reservedFor"].clear()


@pytest.mark.parametrize(
    ("change", "rule", "subject"),
    [
        pytest.param(release, "left", "default/own", id="an allocation is reserved for no pod"),
        pytest.param(forget(0), "left", "default/own", id="the pod of a reservation is gone"),
        pytest.param(unbind(0), "held", "default/own", id="the pod of a reservation waits"),
        pytest.param(drop_group, "left", "default/shared", id="the group of a reservation is gone"),
        pytest.param(drop_volume_claim, "left", "volume", id="the claim of a volume is gone"),
        pytest.param(bind_elsewhere, "left", "volume", id="the claim of a volume has another"),
        pytest.param(forget(2), "nominated", "default/preemptor", id="no pod leaves the nominated node"),
        pytest.param(unbind(3), "part", "default/trainer", id="a gang by label is in two parts"),
        pytest.param(unbind(7), "part", "default/group", id="a gang of a PodGroup is in two parts"),
    ],
)
def test_every_leftover_is_named(change: Callable[[audit.Objects], None], rule: str, subject: str) -> None:
    objects = copy.deepcopy(cluster())
    change(objects)
    assert [(each.rule, each.subject) for each in audit.leftovers(objects)] == [(rule, subject)]


def test_a_claim_for_extended_resources_that_its_pod_does_not_use_is_named() -> None:
    objects = cluster()
    runs = next(each for each in objects.pods if each["metadata"]["name"] == "runs")
    runs["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "used"}
    for name in ("used", "late"):
        made = {"metadata": claim(name)["metadata"], "spec": {}}
        made["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        made["metadata"]["ownerReferences"] = [{"uid": "runs"}]
        objects.claims.append(made)

    assert [(each.rule, each.subject) for each in audit.leftovers(objects)] == [("left", "default/late")]


def test_a_volume_that_is_released_is_kept_for_no_claim() -> None:
    objects = copy.deepcopy(cluster())
    objects.volume_claims.clear()
    objects.volumes[0]["status"]["phase"] = "Released"
    assert audit.leftovers(objects) == []


def test_devices_that_are_got_ready_are_held_by_right() -> None:
    objects = copy.deepcopy(cluster())
    unbind(0)(objects)
    objects.claims[0]["status"]["allocation"]["devices"]["results"][0]["bindingConditions"] = ["ready"]
    assert audit.leftovers(objects) == []
