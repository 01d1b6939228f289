"""The fences of `deploy/admission` on the real API server: what each refuses, with which words, and what it lets by."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane import versions
from e2e.controlplane.access import Access, RequestError
from e2e.controlplane.plane import ControlPlane, KubectlError
from scheduler.settings import load
from solver.domain import Node
from solver.problem.devices import device_properties
from tests.support.controlplane import wait_until
from tests.support.marks import WITH_POD_GROUPS
from tests.support.people import bind

DEPLOY = Path(__file__).parents[2] / "deploy"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RESOURCES = "/apis/resource.k8s.io/v1/namespaces"
POLICIES = (
    "dovetail-features",
    "dovetail-limits-claims",
    "dovetail-limits-pods",
    "dovetail-allocations",
    "dovetail-holds",
)
HOLDS = "/apis/dovetail.dev/v1alpha1/deviceholds"
OTHER = "other-scheduler"
NODES = ("dovetail-0", "others-0")
"""By name and by label (the configuration's) the first is Dovetail's."""
COLLECTIONS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "ResourceClaim": f"{RESOURCES}/{{}}/resourceclaims",
    "ResourceClaimTemplate": f"{RESOURCES}/{{}}/resourceclaimtemplates",
    "PodGroup": f"/apis/{versions.pod_groups()}/namespaces/{{}}/podgroups",
    "DeviceHold": HOLDS,
}

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]


@pytest.fixture(scope="module")
def fenced(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The overlay with every fence, applied as a user does it and in force; gone again afterwards."""
    claim = _claimed(control_plane, "default")
    try:
        control_plane.kubectl("apply", "--server-side", "-k", str(DEPLOY / "overlays" / "fenced"))
        wait_until(lambda: all(_probed(control_plane, claim)))
        yield control_plane
    finally:
        # The other tests of the run are not about fences.
        for kind in ("validatingadmissionpolicies", "validatingadmissionpolicybindings"):
            control_plane.kubectl("delete", kind, "-l", "app.kubernetes.io/part-of=dovetail")
        control_plane.kubectl("-n", "dovetail-system", "delete", "deployment", "dovetail", "--ignore-not-found")
        pods = COLLECTIONS["Pod"].format("dovetail-system")
        wait_until(lambda: not control_plane.request("GET", pods)["items"])
        wait_until(lambda: not any(_probed(control_plane, claim)))
        control_plane.request("DELETE", claim.removesuffix("/status"))


def _probed(plane: ControlPlane, claim: str) -> list[bool]:
    """Whether each policy refuses what it is about: it does not before it is in force, and after its end."""
    bodies = (
        _pod(annotations={"dovetail.dev/preemptible": "false"}),
        _claim(count=100_000),
        _pod(resourceClaims=[{"name": f"c{number}", "resourceClaimName": "c"} for number in range(9)]),
        _hold(),
    )
    allocation = {"allocation": _allocation("gpu.nvidia.com")}
    return [*(bool(_refusal(plane, each)) for each in bodies), bool(_write(plane, f"{claim}?dryRun=All", allocation))]


def _pod(labels: Json | None = None, annotations: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": labels or {}, "annotations": annotations or {}},
        "spec": {"schedulerName": "dovetail", "containers": [{"name": "main", "image": "i"}], **spec},
    }


def _devices(**request: Any) -> Json:
    return {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", **request}}]}


def _claim(devices: Json | None = None, annotations: Json | None = None, **request: Any) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "annotations": annotations or {}},
        "spec": {"devices": devices or _devices(**request)},
    }


def _template(devices: Json) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t"},
        "spec": {"spec": {"devices": devices}},
    }


