"""What an object among many costs to be read and admitted: as much as one among few."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.live_cluster import ClusterObjects
from scheduler.simulation.manifests import documents
from tests.support import manifests as m
from tests.support.work import counted

FEW, MANY = 15, 60
GROWTH = 1.2

Scene = Callable[[int], list[m.Manifest]]
"""Makes the objects of a number."""


def an(api_version: str, kind: str, name: str, **fields: Any) -> m.Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def made_by(api_version: str, kind: str, **spec: Any) -> Scene:
    pod: m.Manifest = {"schedulerName": "dovetail", "containers": [{"name": "a", "image": "b"}]}
    is_job = kind == "Job"

    def made(number: int) -> list[m.Manifest]:
        labels = {"app": f"a{number}"}
        selector = {} if is_job else {"selector": {"matchLabels": labels}}
        template = {"metadata": {"labels": labels}, "spec": pod | ({"restartPolicy": "Never"} if is_job else {})}
        return [an(api_version, kind, f"a{number}", spec={**selector, **spec, "template": template})]

    return made


def claims_that_are_provisioned_at_once(number: int) -> list[m.Manifest]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": f"v{number}"}
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    return [
        an("v1", "PersistentVolumeClaim", f"c{number}", spec=spec),
        an("v1", "PersistentVolume", f"v{number}", spec={**volume, "claimRef": {"name": f"c{number}"}}),
    ]


def pods_with_classes_of_their_own(number: int) -> list[m.Manifest]:
    priority = an("scheduling.k8s.io/v1", "PriorityClass", f"c{number}", value=number)
    return [m.pod(f"p{number}", priorityClassName=f"c{number}"), priority]


def pods_without_a_class_beside_classes(number: int) -> list[m.Manifest]:
    return [m.pod(f"p{number}"), an("scheduling.k8s.io/v1", "PriorityClass", f"c{number}", value=number)]


def pods_in_namespaces_with_limits(number: int) -> list[m.Manifest]:
    place = {"namespace": f"n{number}"}
    limits = an("v1", "LimitRange", "a", spec={"limits": [{"type": "Container", "max": {"cpu": "4"}}]})
    pod, limits["metadata"] = m.pod(f"p{number}"), {"name": "a", **place}
    pod["metadata"] |= place
    return [pod, limits]


def pods_with_templates(number: int) -> list[m.Manifest]:
    return [m.pod(f"p{number}", template_name=f"t{number}"), m.template(f"t{number}")]


def pods_with_claims(number: int) -> list[m.Manifest]:
    return [m.pod(f"p{number}", claim_name=f"c{number}"), m.claim(f"c{number}")]


def pods_that_are_refused(number: int) -> list[m.Manifest]:
    return [m.pod(f"P{number}", unknown=1, nodeSelector={"": "a"})]


def pods_of_one_name(number: int) -> list[m.Manifest]:
    return [m.pod("p", nodeSelector={"a": f"v{number}"})]


def objects_of_unknown_kinds(number: int) -> list[m.Manifest]:
    return [an("example.com/v1", f"Kind{number}", "a", spec={})]


def nodes_with_devices(number: int) -> list[m.Manifest]:
    return [m.node(f"n{number}"), m.slice_of(f"n{number}")]


SCENES: dict[str, Scene] = {
    "Job": made_by("batch/v1", "Job", parallelism=1),
    "Deployment": made_by("apps/v1", "Deployment", replicas=1),
    "StatefulSet": made_by("apps/v1", "StatefulSet", replicas=1, serviceName="s"),
    **{
        scene.__name__: scene
        for scene in (
            claims_that_are_provisioned_at_once,
            nodes_with_devices,
            objects_of_unknown_kinds,
            pods_in_namespaces_with_limits,
            pods_of_one_name,
            pods_that_are_refused,
            pods_with_claims,
            pods_with_classes_of_their_own,
            pods_with_templates,
            pods_without_a_class_beside_classes,
        )
    },
}


def work_for_each(scene: Scene, count: int) -> tuple[float, float]:
    text = "\n".join(json.dumps(each) for number in range(count) for each in scene(number)).encode()
    with counted(scans=True) as work:
        CaseBuilder.of(ClusterObjects(), documents.parsed(text, "text")).case("dovetail")
    return work.lines / count, work.scanned / len(text)


@pytest.mark.parametrize("name", SCENES)
def test_one_more_object_costs_no_more_than_the_one_before(name: str) -> None:
    work_for_each(SCENES[name], 1)  # what is imported and cached at the first time does not count
    few, many = (work_for_each(SCENES[name], count) for count in (FEW, MANY))
    assert many[0] <= GROWTH * few[0]
    assert many[1] <= GROWTH * few[1]
