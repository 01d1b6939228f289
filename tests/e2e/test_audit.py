"""The audit finds nothing wrong with a healthy cluster and names what is wrong with every other."""

import copy
from fractions import Fraction

import pytest

from e2e import audit
from e2e.audit.pods import requests_of
from e2e.audit.reading import Json, amount_of
from e2e.controlplane.plane import ControlPlane
from tests.support.audit_changes import Change, both, drop, put

DRIVER = "gpu.example.com"
OF_DRIVER = f"device.driver == '{DRIVER}'"
NODE_LOCAL = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}


def cluster() -> audit.Objects:
    """Two pods on n1: one with two whole devices of one root, one with a share of the third and the fourth in part."""
    devices: list[Json] = [
        {"name": f"whole-{index}", "attributes": {"root": {"string": f"r{index // 2}"}, "model": {"string": "A"}}}
        for index in range(3)
    ]
    devices.append(
        {
            "name": "shared",
            "allowMultipleAllocations": True,
            "attributes": {"model": {"string": "B"}},
            "capacity": {"memory": {"value": "40Gi"}},
            "consumesCounters": [{"counterSet": "set", "counters": {"slots": {"value": "1"}}}],
        }
    )
    spec = {"driver": DRIVER, "pool": {"name": "n1", "generation": 2, "resourceSliceCount": 2}, "nodeName": "n1"}
    counters = [{"name": "set", "counters": {"slots": {"value": "1"}}}]
    old = {**spec, "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "old"}]}
    return audit.Objects(
        pods=[
            pod("whole", claim="whole"),
            pod("part", claim="part"),
            pod("waiting", claim="waiting", node=""),
            pod("done", claim="gone", phase="Succeeded"),
        ],
        nodes=[
            {"metadata": {"name": name, "labels": {}}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}
            for name in ("n1", "n2")
        ],
        claims=[
            claim(
                "whole",
                {
                    "deviceClassName": "gpu",
                    "count": 2,
                    "selectors": [cel("device.attributes['gpu.example.com'].model == 'A'")],
                },
                [result("whole-0"), result("whole-1")],
                constraints=[{"matchAttribute": f"{DRIVER}/root"}],
            ),
            claim(
                "part",
                {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "10Gi"}}},
                [{**result("shared"), "shareID": "1", "consumedCapacity": {"memory": "10Gi"}}],
            ),
            {"metadata": {"namespace": "default", "name": "waiting"}, "spec": {"devices": {}}, "status": {}},
        ],
        slices=[{"spec": {**spec, "devices": devices}}, {"spec": {**spec, "sharedCounters": counters}}, {"spec": old}],
        classes=[{"metadata": {"name": "gpu"}, "spec": {"selectors": [cel(OF_DRIVER)]}}],
    )


def cel(expression: str) -> Json:
    return {"cel": {"expression": expression}}


def pod(name: str, *, claim: str, node: str = "n1", phase: str = "Running") -> Json:
    containers = [{"resources": {"requests": {"cpu": "1500m"}}}]
    return {
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"},
        "spec": {
            "containers": containers,
            "nodeName": node,
            "resourceClaims": [{"name": "entry", "resourceClaimTemplateName": "template"}, {"name": "none"}],
        },
        "status": {
            "phase": phase,
            "resourceClaimStatuses": [{"name": "entry", "resourceClaimName": claim}, {"name": "none"}],
        },
    }


def result(device: str, request: str = "r") -> Json:
    return {"request": request, "driver": DRIVER, "pool": "n1", "device": device}


def claim(name: str, exactly: Json, results: list[Json], constraints: list[Json] | None = None) -> Json:
    return {
        "metadata": {
            "namespace": "default",
            "name": name,
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}], "constraints": constraints or []}},
        "status": {
            "allocation": {"devices": {"results": results}, "nodeSelector": NODE_LOCAL},
            "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}],
        },
    }


WHOLE = ("claims", 0, "status", "allocation", "devices", "results")
PART = ("claims", 1, "status", "allocation", "devices", "results", 0)
SPEC = ("claims", 0, "spec", "devices")
DEVICES = ("slices", 0, "spec", "devices")

