"""The audit of pods: places, neighbours and volumes. Nothing is wrong in a healthy cluster; every break is named."""

import copy
from typing import Any

import pytest

from e2e import audit
from e2e.audit.reading import Json
from tests.support.audit_changes import Change, both, drop, put

ZONE = "zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node(name: str, zone: str) -> Json:
    return {
        "metadata": {"name": name, "labels": {ZONE: zone, "host": name, "disk": "ssd"}},
        "spec": {"taints": [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "4", "pods": "10"}},
    }


def pod(name: str, where: str, **spec: Any) -> Json:
    return {
        "metadata": {"namespace": "default", "name": name, "uid": name, "labels": {"app": "web"}},
        "spec": {
            "nodeName": where,
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "web", "effect": "NoSchedule"}],
            "containers": [{"name": "main", "ports": [{"hostPort": 80, "protocol": "TCP"}]}],
            "affinity": {
                "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [_in("disk", "ssd")]}]}},
                "podAntiAffinity": {REQUIRED: [_term("host")]},
                "podAffinity": {REQUIRED: [_term(ZONE)]},
            },
            "topologySpreadConstraints": [_spread()],
            **spec,
        },
        "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]},
    }


def _in(key: str, *values: str) -> Json:
    return {"key": key, "operator": "In", "values": list(values)}


def _term(key: str) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}


def _spread() -> Json:
    selector = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    return {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


def _volume(name: str, where: str) -> Json:
    terms = [{"matchExpressions": [_in("host", where)]}]
    csi = {"driver": "csi.example.com", "volumeHandle": name}
    return {
        "metadata": {"name": name},
        "spec": {"csi": csi, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
    }


def _volume_claim(name: str) -> Json:
    return {
        "metadata": {"namespace": "default", "name": name},
        "spec": {"volumeName": name, "accessModes": ["ReadWriteOncePod"]},
        "status": {"phase": "Bound"},
    }


def cluster() -> audit.Objects:
    """Three web pods on three of four nodes, in two zones, two with a volume each; a fourth waits."""
    volumes = {name: {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]} for name in "ab"}
    return audit.Objects(
        pods=[pod("a", "n1", **volumes["a"]), pod("b", "n2", **volumes["b"]), pod("c", "n3"), pod("d", "")],
        nodes=[node("n1", "x"), node("n2", "y"), node("n3", "y"), node("n4", "y")],
        claims=[],
        slices=[],
        classes=[],
        namespaces=[{"metadata": {"name": "default", "labels": {"team": "web"}}}],
        volumes=[_volume("a", "n1"), _volume("b", "n2")],
        volume_claims=[_volume_claim("a"), _volume_claim("b")],
        volume_limits=[
            {
                "metadata": {"name": name},
                "spec": {"drivers": [{"name": "csi.example.com", "allocatable": {"count": 1}}]},
            }
            for name in ("n1", "n2")
        ],
    )


SPEC = ("pods", 0, "spec")
AFFINITY = (*SPEC, "affinity")

WRONG: tuple[tuple[str, Change, set[str]], ...] = (
    ("a node selector does not match", put(*SPEC, "nodeSelector", value={"disk": "hdd"}), {"place"}),
    (
        "node affinity does not match",
        put(
            *AFFINITY,
            "nodeAffinity",
            REQUIRED,
            value={"nodeSelectorTerms": [{"matchFields": [_in("metadata.name", "n2")]}]},
        ),
        {"place"},
    ),
    ("a taint is not tolerated", put(*SPEC, "tolerations", value=[]), {"taint"}),
    (
        "a feature is not declared",
        put(*SPEC, "containers", 0, "restartPolicyRules", value=[{"action": "RestartAllContainers"}]),
        {"features"},
    ),
    ("a toleration has another value", put(*SPEC, "tolerations", 0, "value", value="db"), {"taint"}),
    ("a toleration has another effect", put(*SPEC, "tolerations", 0, "effect", value="NoExecute"), {"taint"}),
    ("two pods are where one may be", put("pods", 1, "spec", "nodeName", value="n3"), {"apart", "port", "volume"}),
    (
        "a pod keeps off its zone",
        put("pods", 1, "spec", "affinity", "podAntiAffinity", REQUIRED, value=[_term(ZONE)]),
        {"apart"},
    ),
    (
        "a pod keeps off all pods of the team's namespaces",
        put(
            "pods",
            1,
            "spec",
            "affinity",
            "podAntiAffinity",
            REQUIRED,
            value=[{**_term(ZONE), "namespaceSelector": {"matchLabels": {"team": "web"}}}],
        ),
        {"apart"},
    ),
    (
        "the company that a pod wants is not there",
        put(
            *AFFINITY,
            "podAffinity",
            REQUIRED,
            value=[{"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "db"}}}],
        ),
        {"together"},
    ),
    ("a node has no zone", drop("nodes", 0, "metadata", "labels", ZONE), {"together", "spread"}),
    (
        "pods are spread unevenly",
        both(put("pods", 0, "spec", "nodeName", value="n4"), put("pods", 0, "spec", "volumes", value=[])),
        {"spread"},
    ),
    ("a claim is not bound", put("volume_claims", 0, "status", "phase", value="Pending"), {"volume"}),
    ("a volume is gone", drop("volumes", 0), {"volume"}),
    ("one volume has two claims", put("volume_claims", 1, "spec", "volumeName", value="a"), {"volume"}),
    (
        "two pods use what is for one",
        put("pods", 1, "spec", "volumes", 0, "persistentVolumeClaim", "claimName", value="a"),
        {"volume"},
    ),
    (
        "too many volumes are attached",
        put("volume_limits", 0, "spec", "drivers", 0, "allocatable", "count", value=0),
        {"attached"},
    ),
)


def test_nothing_is_wrong_with_a_healthy_cluster() -> None:
    assert audit.audit(cluster()) == []


@pytest.mark.parametrize(("change", "rules"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_what_is_wrong_is_found(change: Change, rules: set[str]) -> None:
    objects = copy.deepcopy(cluster())
    change(objects)
    assert {finding.rule for finding in audit.audit(objects)} == rules


def test_a_pod_that_its_author_has_bound_may_be_where_it_wants() -> None:
    objects = cluster()
    both(put(*SPEC, "nodeSelector", value={"disk": "hdd"}), put("pods", 0, "status", "conditions", value=[]))(objects)
    assert audit.audit(objects) == []


@pytest.mark.parametrize(
    ("one", "other", "clashes"),
    [
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "TCP"}, True),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, True),
        ({"hostPort": 80}, {"hostPort": 81}, False),
    ],
)
def test_ports_clash_by_number_protocol_and_address(one: Json, other: Json, *, clashes: bool) -> None:
    free: Json = {"affinity": {}, "topologySpreadConstraints": []}
    pods = [
        pod(name, "n1", **free, containers=[{"name": "main", "ports": [port]}])
        for name, port in (("a", one), ("b", other))
    ]
    objects = cluster()._replace(pods=pods)
    assert {each.rule for each in audit.audit(objects)} == ({"port"} if clashes else set())
