"""Volumes and claims on them that the API server refuses: each is named by its field, with what to write instead."""

from typing import Any

import pytest

from scheduler.simulation.manifests.api_validation import of_object

Json = dict[str, Any]
SPEC: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def claim(**spec: Any) -> Json:
    body = {**SPEC, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": body}


def sized(size: Any) -> Json:
    return claim(resources={"requests": {"storage": size}})


def volume(size: str) -> Json:
    body = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": body}


def of_pod(spec: Json) -> Json:
    entry = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    body = {"containers": [{"name": "c"}], "volumes": [entry]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": body}


def of_stateful_set(spec: Json) -> Json:
    template = {"spec": {"containers": [{"name": "c"}]}}
    body = {"template": template, "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}]}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": body}


MODES = "ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod"
WRONG = [
    (
        claim(accessModes=["ReadWriteSometimes"]),
        "spec.accessModes[0]",
        f"is 'ReadWriteSometimes': write one of {MODES}",
    ),
    (claim(accessModes=[]), "spec.accessModes", f"missing: write at least one of {MODES}"),
    (
        claim(accessModes=["ReadWriteOncePod", "ReadOnlyMany"]),
        "spec.accessModes",
        "ReadWriteOncePod stands alone: leave out the others, or it",
    ),
    (claim(volumeMode="Disk"), "spec.volumeMode", "is 'Disk': write Filesystem or Block"),
    (sized("-1Gi"), "spec.resources.requests.storage", "is -1Gi: write a size above 0, such as 10Gi"),
    (sized(0), "spec.resources.requests.storage", "is 0: write a size above 0, such as 10Gi"),
    (claim(resources={}), "spec.resources.requests.storage", "missing: write a size, such as 10Gi"),
    (volume("-5Gi"), "spec.capacity.storage", "is -5Gi: write a size above 0, such as 10Gi"),
    (
        of_pod(sized("-1")["spec"]),
        "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests.storage",
        "is -1: write a size above 0, such as 10Gi",
    ),
    (
        of_stateful_set(claim(accessModes=["Once"])["spec"]),
        "spec.volumeClaimTemplates[0].spec.accessModes[0]",
        f"is 'Once': write one of {MODES}",
    ),
]


@pytest.mark.parametrize(("manifest", "field", "message"), WRONG, ids=[f"{row[1]} {row[2][:20]}" for row in WRONG])
def test_what_the_api_server_refuses_is_told(manifest: Json, field: str, message: str) -> None:
    assert [(each.field, each.message) for each in of_object(manifest)] == [(field, message)]


@pytest.mark.parametrize(
    "manifest",
    [claim(), claim(volumeMode="Block"), volume("1Gi"), of_pod(SPEC), of_stateful_set(SPEC)],
    ids=lambda m: m["kind"],
)
def test_what_it_takes_is_not(manifest: Json) -> None:
    assert list(of_object(manifest)) == []