WRONG: tuple[tuple[str, Change, set[str]], ...] = (
    ("a device does not exist", put(*WHOLE, 0, "device", value="whole-9"), {"device"}),
    ("a device is of an older generation", put(*WHOLE, 0, "device", value="old"), {"device"}),
    ("a pool is incomplete", drop("slices", 1), {"device", "counter"}),
    ("the class is gone", drop("classes", 0), {"class"}),
    ("a class selector says no", put("classes", 0, "spec", "selectors", 0, value=cel("false")), {"selector"}),
    (
        "a class selector fails",
        put("classes", 0, "spec", "selectors", 0, value=cel("device.attributes['x'].y")),
        {"selector"},
    ),
    ("a class selector does not compile", put("classes", 0, "spec", "selectors", 0, value=cel("1 +")), {"selector"}),
    ("a request selector says no", put(*DEVICES, 0, "attributes", "model", "string", value="C"), {"selector"}),
    ("a device is too small", put(*DEVICES, 3, "capacity", "memory", "value", value="9Gi"), {"selector", "capacity"}),
    (
        "a device is held twice",
        put("claims", 1, value=claim("part", {"deviceClassName": "gpu"}, [result("whole-0")])),
        {"twice"},
    ),
    ("a request has a device twice", put(*WHOLE, 1, "device", value="whole-0"), {"count", "twice"}),
    ("a held device is shared", put(*WHOLE, 0, "device", value="shared"), {"twice", "selector", "constraint", "share"}),
    ("a capacity is exceeded", put(*PART, "consumedCapacity", "memory", value="41Gi"), {"capacity"}),
    ("a share does not say what it consumes", drop(*PART, "consumedCapacity"), {"share"}),
    ("a share has no id", drop(*PART, "shareID"), {"share"}),
    ("an exclusive device is shared", put(*WHOLE, 0, "shareID", value="2"), {"share"}),
    (
        "a counter is exceeded",
        put("slices", 1, "spec", "sharedCounters", 0, "counters", "slots", "value", value="500m"),
        {"counter"},
    ),
    ("admin access is not what was asked for", put(*WHOLE, 0, "adminAccess", value=True), {"admin"}),
    ("devices do not match", put(*WHOLE, 0, "device", value="whole-2"), {"constraint"}),
    ("a device lacks the attribute", drop(*DEVICES, 0, "attributes", "root"), {"constraint"}),
    (
        "devices are not distinct",
        put(*SPEC, "constraints", 0, value={"distinctAttribute": f"{DRIVER}/root"}),
        {"constraint"},
    ),
    ("there are too few devices", drop(*WHOLE, 1), {"count"}),
    ("a request has no devices", put(*WHOLE, value=[]), {"request"}),
    ("a result is of another request", put(*WHOLE, 0, "request", value="x"), {"request", "count"}),
    (
        "alternatives are mixed",
        both(
            put(
                *SPEC,
                "requests",
                0,
                value={"name": "r", "firstAvailable": [{"name": name, "deviceClassName": "gpu"} for name in "ab"]},
            ),
            put(*WHOLE, 0, "request", value="r/a"),
            put(*WHOLE, 1, "request", value="r/b"),
        ),
        {"request"},
    ),
    ("not all devices are there", put(*SPEC, "requests", 0, "exactly", "allocationMode", value="All"), {"all"}),
    ("a claim is reserved for no pod", put("claims", 0, "status", "reservedFor", value=[]), {"reserved"}),
    (
        "a claim is reserved for a namesake",
        put("claims", 0, "status", "reservedFor", 0, "uid", value="x"),
        {"reserved"},
    ),
    ("a claim lacks its finalizer", drop("claims", 0, "metadata", "finalizers"), {"finalizer"}),
    ("a bound pod's claim is not allocated", drop("claims", 0, "status", "allocation"), {"allocated"}),
    ("a bound pod's claim does not exist", drop("claims", 0), {"allocated"}),
    ("a bound pod's claim was never made", drop("pods", 0, "status", "resourceClaimStatuses", 0), {"allocated"}),
    ("a pod runs where its claim cannot be used", put("pods", 0, "spec", "nodeName", value="n2"), {"node"}),
    (
        "a pod runs where its device is not, and the claim does not say so",
        both(drop("claims", 0, "status", "allocation", "nodeSelector"), put("pods", 0, "spec", "nodeName", value="n2")),
        {"node"},
    ),
    ("a pod runs on no node that exists", put("pods", 0, "spec", "nodeName", value="n9"), {"node", "resources"}),
    ("a node has too little cpu", put("nodes", 0, "status", "allocatable", "cpu", value="2900m"), {"resources"}),
    ("a node runs too many pods", put("nodes", 0, "status", "allocatable", "pods", value="1"), {"resources"}),
)