def _hold() -> Json:
    return {
        "apiVersion": "dovetail.dev/v1alpha1",
        "kind": "DeviceHold",
        "metadata": {"name": "h"},
        "spec": {
            "owner": {"apiVersion": "batch/v1", "kind": "Job", "namespace": "default", "name": "j", "uid": "u"},
            "deadline": "2099-01-01T00:00:00Z",
            "groups": [{"pods": {"namespace": "default", "podUID": "u"}, "places": [{"node": "n"}]}],
        },
    }


def _refusal(way: ControlPlane | Access, body: Json, namespace: str = "default") -> str:
    """Give the words with which an object would be refused; empty where it would be taken."""
    try:
        way.request("POST", f"{COLLECTIONS[body['kind']].format(namespace)}?dryRun=All", body)
    except RequestError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def dovetail(fenced: ControlPlane) -> Access:
    """The account of the scheduler."""
    return fenced.access_for_service_account("dovetail-system", "dovetail")


@pytest.fixture(scope="module")
def other(fenced: ControlPlane) -> Iterator[Access]:
    """Another scheduler's account, with kube-scheduler's rights; gone again, as a process may come back to it."""
    accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
    fenced.request("POST", accounts, {"metadata": {"name": OTHER}})
    binding = bind(fenced, "system:kube-scheduler", "kube-system", OTHER, name=OTHER)
    yield fenced.access_for_service_account("kube-system", OTHER)
    fenced.request("DELETE", binding)
    fenced.request("DELETE", f"{accounts}/{OTHER}")


def test_policies_have_no_mistake_that_the_server_finds(fenced: ControlPlane) -> None:
    def checked(name: str) -> bool:
        policy = fenced.request("GET", f"{ADMISSION}/validatingadmissionpolicies/{name}")
        return bool(policy.get("status", {}).get("observedGeneration") == policy["metadata"]["generation"])

    for name in POLICIES:
        wait_until(lambda name=name: checked(name))  # type: ignore[misc]  # the default binds the loop's value
        status = fenced.request("GET", f"{ADMISSION}/validatingadmissionpolicies/{name}")["status"]
        assert status.get("typeChecking", {}).get("expressionWarnings", []) == [], name


# Features


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(
            _pod(annotations={"dovetail.dev/preemptible": "false"}),
            "needs the feature protection, which namespace default does not have: remove it, or ask for the label "
            "allow.dovetail.dev/protection=true on the namespace",
            id="protection",
        ),
        pytest.param(
            _pod(annotations={"dovetail.dev/reserve-node": "n0"}),
            "dovetail.dev/reserve-node is no key for users",
            id="a key that Dovetail does not read any more",
        ),
        pytest.param(
            _pod(labels={"dovetail.dev/gangs": "g"}), "dovetail.dev/gangs is no key for users", id="an unknown key"
        ),
        pytest.param(
            _pod(labels={"dovetail.dev/gang": "g"}, annotations={"dovetail.dev/gang-minimum": "9" * 4301}),
            "dovetail.dev/gang-minimum has 4301 characters: write at most 253",
            id="a value that is too long",
        ),
        pytest.param(
            _claim(annotations={"dovetail.dev/adopted": "2026-01-01T00:00:00Z"}),
            "dovetail.dev/adopted is no key for users",
            id="what Dovetail writes itself",
        ),
        pytest.param(
            {
                "apiVersion": versions.pod_groups(),
                "kind": "PodGroup",
                "metadata": {"name": "g", "annotations": {"dovetail.dev/preemptible": "false"}},
                "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
            },
            "needs the feature protection",
            marks=WITH_POD_GROUPS,
            id="a PodGroup",
        ),
    ],
)
def test_keys_of_dovetail_are_refused_where_the_namespace_has_not_their_feature(
    fenced: ControlPlane, body: Json, words: str
) -> None:
    assert words in _refusal(fenced, body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(_pod(), id="no key at all"),
        pytest.param(_pod(labels={"team": "a", "example.com/x": "y"}), id="keys of others"),
        pytest.param(
            _pod(
                labels={"dovetail.dev/gang": "g"},
                annotations={"dovetail.dev/gang-minimum": "2", "dovetail.dev/gang-topology": "label:rack"},
            ),
            id="features that every namespace has",
        ),
        pytest.param(_claim(), id="a plain claim"),
    ],
)
def test_other_keys_and_common_features_pass(fenced: ControlPlane, body: Json) -> None:
    assert _refusal(fenced, body) == ""


