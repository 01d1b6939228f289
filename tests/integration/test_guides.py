"""Pages of docs that say what to do, done step by step on an API server as it is shipped."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail, install
from e2e.fleet import nvidia, publish
from e2e.fleet.fleets import together
from e2e.hostile.stage import definition
from tests.support.controlplane import wait_until
from tests.support.guides import Guide
from tests.support.marks import MUTATING_POLICIES
from tests.support.opt_in import DEFAULT, apply_policies, pod, scheduler_of

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]

NAMESPACE = "ml"
"""That of the pages."""
NODES = ("gpu-0001", "gpu-0002", "gpu-0003")
GANGS = "coming-from.md#from-volcano-kai-and-coscheduling"
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"


@pytest.fixture(scope="module")
def shipped() -> Iterator[ControlPlane]:
    """A control plane without a flag for feature gates, as most readers have; Dovetail is installed."""
    with ControlPlane.start(feature_gates="defaults", kubelet=True) as started:
        yield started


@pytest.fixture(scope="module")
def account(shipped: ControlPlane) -> Path:
    """The kubeconfig of Dovetail's account."""
    return install(shipped)


@pytest.fixture
def plane(shipped: ControlPlane, request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """Three nodes with GPUs (eight each, or the parameter), and the namespace; gone afterwards."""
    fleet = together(*(nvidia.gpu_node(name, gpus=getattr(request, "param", 8)) for name in NODES))
    publish.publish_to(shipped.kubeconfig, fleet)
    shipped.kubectl("create", "namespace", NAMESPACE)
    wait_until(lambda: bool(_list(shipped, "serviceaccounts")))
    yield shipped
    shipped.kubectl("delete", "namespace", NAMESPACE)
    shipped.kubectl("delete", *(f"node/{name}" for name in NODES))
    for kind, objects in (("resourceslice", fleet.slices), ("deviceclass", fleet.classes)):
        shipped.kubectl("delete", *(f"{kind}/{each['metadata']['name']}" for each in objects))


Follow = Callable[[str], Guide]


@pytest.fixture
def follow(plane: ControlPlane, tmp_path: Path) -> Iterator[Follow]:
    """Open a page; all of its commands have to be done in the end."""
    guides = []

    def follow_page(page: str) -> Guide:
        folder = tmp_path / "guide"
        folder.mkdir()
        guides.append(Guide(page, plane, folder))
        return guides[-1]

    yield follow_page
    for each in guides:
        each.end()


Begin = Callable[..., Dovetail]


@pytest.fixture
def begin(account: Path, tmp_path: Path) -> Iterator[Begin]:
    """Start Dovetail with its own scheduler name."""
    with ExitStack() as running:

        def start(*arguments: str) -> Dovetail:
            return running.enter_context(
                Dovetail.start(account, tmp_path / "dovetail.log", *arguments, leader_elect=False)
            )

        yield start


def _list(plane: ControlPlane, plural: str) -> list[Json]:
    items: list[Json] = plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/{plural}")["items"]
    return items


def placed(plane: ControlPlane, beginning: str = "") -> list[tuple[str, str]]:
    """Scheduler and node of each pod that has one, in order."""
    return sorted(
        (each["spec"]["schedulerName"], each["spec"]["nodeName"])
        for each in _list(plane, "pods")
        if each["spec"].get("nodeName") and each["metadata"]["name"].startswith(beginning)
    )


def waiting(plane: ControlPlane) -> list[str]:
    """The schedulers of pods that have no node, where one has said why."""
    return [
        each["spec"]["schedulerName"]
        for each in _list(plane, "pods")
        if not each["spec"].get("nodeName") and each["status"].get("conditions")
    ]


@pytest.fixture
def opt_in(plane: ControlPlane) -> Iterator[None]:
    """The policy of `deploy/opt-in`; gone afterwards."""
    names = apply_policies(plane, "opt-in")
    yield
    plane.kubectl("delete", *names)


@pytest.fixture
def kube_scheduler(plane: ControlPlane) -> Iterator[None]:
    """The other scheduler of the cluster."""
    running = plane.start_kube_scheduler()
    yield
    running.stop()


def wait_for_scheduler(plane: ControlPlane, name: str) -> None:
    """Wait until new pods of the namespace get this scheduler."""
    wait_until(lambda: scheduler_of(plane, NAMESPACE, pod()) == name)


@MUTATING_POLICIES
@pytest.mark.usefixtures("opt_in", "kube_scheduler")
def test_opt_in(plane: ControlPlane, follow: Follow) -> None:
    guide = follow("installing.md#opt-in-by-namespace")
    guide.run("kubectl label namespace ml")
    wait_for_scheduler(plane, "dovetail")
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod()["spec"]}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
    workload["spec"] = {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", input=json.dumps(workload))
    wait_until(lambda: [each["spec"]["schedulerName"] for each in _list(plane, "pods")] == ["dovetail"] * 2)

    guide.run("kubectl label namespace ml")
    wait_for_scheduler(plane, DEFAULT)
    assert placed(plane) == []  # Dovetail does not run here
    guide.run("kubectl -n ml delete pods")

    wait_until(lambda: [name for name, _ in placed(plane)] == [DEFAULT] * 2)
    (guide.folder / "workloads.yaml").write_text(yaml.safe_dump(workload))
    guide.run("kubectl -n ml apply -k")
    wait_until(lambda: "dovetail" in [each["spec"]["schedulerName"] for each in _list(plane, "pods")])


@MUTATING_POLICIES
@pytest.mark.usefixtures("opt_in", "kube_scheduler")
@pytest.mark.parametrize("plane", [2], indirect=True)
def test_from_kube_scheduler(plane: ControlPlane, follow: Follow, begin: Begin) -> None:
    plane.kubectl("delete", "namespace", NAMESPACE)
    guide = follow("coming-from.md#from-kube-scheduler")
    guide.run("kubectl label node gpu-0001")
    guide.run("kubectl taint node gpu-0001")
    begin(f"--config={guide.folder / 'config.yaml'}")
    guide.run("kubectl create namespace ml")
    guide.run("kubectl label namespace ml")
    wait_until(lambda: bool(_list(plane, "serviceaccounts")))
    wait_for_scheduler(plane, "dovetail")
    guide.run("kubectl -n ml apply -f trainer.yaml")
    wait_until(lambda: placed(plane) == [("dovetail", "gpu-0001")] * 2 and waiting(plane) == ["dovetail"])
    shown = guide.run("kubectl -n ml get pods")
    assert shown.count("dovetail") == 3
    assert shown.count("gpu-0001") == 2

    guide.run("kubectl label namespace ml")
    wait_for_scheduler(plane, DEFAULT)
    guide.run("kubectl taint node gpu-0001")
    guide.run("kubectl label node gpu-0001")
    guide.run("kubectl -n ml delete pods")

    wait_until(lambda: len(placed(plane)) == 3)
    (theirs, node), *ours = placed(plane)
    assert theirs == DEFAULT
    assert node in NODES[1:]
    assert ours == [("dovetail", "gpu-0001")] * 2


@pytest.mark.kubernetes(since="1.36")
def test_from_device_plugins(plane: ControlPlane, follow: Follow, begin: Begin) -> None:
    begin()
    guide = follow("coming-from.md#from-device-plugins")
    assert guide.run("kubectl get deviceclass") == "nvidia.com/gpu"
    guide.run("kubectl -n ml apply -f before.yaml")
    wait_until(lambda: len(placed(plane, "before")) == 1)
    assert "before-extended-resources-" in guide.run("kubectl -n ml get resourceclaims")

    def quota(field: str) -> Json:
        found = plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/resourcequotas/gpus")
        amounts: Json = found.get("status", {}).get(field, {})
        return amounts

    devices = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    guide.run("kubectl -n ml delete pod before")
    guide.run("kubectl -n ml apply -f quota.yaml")
    wait_until(lambda: quota("hard") == {devices: "4"})  # from then on the API server counts each claim
    guide.run("kubectl -n ml apply -f after.yaml")
    wait_until(lambda: len(placed(plane, "after")) == 1)
    (claim,) = [each for each in plane.request("GET", CLAIMS)["items"] if each["metadata"]["name"].startswith("after")]
    assert len(claim["status"]["allocation"]["devices"]["results"]) == 2
    wait_until(lambda: quota("used") == {devices: "2"})
    assert "2/4" in guide.run("kubectl -n ml get resourcequota gpus")


def test_from_gang_schedulers(plane: ControlPlane, follow: Follow, begin: Begin) -> None:
    crd = definition()
    plane.kubectl("apply", "-f", "-", input=json.dumps(crd))
    try:
        plane.kubectl("wait", "--for=condition=Established", f"crd/{crd['metadata']['name']}")
        begin()
        guide = follow(GANGS)
        guide.run("kubectl -n ml apply -f claims.yaml")
        for file, gang in (("coscheduling", "tuning"), ("gang", "training")):
            guide.run(f"kubectl -n ml apply -f {file}.yaml")
            wait_until(lambda gang=gang: len(placed(plane, gang)) == 2)  # type: ignore[misc]  # binds the loop's value
    finally:
        plane.kubectl("delete", f"crd/{crd['metadata']['name']}")


@pytest.mark.parametrize("plane", [2], indirect=True)
def test_quotas(plane: ControlPlane, follow: Follow, begin: Begin) -> None:
    guide = follow("quotas.md")
    begin(f"--config={guide.folder / 'config.yaml'}")

    def running(team: str) -> int:
        found: list[Json] = plane.request("GET", f"/api/v1/namespaces/{team}/pods")["items"]
        alive = [each for each in found if "deletionTimestamp" not in each["metadata"]]
        return sum(each["status"].get("phase") == "Running" for each in alive)

    def status(name: str) -> Json:
        found = plane.request("GET", f"/apis/dovetail.dev/v1alpha1/devicequotas/{name}")
        (resource,) = found.get("status", {}).get("resources") or [{}]
        return {key: resource.get(key) for key in ("held", "lent", "waiting")}

    try:
        guide.run("kubectl apply -f teams.yaml")
        guide.run("kubectl apply -f burst.yaml")
        wait_until(lambda: running("product") == 5)
        wait_until(lambda: status("product") == {"held": "5", "lent": "3", "waiting": 1})
        assert guide.run("kubectl -n product get pods").count("gpu-000") == 5
        assert "product" in guide.run("kubectl get devicequotas")

        before = guide.run("dovetail quota")
        assert "for research, if it asked for one more device of class gpu.nvidia.com: nobody, it is free" in before
        guide.run("kubectl apply -f training.yaml")
        wait_until(lambda: (running("research"), running("product")) == (3, 3), seconds=90)
        assert guide.run("kubectl -n research get pods").count("gpu-000") == 3
        assert "Preempted" in guide.run("kubectl -n product get events")
        # The Job makes other pods after a while.
        wait_until(lambda: status("product") == {"held": "3", "lent": "1", "waiting": 3}, seconds=90)
        after = guide.run("dovetail quota").split("\n")
        rows = [line.split()[3:] for line in after if line.split()[:1] in (["research"], ["product"])]
        assert rows == [["2", "5", "3", "1", "3"], ["4", "-", "3", "0", "0"]]
        assert "devicequotas" in guide.skip("kubectl get devicequotas")
        guide.skip("dovetail quota [NAME")
    finally:
        plane.kubectl("delete", "namespace", "research", "product")
        plane.kubectl("delete", "devicequotas", "--all")


def test_a_gang_of_the_page_that_does_not_fit_waits_as_a_whole(
    plane: ControlPlane, follow: Follow, begin: Begin
) -> None:
    """Twelve GPUs are left for two gangs of eight: one runs, and no member of the other."""
    plane.kubectl("cordon", "gpu-0003")
    begin()
    guide = follow(GANGS)
    guide.run("kubectl -n ml apply -f claims.yaml")
    guide.skip("kubectl -n ml apply -f coscheduling.yaml")
    held = {**pod({"name": "held"}), "spec": {**pod()["spec"], "schedulerName": "dovetail"}}
    held["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "four-gpus"}]
    plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", input=json.dumps(held))
    wait_until(lambda: len(placed(plane, "held")) == 1)
    guide.run("kubectl -n ml apply -f gang.yaml")
    wait_until(lambda: len(placed(plane, "training")) == 2)
    another = (guide.folder / "gang.yaml").read_text(encoding="utf-8").replace("training", "sweep")
    plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", input=another)
    wait_until(lambda: waiting(plane) == ["dovetail"] * 2)
    assert placed(plane, "sweep") == []


def test_kueue(plane: ControlPlane, follow: Follow, begin: Begin) -> None:
    """The test does to the job and to the pod what Kueue does."""
    begin()
    guide = follow("kueue.md")
    guide.skip("kubectl apply -f queues.yaml")
    guide.run("kubectl -n ml apply -f job.yaml")
    guide.skip("kubectl -n ml wait")
    assert _list(plane, "pods") == []
    flavour = {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "gpu-0002"}}}}}
    plane.kubectl("-n", NAMESPACE, "patch", "job", "queued", "-p", json.dumps(flavour))
    plane.kubectl("-n", NAMESPACE, "patch", "job", "queued", "-p", '{"spec": {"suspend": false}}')
    wait_until(lambda: placed(plane, "queued") == [("dovetail", "gpu-0002")] * 2)
    assert "gpu-0002" in guide.run("dovetail explain job/queued -n ml")
    plane.kubectl("-n", NAMESPACE, "patch", "job", "queued", "-p", '{"spec": {"suspend": true}}')
    wait_until(lambda: _list(plane, "pods") == [] and plane.request("GET", CLAIMS)["items"] == [])

    for beginning in ("kubectl apply -f check.yaml", "kubectl wait", "kubectl patch clusterqueue"):
        guide.skip(beginning)

    gated = {**pod({"name": "gated"}), "spec": {**pod()["spec"], "schedulerName": "dovetail"}}
    gated["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    open_ = {**gated, "metadata": {"name": "open"}, "spec": {**gated["spec"], "schedulingGates": []}}
    for each in (gated, open_):
        plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", input=json.dumps(each))
    wait_until(lambda: len(placed(plane, "open")) == 1)
    assert placed(plane, "gated") == []
    gone = '[{"op": "remove", "path": "/spec/schedulingGates"}]'
    plane.kubectl("-n", NAMESPACE, "patch", "pod", "gated", "--type=json", "-p", gone)
    wait_until(lambda: len(placed(plane, "gated")) == 1)


def run_replica(plane: ControlPlane) -> None:
    """Make a Deployment with one pod on all devices of a node but one, and wait until it has them."""
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 7}}
    template = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "seven-gpus"}}
    template["spec"] = {"spec": {"devices": {"requests": [request]}}}
    spec = {**pod()["spec"], "schedulerName": "dovetail", "terminationGracePeriodSeconds": 0}
    spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "seven-gpus"}]
    labels = {"app": "held"}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "held"}}
    deployment["spec"] = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }
    for each in (template, deployment):
        plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", input=json.dumps(each))
    wait_until(lambda: len(placed(plane, "held")) == 1)


