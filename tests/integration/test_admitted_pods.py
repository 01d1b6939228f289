"""Pods, claims and volume claims as `simulate` admits them and as the real API server's admission plugins do."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from e2e.controlplane.access import RequestError
from scheduler.change import Kind
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.manifests.documents import Document
from solver.domain import PodId
from tests.support import manifests as m
from tests.support.controlplane import wait_until
from tests.support.priority_classes import make_priority_class
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]
COMPARED: Final = ("nodeSelector", "tolerations", "overhead", "priority", "preemptionPolicy")


def named(kind: str, world: World, **more: Any) -> Json:
    """An object of the cluster that only this test knows."""
    version = {"RuntimeClass": "node.k8s.io/v1", "PriorityClass": "scheduling.k8s.io/v1"}[kind]
    return {"apiVersion": version, "kind": kind, "metadata": {"name": world.word}, **more}


def limit_range(world: World, *limits: Json, name: str = "limits") -> Json:
    metadata = {"name": name, "namespace": world.namespace}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": list(limits)}}


def quota(world: World, hard: Json, **spec: Any) -> Json:
    metadata = {"name": "quota", "namespace": world.namespace}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard, **spec}}


def pod(world: World, name: str = "p", requests: Json | None = None, limits: Json | None = None, **spec: Any) -> Json:
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    container = {"name": "main", "image": "example.com/none", "resources": resources}
    metadata = {"name": name, "namespace": world.namespace}
    own = {"schedulerName": world.scheduler, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": own}


@pytest.fixture
def made(world: World) -> Iterator[World]:
    """End the objects without a namespace after the test."""
    yield world
    world.plane.request("DELETE", f"/api/v1/namespaces/{world.namespace}")
    for path in ("node.k8s.io/v1/runtimeclasses", "scheduling.k8s.io/v1/priorityclasses"):
        world.end(f"/apis/{path}/{world.word}")


def apply(world: World, *bodies: Json) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": list(bodies)}
    world.plane.kubectl("apply", "-f", "-", input=json.dumps(listed))


def served(world: World, body: Json) -> Json | None:
    """Create a pod or volume claim; give it as the API server has it, None if it refuses."""
    resource = {"Pod": "pods", "PersistentVolumeClaim": "persistentvolumeclaims"}[body["kind"]]
    try:
        found: Json = world.plane.request("POST", f"/api/v1/namespaces/{world.namespace}/{resource}", body)
    except RequestError as error:
        if error.status not in {403, 422}:
            raise
        return None
    return found


def decided(*bodies: Json) -> tuple[dict[str, Json], CaseBuilder]:
    """Admit by ourselves: what is left, by name."""
    builder = CaseBuilder()
    builder.add([Document("m", json.loads(json.dumps(each))) for each in bodies])
    assert builder.changes is not None
    kinds = {Kind.PODS, Kind.VOLUME_CLAIMS}
    left = {
        document.body["metadata"]["name"]: document.body
        for (kind, _), document in builder.objects.items()
        if kind in kinds
    }
    refused = {each.name for each in builder.not_made}
    return {name: body for name, body in left.items() if name not in refused}, builder


def shape(body: Json) -> Json:
    spec = body["spec"]
    tolerations = sorted(map(json.dumps, ({**each} for each in spec.get("tolerations", []))))
    return {
        **{key: spec[key] for key in COMPARED if spec.get(key)},
        "tolerations": tolerations,
        "resources": [
            {which: each.get("resources", {}).get(which, {}) for which in ("requests", "limits")}
            for each in (*spec.get("containers", []), *spec.get("initContainers", []))
        ],
    }


def plain(value: Any) -> Any:
    """Without the keys whose order and absence mean nothing."""
    return json.loads(json.dumps(value, sort_keys=True))


CONTAINER = {"type": "Container"}
LIMITS = [
    pytest.param([{**CONTAINER, "default": {"cpu": "500m", "memory": "1Gi"}}], {}, {}, id="default"),
    pytest.param([{**CONTAINER, "defaultRequest": {"cpu": "250m"}}], {"memory": "1Gi"}, {}, id="default request"),
    pytest.param([{**CONTAINER, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "250m"}}], {}, {}, id="both"),
    pytest.param([{**CONTAINER, "max": {"cpu": "2"}}], {}, {}, id="max gives a default"),
    pytest.param([{**CONTAINER, "min": {"cpu": "100m"}}], {}, {}, id="min gives a request"),
    pytest.param([{**CONTAINER, "max": {"cpu": "2"}}], {"cpu": "3"}, {"cpu": "3"}, id="above max"),
    pytest.param([{**CONTAINER, "max": {"cpu": "2"}}], {"cpu": "1"}, {}, id="request below the default"),
    pytest.param([{**CONTAINER, "min": {"cpu": "1"}}], {"cpu": "500m"}, {}, id="below min"),
    pytest.param([{**CONTAINER, "min": {"cpu": "1"}, "max": {"cpu": "2"}}], {}, {"cpu": "1500m"}, id="between"),
    pytest.param([{**CONTAINER, "maxLimitRequestRatio": {"cpu": "2"}}], {"cpu": "1"}, {"cpu": "2"}, id="ratio kept"),
    pytest.param([{**CONTAINER, "maxLimitRequestRatio": {"cpu": "2"}}], {"cpu": "1"}, {"cpu": "3"}, id="ratio broken"),
    pytest.param([{**CONTAINER, "maxLimitRequestRatio": {"cpu": "2"}}], {"cpu": "1"}, {}, id="ratio without a limit"),
    pytest.param([{"type": "Pod", "max": {"memory": "1Gi"}}], {}, {"memory": "2Gi"}, id="pod above max"),
    pytest.param([{"type": "Pod", "max": {"memory": "1Gi"}}], {}, {}, id="pod without a limit"),
    pytest.param([{"type": "Pod", "min": {"memory": "1Gi"}}], {"memory": "1Gi"}, {}, id="pod at its min"),
]


@pytest.mark.parametrize(("limits", "requests", "own"), LIMITS)
def test_limit_ranges(made: World, limits: list[Json], requests: Json, own: Json) -> None:
    apply(made, limit_range(made, *limits))
    wanted = pod(made, requests=requests, limits=own)
    agrees(made, wanted, limit_range(made, *limits))


def test_a_limit_range_bounds_volume_claims(made: World) -> None:
    bounds = limit_range(made, {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}})
    apply(made, bounds)
    for name, size in (("small", "512Mi"), ("right", "2Gi"), ("large", "3Gi")):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        metadata = {"name": name, "namespace": made.namespace}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        left, _ = decided(bounds, claim)
        assert (served(made, claim) is not None) == (name in left), name


KATA = {
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}},
    "scheduling": {
        "nodeSelector": {"runtime": "kata"},
        "tolerations": [{"key": "kata", "operator": "Exists", "effect": "NoSchedule"}],
    },
}


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"nodeSelector": {"disk": "ssd"}},
        {"nodeSelector": {"runtime": "kata"}},
        {"nodeSelector": {"runtime": "other"}},
        {"overhead": {"cpu": "250m", "memory": "64Mi"}},
        {"overhead": {"cpu": "300m"}},
        {"tolerations": [{"key": "kata", "operator": "Exists", "effect": "NoSchedule"}]},
        {"tolerations": [{"operator": "Exists"}]},
        {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]},
    ],
    ids=str,
)
def test_runtime_classes(made: World, own: Json) -> None:
    runtime_class = named("RuntimeClass", made, **KATA)
    apply(made, runtime_class)
    agrees(made, pod(made, runtimeClassName=made.word, **own), runtime_class)


def test_an_overhead_without_a_class_is_refused(made: World) -> None:
    agrees(made, pod(made, overhead={"cpu": "1"}))


@pytest.mark.parametrize(
    "own",
    [{}, {"priority": 7}, {"priority": 8}, {"preemptionPolicy": "Never"}, {"preemptionPolicy": "PreemptLowerPriority"}],
    ids=str,
)
def test_priority_classes(made: World, own: Json) -> None:
    make_priority_class(made.plane, made.word, 7, preemptionPolicy="Never")
    priority_class = named("PriorityClass", made, value=7, preemptionPolicy="Never")
    agrees(made, pod(made, priorityClassName=made.word, **own), priority_class)


def agrees(world: World, wanted: Json, *objects: Json) -> None:
    """Compare a pod that is decided with the one that the API server has made."""
    left, builder = decided(*objects, wanted)
    found: list[Json | None] = []

    def is_read() -> bool:
        """Wait until the plugins have read the objects: they refuse, or give the same, until then."""
        body = served(world, wanted)
        found.append(body)
        if body is not None:
            world.plane.request("DELETE", f"/api/v1/namespaces/{world.namespace}/pods/p?gracePeriodSeconds=0")
        ours = left.get("p")
        return body is None if ours is None else body is not None and plain(shape(body)) == plain(shape(ours))

    with contextlib.suppress(AssertionError):
        wait_until(is_read, seconds=8.0)
    ours, theirs = left.get("p"), found[-1]
    assert (theirs is None) == (ours is None), builder.problems
    if ours is not None and theirs is not None:
        assert plain(shape(theirs)) == plain(shape(ours))


QUOTAS = [
    pytest.param({"pods": "2"}, {}, {}, id="pods"),
    pytest.param({"requests.cpu": "2"}, {"cpu": "1"}, {}, id="cpu"),
    pytest.param({"cpu": "2500m"}, {"cpu": "1"}, {}, id="old name of cpu"),
    pytest.param({"limits.memory": "2Gi"}, {}, {"memory": "1Gi"}, id="limits"),
    pytest.param({"requests.cpu": "8"}, {}, {}, id="a container that names no cpu"),
    pytest.param({"requests.example.com/gpu": "2"}, {"example.com/gpu": "1"}, {"example.com/gpu": "1"}, id="gpus"),
    pytest.param({"count/pods": "2"}, {}, {}, id="objects"),
    pytest.param({"requests.ephemeral-storage": "2Gi"}, {"ephemeral-storage": "1Gi"}, {}, id="storage"),
]


@pytest.mark.parametrize(("hard", "requests", "limits"), QUOTAS)
def test_quotas_of_pods(made: World, hard: Json, requests: Json, limits: Json) -> None:
    refuses_the_same(made, quota(made, hard), [pod(made, f"p{index}", requests, limits) for index in range(4)])


@pytest.mark.parametrize(
    "scope", ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"]
)
def test_scopes_of_quotas(made: World, scope: str) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaces": ["other"]}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [
        pod(made, "best-effort"),
        pod(made, "burstable", {"cpu": "1"}),
        pod(made, "short", activeDeadlineSeconds=60),
        pod(made, "across", affinity=affinity),
        pod(made, "across-again", {"cpu": "1"}, affinity=affinity, activeDeadlineSeconds=60),
    ]
    refuses_the_same(made, quota(made, {"pods": "1"}, scopes=[scope]), pods)


def test_a_quota_of_a_priority_class(made: World) -> None:
    make_priority_class(made.plane, made.word, 7)
    priority_class = named("PriorityClass", made, value=7)
    match = {"scopeName": "PriorityClass", "operator": "In", "values": [made.word]}
    limited = quota(made, {"pods": "1"}, scopeSelector={"matchExpressions": [match]})
    pods = [pod(made, f"p{index}", priorityClassName=made.word if index % 2 else "") for index in range(4)]
    refuses_the_same(made, limited, pods, priority_class)


def refuses_the_same(world: World, limited: Json, pods: list[Json], *objects: Json) -> None:
    left, builder = decided(*objects, limited, *pods)
    apply(world, limited)
    path = f"/api/v1/namespaces/{world.namespace}/resourcequotas/quota"
    wait_until(lambda: "used" in world.plane.request("GET", path).get("status", {}))

    made = [each["metadata"]["name"] for each in pods if served(world, each) is not None]

    assert made == [each["metadata"]["name"] for each in pods if each["metadata"]["name"] in left], builder.not_made
    assert len(made) < len(pods)


def test_a_quota_of_devices_keeps_claims_from_being_made(made: World) -> None:
    """The claim controller makes as many claims of a template as `simulate`; which pods get them is its own order."""
    made.device_class()
    made.template("one")
    hard = {f"{made.driver}.deviceclass.resource.k8s.io/devices": "2"}
    limited = quota(made, hard)
    apply(made, limited)
    path = f"/api/v1/namespaces/{made.namespace}/resourcequotas/quota"
    wait_until(lambda: "used" in made.plane.request("GET", path).get("status", {}))
    template = made.plane.request(
        "GET", f"/apis/resource.k8s.io/v1/namespaces/{made.namespace}/resourceclaimtemplates/one"
    )
    entry = [{"name": "devices", "resourceClaimTemplateName": "one"}]
    pods = [pod(made, f"p{index}", resourceClaims=entry) for index in range(4)]
    template = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", **template}
    del template["metadata"]["creationTimestamp"]
    _, builder = decided(limited, template, *pods)

    for each in pods:
        assert served(made, each) is not None
    wait_until(lambda: len(made.claims()) == 2 and sum(bool(made.events(f"p{index}")) for index in range(4)) >= 2)

    assert [str(pod.name) for pod, _ in builder.unclaimed] == ["p2", "p3"]
    assert all(isinstance(each, PodId) for each, _ in builder.unclaimed)


def test_the_condition_and_explain_say_which_quota_keeps_a_claim(
    made: World, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    made.add_nodes(1, devices=2)
    made.template("one")
    limited = quota(made, {f"{made.driver}.deviceclass.resource.k8s.io/devices": "1"})
    apply(made, limited)
    path = f"/api/v1/namespaces/{made.namespace}/resourcequotas/quota"
    wait_until(lambda: "used" in made.plane.request("GET", path).get("status", {}))
    entry = [{"name": "devices", "resourceClaimTemplateName": "one"}]
    for index in range(2):
        assert served(made, pod(made, f"p{index}", resourceClaims=entry)) is not None
    start()
    wait_until(lambda: len(made.bound()) == 1)
    (waiting,) = {"p0", "p1"} - set(made.bound())

    said = f"quota quota of the namespace is used up: 1 of 1 devices of class {made.driver}"
    wait_until(lambda: said in made.condition(waiting).get("message", ""))
    assert made.condition(waiting)["reason"] == "WaitingForClaims"

    m.run("explain", "--kubeconfig", made.plane.kubeconfig, "-n", made.namespace, f"pod/{waiting}", "-o", "json")
    found = json.loads(capsys.readouterr().out)
    assert said in found["reasons"][0]["message"]