def test_a_label_of_the_namespace_gives_a_feature_and_what_is_there_stays(fenced: ControlPlane, namespace: str) -> None:
    shielded = _pod(annotations={"dovetail.dev/preemptible": "false"})
    assert "needs the feature protection" in _refusal(fenced, shielded, namespace)
    fenced.kubectl("label", "namespace", namespace, "allow.dovetail.dev/protection=true")
    wait_until(lambda: _refusal(fenced, shielded, namespace) == "")
    fenced.kubectl("-n", namespace, "create", "-f", "-", input=json.dumps(shielded))
    fenced.kubectl("label", "namespace", namespace, "allow.dovetail.dev/protection-")
    wait_until(lambda: "needs the feature protection" in _refusal(fenced, shielded, namespace))
    fenced.kubectl("-n", namespace, "label", "pod", "p", "team=a")
    with pytest.raises(KubectlError, match="needs the feature protection"):
        fenced.kubectl("-n", namespace, "annotate", "--overwrite", "pod", "p", "dovetail.dev/preemptible=no")
    fenced.kubectl("-n", namespace, "annotate", "pod", "p", "dovetail.dev/preemptible-")


def test_a_binding_gives_a_pod_no_key_either(fenced: ControlPlane, namespace: str) -> None:
    """The API server copies the annotations of a Binding to the pod."""
    fenced.kubectl("-n", namespace, "create", "-f", "-", input=json.dumps(_pod()))
    path = f"/api/v1/namespaces/{namespace}/pods/p/binding"
    binding = {"target": {"kind": "Node", "name": "n"}, "metadata": {"name": "p"}}
    shield = {**binding, "metadata": {"name": "p", "annotations": {"dovetail.dev/preemptible": "false"}}}
    with pytest.raises(RequestError, match="needs the feature protection"):
        fenced.request("POST", path, shield)
    fenced.request("POST", path, binding)


def test_dovetail_itself_writes_its_keys(dovetail: Access) -> None:
    assert _refusal(dovetail, _claim(annotations={"dovetail.dev/adopted": "2026-01-01T00:00:00Z"})) == ""


# Limits


def _alternatives(count: int) -> list[Json]:
    return [{"name": f"a{number}", "deviceClassName": "gpu"} for number in range(count)]


def _selectors(*expressions: str) -> list[Json]:
    return [{"cel": {"expression": each}} for each in expressions]


def _requests(count: int, **request: Any) -> Json:
    one = request or {"exactly": {"deviceClassName": "gpu"}}
    return {"requests": [{"name": f"r{number}", **one} for number in range(count)]}


MATCHES = 'device.driver.matches("a.c")'

TOO_MUCH = [
    pytest.param(_requests(17), "spec.devices.requests: are 17: write at most 16", id="requests"),
    pytest.param(
        _requests(5, firstAvailable=_alternatives(7)), "are 35 alternatives in all: write at most 32", id="alternatives"
    ),
    pytest.param(
        {**_requests(1), "constraints": [{"matchAttribute": "example.com/a"}] * 9},
        "spec.devices.constraints: are 9: write at most 8",
        id="constraints",
    ),
    pytest.param(_devices(count=129), "gpu asks for too many devices: write a count of at most 128", id="count"),
    pytest.param(
        _devices(selectors=_selectors(*["true"] * 9)), "gpu has too many selectors: write at most 8", id="selectors"
    ),
    pytest.param(
        _devices(selectors=_selectors(f'device.driver == "{"a" * 1100}"')),
        "gpu has a selector that is too long: write at most 1024 characters",
        id="a long selector",
    ),
    pytest.param(
        _devices(selectors=_selectors(" && ".join([MATCHES] * 5))),
        "gpu has a selector with more than 4 regular expressions",
        id="regular expressions",
    ),
    pytest.param(
        _devices(selectors=_selectors(f"device.driver.matches('{'(.*)' * 50}')")),
        "gpu has a selector with a pattern longer than 128 characters",
        id="a long pattern",
    ),
    pytest.param(
        _requests(1, firstAvailable=[{**_alternatives(1)[0], "selectors": _selectors(*["true"] * 9)}]),
        "r0 has too many selectors",
        id="in an alternative",
    ),
]