@pytest.mark.kubernetes(since="1.37")
def test_a_bad_gpu(plane: ControlPlane, follow: Follow, begin: Begin) -> None:
    plane.kubectl("cordon", "gpu-0002", "gpu-0003")
    begin()
    run_replica(plane)
    guide = follow("bad-gpu.md")
    assert "gpu-3" not in guide.run("dovetail devices --problems")
    assert "held" in guide.run("dovetail devices node/gpu-0001")
    assert "gpu-0001 (other devices)" in guide.run("dovetail repair plan --for device gpu-0001/gpu-3")
    guide.run("kubectl apply -f bad-gpu.yaml")
    assert "held,tainted" in guide.run("dovetail devices --problems")
    (name,) = [each["metadata"]["name"] for each in _list(plane, "pods")]
    assert name in guide.run("dovetail devices node/gpu-0001")
    plane.kubectl("-n", NAMESPACE, "delete", "pod", name)
    wait_until(lambda: [each for _, each in placed(plane, "held")] == ["gpu-0001"] and name not in _names(plane))
    claims = plane.request("GET", CLAIMS)["items"]
    held = {result["device"] for each in claims for result in each["status"]["allocation"]["devices"]["results"]}
    assert held == {f"gpu-{number}" for number in range(8)} - {"gpu-3"}
    guide.run("kubectl delete -f bad-gpu.yaml")


def _names(plane: ControlPlane) -> list[str]:
    return [each["metadata"]["name"] for each in _list(plane, "pods")]


def test_maintenance(plane: ControlPlane, follow: Follow, begin: Begin) -> None:
    plane.kubectl("cordon", "gpu-0002", "gpu-0003")
    begin()
    run_replica(plane)
    plane.kubectl("uncordon", "gpu-0002")
    guide = follow("maintenance.md")
    assert "held" in guide.run("dovetail devices node/gpu-0001")
    assert "1 move (proven" in guide.run("dovetail repair plan --for node gpu-0001")
    guide.run("kubectl cordon gpu-0001")
    guide.run("kubectl drain gpu-0001")
    wait_until(lambda: [node for _, node in placed(plane, "held")] == ["gpu-0002"])
    assert "held" not in guide.run("dovetail devices node/gpu-0001")
    plane.kubectl("-n", NAMESPACE, "scale", "deployment", "held", "--replicas=2")
    wait_until(lambda: waiting(plane) == ["dovetail"])
    guide.run("kubectl uncordon gpu-0001")
    wait_until(lambda: sorted(node for _, node in placed(plane, "held")) == ["gpu-0001", "gpu-0002"])