def test_nothing_is_wrong_with_a_healthy_cluster() -> None:
    assert audit.audit(cluster()) == []


@pytest.mark.parametrize(("change", "rules"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_what_is_wrong_is_found(change: Change, rules: set[str]) -> None:
    objects = copy.deepcopy(cluster())
    change(objects)
    assert {finding.rule for finding in audit.audit(objects)} == rules


def test_admin_access_is_no_usage() -> None:
    objects = cluster()
    watcher = claim(
        "part", {"deviceClassName": "gpu", "adminAccess": True}, [{**result("whole-0"), "adminAccess": True}]
    )
    put("claims", 1, value=watcher)(objects)
    assert audit.audit(objects) == []


def test_a_group_reserves_for_its_pods() -> None:
    objects = cluster()
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g"}
    put("claims", 0, "status", "reservedFor", value=[group])(objects)
    put("pods", 0, "spec", "schedulingGroup", value={"podGroupName": "g"})(objects)
    made = {"metadata": {"namespace": objects.pods[0]["metadata"]["namespace"], "name": "g", "uid": "g"}}
    assert audit.audit(objects._replace(groups=[made])) == []
    again = {"metadata": {**made["metadata"], "uid": "g-again"}}
    assert {finding.rule for finding in audit.audit(objects._replace(groups=[again]))} == {"reserved"}


def test_resources_served_as_devices_are_not_the_nodes() -> None:
    objects = cluster()
    put("pods", 0, "spec", "containers", 0, "resources", "requests", "example.com/gpu", value="1")(objects)
    assert {finding.rule for finding in audit.audit(objects)} == {"resources"}
    mapping = {"requestMappings": [{"resourceName": "example.com/gpu"}], "resourceClaimName": "whole"}
    put("pods", 0, "status", "extendedResourceClaimStatus", value=mapping)(objects)
    assert audit.audit(objects) == []


def test_init_containers_count_where_they_need_more() -> None:
    containers = {
        "containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "1"}}}],
        "initContainers": [
            {"resources": {"requests": {"cpu": "1"}}, "restartPolicy": "Always"},
            {"resources": {"requests": {"cpu": "4", "memory": "1Gi"}}},
        ],
        "overhead": {"cpu": "250m"},
    }
    assert requests_of({"spec": containers}) == {"cpu": Fraction("5.25"), "memory": Fraction(2**30)}


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1", 1),
        ("1500m", Fraction(3, 2)),
        ("2Ki", 2048),
        ("1.5G", 1500000000),
        ("1e3", 1000),
        ("2E", 2 * 10**18),
        (3, 3),
    ],
)
def test_quantities_are_read_exactly(text: str, amount: Fraction) -> None:
    assert amount_of(text) == amount


def test_the_summary_names_what_is_wrong() -> None:
    objects = cluster()
    put(*WHOLE, 0, "device", value="whole-2")(objects)
    text = audit.summary(objects, audit.audit(objects))
    assert text.splitlines()[0] == (
        "2 of 4 pods are bound, 2 of 3 claims are allocated, 3 devices are in use on 2 nodes"
    )
    assert "its devices have no value of gpu.example.com/root in common" in text
    assert text.endswith("wrong: 1 × constraint")


@pytest.mark.controlplane
def test_kubectl_and_the_api_show_the_audit_the_same(control_plane: ControlPlane, namespace: str) -> None:
    manifest = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
    }
    control_plane.request("POST", f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims", manifest)

    def own(objects: audit.Objects) -> list[Json]:
        return [each["spec"] for each in objects.claims if each["metadata"]["namespace"] == namespace]

    listed = own(audit.read(control_plane.request))
    assert len(listed) == 1
    assert own(audit.read_with_kubectl(str(control_plane.kubectl_binary), control_plane.kubeconfig)) == listed