@pytest.mark.parametrize(("devices", "words"), TOO_MUCH)
def test_claims_and_templates_that_ask_for_too_much_are_refused(
    fenced: ControlPlane, devices: Json, words: str
) -> None:
    assert words in _refusal(fenced, _claim(devices))
    assert words in _refusal(fenced, _template(devices))


def test_claims_that_dovetail_makes_for_extended_resources_have_no_limits(dovetail: Access) -> None:
    assert _refusal(dovetail, _claim(_requests(32))) == ""


@pytest.mark.parametrize(
    "devices",
    [
        pytest.param(_requests(16), id="requests"),
        pytest.param(_requests(4, firstAvailable=_alternatives(8)), id="alternatives"),
        pytest.param({**_requests(1), "constraints": [{"matchAttribute": "example.com/a"}] * 8}, id="constraints"),
        pytest.param(_devices(count=128), id="count"),
        pytest.param(_devices(allocationMode="All"), id="all devices"),
        pytest.param(_devices(selectors=_selectors(*[" && ".join([MATCHES] * 4)] * 8)), id="selectors"),
        pytest.param(_devices(selectors=_selectors(f'device.driver.matches("{"a" * 124}")')), id="a pattern"),
    ],
)
def test_claims_and_templates_at_the_limits_pass(fenced: ControlPlane, devices: Json) -> None:
    assert _refusal(fenced, _claim(devices)) == ""
    assert _refusal(fenced, _template(devices)) == ""


_TOLERATION = {"operator": "Exists", "key": "k"}
_SPREAD = {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
_NODE_TERM = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}


def _spread(count: int) -> list[Json]:
    return [{**_SPREAD, "maxSkew": 1, "topologyKey": f"zone-{number}"} for number in range(count)]


def _affinity(required: int, preferred: int) -> Json:
    pod_term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_NODE_TERM] * required}
        },
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": pod_term}] * preferred
        },
    }


@pytest.mark.parametrize(
    ("field", "at_most", "too_many", "words"),
    [
        pytest.param(
            "resourceClaims",
            [{"name": f"c{number}", "resourceClaimName": "c"} for number in range(8)],
            [{"name": f"c{number}", "resourceClaimName": "c"} for number in range(9)],
            "spec.resourceClaims: are 9: write at most 8",
            id="claims",
        ),
        pytest.param(
            "tolerations",
            [{"operator": "Exists", "key": f"k{number}"} for number in range(30)],  # admission adds two
            [{"operator": "Exists", "key": f"k{number}"} for number in range(33)],
            "write at most 32",
            id="tolerations",
        ),
        pytest.param(
            "topologySpreadConstraints",
            _spread(8),
            _spread(9),
            "spec.topologySpreadConstraints: are 9: write at most 8",
            id="spread",
        ),
        pytest.param(
            "affinity",
            _affinity(16, 16),
            _affinity(16, 17),
            "spec.affinity: has 33 terms: write at most 32",
            id="terms",
        ),
    ],
)
def test_pods_of_dovetail_have_limits_and_others_none(
    fenced: ControlPlane, field: str, at_most: Any, too_many: Any, words: str
) -> None:
    assert _refusal(fenced, _pod(**{field: at_most})) == ""
    assert words in _refusal(fenced, _pod(**{field: too_many}))
    assert _refusal(fenced, _pod(**{field: too_many, "schedulerName": "default-scheduler"})) == ""


# Allocations


def _allocation(driver: str, node: str = "") -> Json:
    result = {"request": "gpu", "driver": driver, "pool": "pool", "device": "gpu-0"}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}} if node else {}
    return {"devices": {"results": [result]}, **selector}


def _claimed(plane: ControlPlane, namespace: str) -> str:
    """Make a claim; give the path of its status."""
    body = {**_claim(), "metadata": {"generateName": "c-"}}
    made = plane.request("POST", COLLECTIONS["ResourceClaim"].format(namespace), body)
    return f"{RESOURCES}/{namespace}/resourceclaims/{made['metadata']['name']}/status"


def _write(way: ControlPlane | Access, path: str, status: Json) -> str:
    """Write to a claim's status; give the words of the refusal, empty where it was done."""
    try:
        way.request("PATCH", path, {"status": status}, content="application/merge-patch+json")
    except RequestError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("driver", ["gpu.nvidia.com", "nic.example.com"])
@pytest.mark.parametrize("home", [0, 1, -1], ids=["our node", "another node", "no single node"])
def test_a_device_is_allocated_by_the_one_that_the_configuration_says(
    fenced: ControlPlane, dovetail: Access, other: Access, namespace: str, *, driver: str, home: int
) -> None:
    settings = load(DEPLOY / "overlays" / "example" / "config.yaml")
    labels = tuple(settings.devices.owned.node_selector.match_labels.items())
    nodes = (Node(name=NODES[0], labels=labels), Node(name=NODES[1]))
    is_owned = device_properties.resolve(settings.owned_devices(), nodes).includes(driver, home)
    path = _claimed(fenced, namespace)
    node = NODES[home] if home >= 0 else ""
    device = f"device {driver}/pool/gpu-0{f' on node {node}' if node else ''}"
    if is_owned:
        words = f"{device} is for Dovetail to allocate, and system:serviceaccount:kube-system:{OTHER} is not Dovetail"
    else:
        words = f"{device} is not for Dovetail to allocate: write the same in its devices.owned"
    right, wrong = (dovetail, other) if is_owned else (other, dovetail)
    assert words in _write(wrong, path, {"allocation": _allocation(driver, node)})
    assert _write(right, path, {"allocation": _allocation(driver, node)}) == ""


def test_what_is_allocated_may_be_reserved_and_taken_back_by_any_client_that_may_write_it(
    fenced: ControlPlane, dovetail: Access, other: Access, namespace: str
) -> None:
    path = _claimed(fenced, namespace)
    assert _write(dovetail, path, {"allocation": _allocation("gpu.nvidia.com", NODES[0])}) == ""
    assert _write(other, path, {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}) == ""
    assert _write(other, path, {"allocation": None, "reservedFor": None}) == ""


def test_dovetail_alone_makes_and_deletes_holds(fenced: ControlPlane, dovetail: Access) -> None:
    refusal = _refusal(fenced, _hold())
    assert "DeviceHolds are written by Dovetail alone" in refusal
    assert "ConfigMap dovetail-holds: let the owner of the hold end, or add the account there" in refusal

    dovetail.request("POST", HOLDS, _hold())
    for method, path, body in (
        ("PATCH", f"{HOLDS}/h/status", {"status": {"used": [0]}}),
        ("PATCH", f"{HOLDS}/h", {"metadata": {"labels": {"a": "b"}}}),
        ("DELETE", f"{HOLDS}/h", None),
    ):
        with pytest.raises(RequestError, match="DeviceHolds are written by Dovetail alone"):
            fenced.request(method, path, body, content="application/merge-patch+json") if body else fenced.request(
                method, path
            )
    dovetail.request("DELETE", f"{HOLDS}/h")
