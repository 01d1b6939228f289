"""
What counts of an object that cannot be read: one test for each row of the table in docs/tenancy.md.

Objects come as the API server sends them, through the watch into the mirror, and a decision is made with what is there.
"""

from typing import Any

import pytest

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster, Intake
from scheduler.kube.decode import objects
from scheduler.kube.watching.list_watch import ListWatch, Received
from scheduler.worker import frames
from solver import solve, verify
from solver.domain import Batch, Budget, Namespace, Plan, Pod, PodId, Policy, PreemptionRules
from solver.domain.gang import DISRUPT_ALL
from tests.support.kube_objects import claim, container, device_hold, line, metadata, page, pod, resource_slice, result
from tests.support.received import take_lines, take_page

Json = dict[str, Any]
TAINT_RULE = {"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
ERRORS = (
    ValueError("4301 digits"),
    RecursionError("too deep"),
    OverflowError("too large"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no text"),
    KeyError("key"),
    TypeError("type"),
    AttributeError("attribute"),
    ZeroDivisionError("zero"),
    AssertionError("never"),
)


def cluster_object(name: str, *, version: int = 1, meta: Json | None = None, **fields: Any) -> Json:
    return {"metadata": metadata(name, version=version, **(meta or {})), **fields}


def own(name: str, *, version: int = 1, **fields: Any) -> Json:
    return {"metadata": metadata(name, namespace="ml", version=version), **fields}


def machine(name: str = "node-1", *, version: int = 1, cpu: Any = "8", **status: Any) -> Json:
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "10"}
    return cluster_object(name, version=version, spec={}, status={"allocatable": allocatable, **status})


def gpus(count: int = 2, *, version: int = 1, **spec: Any) -> Json:
    return resource_slice(version=version, devices=[{"name": f"gpu-{index}"} for index in range(count)], **spec)


def gpu_class(**fields: Any) -> Json:
    return cluster_object("gpu", spec={}, **fields)


def gpu_pod(name: str = "new", its_claim: str = "new") -> tuple[Json, Json]:
    entry = {"name": "gpu", "resourceClaimName": its_claim}
    return pod(name, resourceClaims=[entry]), claim(its_claim)


def held(name: str = "old", *devices: str, version: int = 1, **wrong: Any) -> Json:
    results = [result(each) for each in devices or ("gpu-0",)]
    return claim(name, version=version, status={"allocation": {"devices": {"results": results}}, **wrong})


class Scene:
    """A mirror that follows watches of every kind."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.intake = Intake(self.cluster)
        self.watches = {kind: ListWatch(kind) for kind in Kind}
        for kind, watch in self.watches.items():
            watch.start_listing()
            self._take(kind, take_page(watch, page()))
        self.problems: list[str] = []
        self.readable: list[str] = []
        self.show(Kind.NODES, machine())
        self.show(Kind.CLASSES, gpu_class())
        self.show(Kind.SLICES, gpus())

    def show(self, kind: Kind, body: Json, event: str = "MODIFIED") -> None:
        received = Received()
        take_lines(self.watches[kind], [line(event, body)], received)
        self.problems += [each.key for each in received.problems]
        self.readable += received.readable
        self._take(kind, received)

    def _take(self, _: Kind, received: Received) -> None:
        for change in received.changes:
            assert not self.intake.take(change).problem

    def decide(self, *names: str, policy: Policy | None = None) -> Plan:
        policy = policy or Policy()
        snapshot = self.cluster.snapshot()
        pods = tuple(self.pod(name) for name in names)
        batch = self.cluster.with_gangs(Batch(pods=pods))
        plan = solve(snapshot, batch, policy, Budget(seconds=60.0))
        assert verify.check(snapshot, batch, plan, policy) == ()
        return plan

    def pod(self, name: str) -> Pod:
        found = self.cluster.pod(PodId("ml", name))
        assert found is not None
        return found

    def offer(self, name: str = "new", *, with_gpu: bool = False, **spec: Any) -> str:
        """Have a pod that waits, and give its place: the node, or why there is none."""
        if with_gpu:
            body, its_claim = gpu_pod(name, name)
            body["spec"] |= spec
            self.show(Kind.CLAIMS, its_claim)
        else:
            body = pod(name, **spec)
        self.show(Kind.PODS, body)
        return self.place(name)

    def place(self, name: str = "new") -> str:
        plan = self.decide(name)
        if plan.placements:
            return plan.placements[0].node
        return " ".join(reason.message for reason in plan.unplaced[0].reasons)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_without_anything_unreadable_pods_are_placed(scene: Scene) -> None:
    assert scene.offer() == "node-1"
    assert scene.offer("other", with_gpu=True) == "node-1"
    assert scene.problems == []


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("kind", list(Kind), ids=str)
def test_whatever_decoding_raises_is_the_objects_own_problem(
    monkeypatch: pytest.MonkeyPatch, kind: Kind, error: Exception
) -> None:
    """Row 1 and row 4 of the defects, as a class: any exception, any kind, by a page and by a watch."""
    honest = objects._DECODERS[kind]  # noqa: SLF001 - the place where any decoder may raise

    def decoder(raw: Any) -> Any:
        if b"hostile" in bytes(raw):
            raise error
        return honest(raw)

    monkeypatch.setitem(objects._DECODERS, kind, decoder)  # noqa: SLF001
    bodies = {Kind.PODS: pod("a"), Kind.CLAIMS: claim("a"), Kind.SLICES: gpus(), Kind.HOLDS: device_hold("a")}
    body = bodies.get(kind, own("a", spec={"taint": {"key": "k", "effect": "NoSchedule"}}))
    hostile = {**body, "metadata": {**body["metadata"], "name": "hostile"}}
    watch = ListWatch(kind)
    watch.start_listing()
    received = take_page(watch, page(body, hostile))
    assert [each.key.rpartition("/")[2] for each in received.problems] == ["hostile"]
    assert len([each for each in received.changes if not each.key.endswith("hostile")]) == 1
    assert not watch.needs_listing
    intake = Intake(Cluster())
    for change in received.changes:
        assert not intake.take(change).problem
    again = Received()
    take_lines(watch, [line("DELETED", hostile)], again)
    assert again.readable == [received.problems[0].key]


# claims


@pytest.mark.parametrize(
    "wrong", [{"reservedFor": "all"}, {"devices": 7}, {"allocation": 7}, {"allocation": {"devices": {"results": 7}}}]
)
def test_a_claim_keeps_its_last_readable_devices(scene: Scene, wrong: Json) -> None:
    scene.show(Kind.CLAIMS, held("old", "gpu-0", "gpu-1"))
    scene.show(Kind.CLAIMS, {**held("old", "gpu-0", "gpu-1", version=2, **wrong)})
    assert scene.problems == ["ml/old"]
    assert "2 in use" in scene.offer(with_gpu=True)
    scene.show(Kind.CLAIMS, claim("old", version=3))
    assert (scene.readable, scene.place()) == (["ml/old"], "node-1")


def test_devices_of_a_claim_that_was_allocated_since_it_was_last_readable_count(scene: Scene) -> None:
    scene.show(Kind.CLAIMS, claim("old"))
    broken = held("old", "gpu-0", "gpu-1", version=2)
    broken["metadata"]["finalizers"] = True
    scene.show(Kind.CLAIMS, broken)
    assert "2 in use" in scene.offer(with_gpu=True)


def test_a_claim_that_was_never_readable_holds_the_devices_that_its_status_names(scene: Scene) -> None:
    broken = held("old", "gpu-0", "gpu-1", reservedFor="all")
    broken["spec"] = "nothing"
    scene.show(Kind.CLAIMS, broken)
    assert "2 in use" in scene.offer(with_gpu=True)


@pytest.mark.parametrize("wrong", [{"device": 7}, {"device": 7, "pool": {}}], ids=["device", "pool"])
def test_of_a_pool_of_which_a_claim_may_hold_any_device_nothing_is_given_out(scene: Scene, wrong: Json) -> None:
    status = {"allocation": {"devices": {"results": [{**result(), **wrong}]}}}
    scene.show(Kind.CLAIMS, claim("old", status=status))
    scene.show(Kind.SLICES, {**gpus(), "metadata": metadata("other")} | {"spec": gpus()["spec"] | {"driver": "other"}})
    everything = [{"operator": "Exists"}]
    wanted = claim("new", requests=[{"name": "g", "exactly": {"deviceClassName": "gpu", "tolerations": everything}}])
    scene.show(Kind.CLAIMS, wanted)
    scene.show(Kind.PODS, pod("new", resourceClaims=[{"name": "gpu", "resourceClaimName": "new"}]))
    plan = scene.decide("new")
    assert {each.device.driver for one in plan.allocations for each in one.allocation.results} == {"other"}
    scene.show(Kind.CLAIMS, claim("old", version=2))
    assert scene.readable == ["ml/old"]


def test_a_share_whose_amount_cannot_be_read_takes_all_of_it(scene: Scene) -> None:
    memory = {"memory": {"value": "80Gi"}}
    devices = [{"name": "gpu-0", "allowMultipleAllocations": True, "capacity": memory}]
    scene.show(Kind.SLICES, resource_slice(version=2, devices=devices))
    share = result(shareID="00000000-0000-0000-0000-000000000001", consumedCapacity={"memory": "lots"})
    scene.show(Kind.CLAIMS, claim("old", status={"allocation": {"devices": {"results": [share]}}}))
    exactly = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "1Gi"}}}
    scene.show(Kind.CLAIMS, claim("new", requests=[{"name": "gpu", "exactly": exactly}]))
    scene.show(Kind.PODS, gpu_pod()[0])
    assert scene.place() != "node-1"


def test_a_claim_that_waits_is_not_allocated_until_it_can_be_read(scene: Scene) -> None:
    body, its_claim = gpu_pod()
    scene.show(Kind.CLAIMS, {**its_claim, "spec": {"devices": {"requests": 7}}})
    scene.show(Kind.PODS, body)
    assert "claim new: spec: Expected" in scene.place()
    its_claim["metadata"]["resourceVersion"] = "2"
    scene.show(Kind.CLAIMS, its_claim)
    assert scene.place() == "node-1"


# pods


def running(name: str = "old", *, version: int = 1, **spec: Any) -> Json:
    return pod(name, version=version, nodeName="node-1", containers=[container("main", cpu="8")], **spec)


@pytest.mark.parametrize("wrong", [{"priority": "high"}, {"tolerations": 7}, {"affinity": {"podAffinity": 7}}])
def test_a_bound_pod_keeps_its_room_whatever_else_is_wrong_with_it(scene: Scene, wrong: Json) -> None:
    scene.show(Kind.PODS, running(**wrong))
    assert "Insufficient cpu" in scene.offer(containers=[container("main", cpu="1")])
    assert scene.offer("small") == "node-1", "it takes what it takes and no more"


def test_a_bound_pod_keeps_its_last_readable_room(scene: Scene) -> None:
    scene.show(Kind.PODS, running())
    scene.show(Kind.PODS, running(version=2) | {"spec": {"nodeName": "node-1", "containers": 7}})
    assert "Insufficient cpu" in scene.offer(containers=[container("main", cpu="1")])
    assert scene.offer("small") == "node-1"


def test_a_bound_pod_whose_requests_were_never_readable_fills_its_node_and_is_not_evicted(scene: Scene) -> None:
    scene.show(Kind.NODES, machine("node-2"))
    broken = running()
    broken["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "much"}}
    scene.show(Kind.PODS, broken)
    assert scene.offer() == "node-2", "nothing goes beside it, not even what asks for nothing"
    assert not scene.pod("old").is_preemptible


def test_a_pod_without_a_node_fills_none(scene: Scene) -> None:
    """A client that could not bind a pod to a node cannot fill that node with it."""
    broken = pod("old", containers=7, nodeSelector={"kubernetes.io/hostname": "node-1"})
    broken["status"]["nominatedNodeName"] = "node-1"
    scene.show(Kind.PODS, broken)
    assert scene.offer() == "node-1"
    assert "containers" in scene.place("old")


def test_ports_and_claims_of_a_bound_pod_count(scene: Scene) -> None:
    port = {"name": "main", "ports": [{"hostPort": 80}]}
    taken = running(priority="high", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])
    taken["spec"]["containers"] = [port]
    scene.show(Kind.PODS, taken)
    assert scene.offer(containers=[port]) != "node-1"
    assert [each.name for each in scene.pod("old").claim_ids] == ["c"]


def test_a_pod_that_waits_is_not_placed_until_it_can_be_read(scene: Scene) -> None:
    assert "tolerations" in scene.offer(tolerations=7)
    scene.show(Kind.PODS, pod("new", version=2))
    assert (scene.readable, scene.place()) == (["ml/new"], "node-1")


# devices


def test_a_pool_with_a_slice_that_becomes_unreadable_gives_nothing_out(scene: Scene) -> None:
    scene.show(Kind.CLAIMS, held("old"))
    scene.show(Kind.SLICES, gpus(version=2) | {"spec": {**gpus()["spec"], "devices": 7}})
    message = scene.offer(with_gpu=True)
    assert "pool gpu.example.com/node-1 is not used: slice slice cannot be read" in message
    assert scene.cluster.contested_devices() == ()
    scene.show(Kind.SLICES, gpus(version=3))
    assert (scene.readable, scene.place()) == (["slice"], "node-1")


def test_a_pool_with_a_slice_that_was_never_readable_gives_nothing_out(scene: Scene) -> None:
    other = {**gpus(), "metadata": metadata("other")}
    other["spec"] = {**other["spec"], "devices": 7}
    scene.show(Kind.SLICES, other)
    assert "slice other cannot be read" in scene.offer(with_gpu=True)


def test_a_claim_that_holds_a_device_of_such_a_pool_is_used_on(scene: Scene) -> None:
    scene.show(Kind.CLAIMS, held("new"))
    scene.show(Kind.SLICES, gpus(version=2) | {"spec": {**gpus()["spec"], "devices": 7}})
    scene.show(Kind.PODS, gpu_pod()[0])
    assert scene.place() == "node-1"


def test_a_class_keeps_its_last_readable_selectors(scene: Scene) -> None:
    nothing = {"selectors": [{"cel": {"expression": "false"}}]}
    scene.show(Kind.CLASSES, cluster_object("gpu", version=2, spec=nothing))
    scene.show(Kind.CLASSES, cluster_object("gpu", version=3, spec=7))
    assert scene.problems == ["gpu"]
    assert "none matches" in scene.offer(with_gpu=True)


def test_claims_of_a_class_that_was_never_readable_wait(scene: Scene) -> None:
    scene.show(Kind.CLASSES, cluster_object("new", spec=7))
    scene.show(Kind.CLAIMS, claim("new", requests=[{"name": "gpu", "exactly": {"deviceClassName": "new"}}]))
    scene.show(Kind.PODS, gpu_pod()[0])
    assert "device class new cannot be read (the pod waits for a valid one)" in scene.place()
    scene.show(Kind.CLASSES, cluster_object("new", version=2, spec={}))
    assert scene.place() == "node-1"


def rule(selector: Any, *, version: int = 1, taint: Any = None) -> Json:
    spec = {"taint": taint or {"key": "broken", "effect": "NoSchedule"}, "deviceSelector": selector}
    return cluster_object("rule", version=version, spec=spec)


def test_a_taint_rule_keeps_its_last_readable_effect(scene: Scene) -> None:
    scene.show(Kind.TAINT_RULES, rule({"driver": "gpu.example.com"}))
    scene.show(Kind.TAINT_RULES, rule(7, version=2))
    assert "2 tainted" in scene.offer(with_gpu=True)


@pytest.mark.parametrize(
    ("selector", "tainted"),
    [(TAINT_RULE | {"device": 7}, 2), (TAINT_RULE | {"driver": "other", "device": 7}, 0), (7, 2)],
    ids=["pool", "other driver", "nothing"],
)
def test_a_taint_rule_that_was_never_readable_taints_what_it_may_mean(
    scene: Scene, selector: Any, tainted: int
) -> None:
    scene.show(Kind.TAINT_RULES, rule(selector))
    assert scene.problems == ["rule"]
    assert (f"{tainted} tainted" if tainted else "node-1") in scene.offer(with_gpu=True)


def test_a_taint_rule_whose_taint_cannot_be_read_is_tolerated_by_nothing(scene: Scene) -> None:
    scene.show(Kind.TAINT_RULES, rule(TAINT_RULE, taint={"key": 7}))
    exactly = {"deviceClassName": "gpu", "count": 2, "tolerations": [{"operator": "Exists"}]}
    scene.show(Kind.CLAIMS, claim("new", requests=[{"name": "gpu", "exactly": exactly}]))
    scene.show(Kind.PODS, gpu_pod()[0])
    assert "1 tainted" in scene.place()


# nodes and namespaces


def test_a_node_that_becomes_unreadable_gets_no_new_pods(scene: Scene) -> None:
    scene.show(Kind.NODES, machine(version=2, cpu="much"))
    tolerant = [{"operator": "Exists"}]
    assert scene.offer(tolerations=tolerant) != "node-1"
    scene.show(Kind.NODES, machine(version=3))
    assert scene.place() == "node-1"


def test_a_node_that_was_never_readable_gets_no_pods(scene: Scene) -> None:
    scene.show(Kind.NODES, machine("node-0", cpu="much"))
    assert scene.offer(tolerations=[{"operator": "Exists"}]) == "node-1"


def test_a_namespace_keeps_its_last_readable_labels(scene: Scene) -> None:
    scene.show(Kind.NAMESPACES, cluster_object("ml", meta={"labels": {"team": "a"}}))
    scene.show(Kind.NAMESPACES, cluster_object("ml", version=2, meta={"labels": 7}))
    found = scene.cluster.seen(Kind.NAMESPACES, "ml")
    assert isinstance(found, Namespace)
    assert dict(found.labels) == {"team": "a"}


# preemption


def budget(*, version: int = 1, selector: Any = None, allowed: Any = 5) -> Json:
    body = own("budget", version=version)
    return body | {"spec": {"selector": selector}, "status": {"disruptionsAllowed": allowed}}


PREEMPTING = Policy(preemption=PreemptionRules(is_enabled=True, scheduler_names=("dovetail",), now=10**9))


def evicting(scene: Scene) -> int:
    """How many pods make room for an important one on the only node, which is full."""
    scene.show(Kind.PODS, running(priority=1, version=1))
    scene.show(Kind.PODS, pod("new", priority=9, containers=[container("main", cpu="8")]))
    return sum(len(each.victims) for each in scene.decide("new", policy=PREEMPTING).preemptions)


@pytest.mark.parametrize("selector", [{"matchLabels": {"x": "y"}}, None], ids=["of others", "of none"])
def test_a_readable_budget_that_does_not_concern_a_pod_leaves_it_to_preemption(scene: Scene, selector: Any) -> None:
    scene.show(Kind.BUDGETS, budget(selector=selector))
    assert evicting(scene) == 1


def test_a_budget_keeps_its_last_readable_selector_and_grants_nothing(scene: Scene) -> None:
    scene.show(Kind.BUDGETS, budget(selector={}))
    assert evicting(scene) == 1
    scene.show(Kind.BUDGETS, budget(selector={}, version=2, allowed="many"))
    assert evicting(scene) == 0
    scene.show(Kind.BUDGETS, budget(selector={}, version=3))
    assert evicting(scene) == 1


@pytest.mark.parametrize(("selector", "expected"), [(7, 0), ({}, 0), ({"matchLabels": {"x": "y"}}, 1)])
def test_a_budget_that_was_never_readable_protects_what_it_may_select(
    scene: Scene, selector: Any, expected: int
) -> None:
    scene.show(Kind.BUDGETS, budget(selector=selector, allowed="many"))
    assert evicting(scene) == expected


def test_a_budget_of_one_namespace_protects_nothing_of_another(scene: Scene) -> None:
    other = budget(selector=7)
    other["metadata"]["namespace"] = "other"
    scene.show(Kind.BUDGETS, other)
    assert evicting(scene) == 1


# gangs


@pytest.mark.parametrize("minimum", ["many", 1.5, True, [], {}])
def test_a_gang_whose_group_was_never_readable_waits_and_its_running_pods_go_only_whole(
    scene: Scene, minimum: Any
) -> None:
    """coscheduling's PodGroups come from a CRD, whose schema may admit anything."""
    scene.show(Kind.COSCHEDULING_GROUPS, own("g", spec={"minMember": minimum}))
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    scene.show(Kind.PODS, pod("new", meta={"labels": labels}))
    assert "PodGroup g: spec.minMember: Expected" in scene.place() or "minMember" in scene.place()
    (gang,) = scene.cluster.with_gangs(Batch(pods=(scene.pod("new"),))).gangs
    assert gang.disruption == DISRUPT_ALL


@pytest.mark.parametrize("minimum", [-1, 2**31, 2**80])
def test_a_minimum_that_is_no_number_of_pods_is_told(scene: Scene, minimum: int) -> None:
    scene.show(Kind.COSCHEDULING_GROUPS, own("g", spec={"minMember": minimum}))
    scene.show(Kind.PODS, pod("new", meta={"labels": {"scheduling.x-k8s.io/pod-group": "g"}}))
    assert "spec.minMember: it is not a number of pods: write 1 to 100000" in scene.place()


def test_a_gang_whose_group_becomes_unreadable_waits(scene: Scene) -> None:
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    scene.show(Kind.COSCHEDULING_GROUPS, own("g", spec={"minMember": 1}))
    scene.show(Kind.PODS, pod("new", meta={"labels": labels}))
    assert scene.place() == "node-1"
    scene.show(Kind.COSCHEDULING_GROUPS, own("g", version=2, spec=7))
    assert "PodGroup g: " in scene.place()


# volumes


def disk(*, version: int = 1, **wrong: Any) -> Json:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "slow",
        "csi": {"driver": "disk.example.com", "volumeHandle": "d"},
        **wrong,
    }
    return cluster_object("disk", version=version, spec=spec, status={"phase": "Available"})


def wish(*, version: int = 1, volume: str = "", **wrong: Any) -> Json:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "slow",
        **({"volumeName": volume} if volume else {}),
        **wrong,
    }
    body = own("data", version=version, spec=spec)
    if volume:
        body["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    return body


SLOW: Json = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
DATA = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def with_disk(scene: Scene) -> Scene:
    scene.show(Kind.STORAGE_CLASSES, cluster_object("slow", **SLOW))
    scene.show(Kind.VOLUMES, disk())
    scene.show(Kind.VOLUME_CLAIMS, wish())
    assert scene.offer(volumes=DATA) == "node-1"
    return scene


def test_a_free_volume_that_cannot_be_read_is_bound_to_no_claim(scene: Scene) -> None:
    with_disk(scene).show(Kind.VOLUMES, disk(version=2, capacity=7))
    assert scene.place() != "node-1"
    scene.show(Kind.VOLUMES, disk(version=3))
    assert scene.place() == "node-1"


def test_a_bound_volume_that_was_never_readable_reaches_no_node(scene: Scene) -> None:
    scene.show(Kind.VOLUMES, disk(nodeAffinity=7, claimRef={"namespace": "ml", "name": "data"}))
    scene.show(Kind.VOLUME_CLAIMS, wish(volume="disk"))
    assert scene.offer(volumes=DATA) != "node-1"


def test_pods_wait_for_a_volume_claim_that_cannot_be_read(scene: Scene) -> None:
    with_disk(scene).show(Kind.VOLUME_CLAIMS, wish(version=2, resources=7))
    assert 'persistentvolumeclaim "data" cannot be read (the pod waits for a valid one)' in scene.place()
    scene.show(Kind.VOLUME_CLAIMS, wish(version=3))
    assert scene.place() == "node-1"


def test_pods_wait_for_a_volume_claim_that_was_never_readable(scene: Scene) -> None:
    scene.show(Kind.VOLUME_CLAIMS, wish(resources=7))
    assert 'persistentvolumeclaim "data" cannot be read' in scene.offer(volumes=DATA)


def test_a_storage_class_keeps_its_last_readable_effect(scene: Scene) -> None:
    with_disk(scene).show(Kind.STORAGE_CLASSES, cluster_object("slow", version=2, provisioner=7))
    assert scene.place() == "node-1"


def test_claims_of_a_storage_class_that_was_never_readable_wait(scene: Scene) -> None:
    scene.show(Kind.STORAGE_CLASSES, cluster_object("slow", provisioner=7))
    scene.show(Kind.VOLUMES, disk())
    scene.show(Kind.VOLUME_CLAIMS, wish())
    assert "unbound immediate" in scene.offer(volumes=DATA)


def drivers(*, version: int = 1, keys: Any = None) -> Json:
    driver = {"name": "disk.example.com", "nodeID": "n", "topologyKeys": keys or [], "allocatable": {"count": 1}}
    return cluster_object("node-1", version=version, spec={"drivers": [driver]})


def attached(*, version: int = 1, **wrong: Any) -> Json:
    source = {"persistentVolumeName": "other"}
    spec = {"attacher": "disk.example.com", "nodeName": "node-1", "source": source, **wrong}
    return cluster_object("attached", version=version, spec=spec)


def bound_disks(scene: Scene) -> None:
    """Two volumes, of which the pod's is bound; the node can have one attached."""
    other = disk(csi={"driver": "disk.example.com", "volumeHandle": "e"})
    other["metadata"] |= {"name": "other", "uid": "uid-other"}
    scene.show(Kind.VOLUMES, disk(claimRef={"namespace": "ml", "name": "data"}))
    scene.show(Kind.VOLUMES, other)
    scene.show(Kind.VOLUME_CLAIMS, wish(volume="disk"))


def test_attach_limits_keep_their_last_readable_values(scene: Scene) -> None:
    bound_disks(scene)
    scene.show(Kind.NODE_DRIVERS, drivers())
    scene.show(Kind.ATTACHMENTS, attached())
    assert "exceed max volume count" in scene.offer(volumes=DATA)
    scene.show(Kind.NODE_DRIVERS, drivers(version=2, keys=7))
    scene.show(Kind.ATTACHMENTS, attached(version=2, source=7))
    assert scene.problems == ["node-1", "attached"]
    assert "exceed max volume count" in scene.place()


def test_attach_limits_that_were_never_readable_whole_count_by_their_drivers(scene: Scene) -> None:
    bound_disks(scene)
    scene.show(Kind.NODE_DRIVERS, drivers(keys=7))
    scene.show(Kind.ATTACHMENTS, attached())
    assert "exceed max volume count" in scene.offer(volumes=DATA)


def test_a_storage_capacity_that_cannot_be_read_offers_nothing(scene: Scene) -> None:
    made: Json = {"provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    scene.show(Kind.STORAGE_CLASSES, cluster_object("slow", **made))
    scene.show(Kind.STORAGE_DRIVERS, cluster_object("disk.example.com", spec={"storageCapacity": True}))
    room: Json = {"nodeTopology": {}, "storageClassName": "slow"}
    scene.show(Kind.STORAGE_CAPACITIES, own("room", capacity="9Gi", **room))
    scene.show(Kind.VOLUME_CLAIMS, wish())
    assert scene.offer(volumes=DATA) == "node-1"
    scene.show(Kind.STORAGE_CAPACITIES, own("room", version=2, capacity=7, **room))
    assert "did not have enough free storage" in scene.place()
    scene.show(Kind.STORAGE_CAPACITIES, own("room", version=3, capacity="9Gi", **room))
    assert scene.place() == "node-1"


def test_a_storage_driver_that_was_never_readable_must_be_on_the_node_and_have_room(scene: Scene) -> None:
    made: Json = {"provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    scene.show(Kind.STORAGE_CLASSES, cluster_object("slow", **made))
    scene.show(Kind.STORAGE_DRIVERS, cluster_object("disk.example.com", spec=7))
    scene.show(Kind.VOLUME_CLAIMS, wish())
    assert "disk.example.com CSI driver is not installed on the node" in scene.offer(volumes=DATA)
    scene.show(Kind.NODE_DRIVERS, drivers())
    assert "did not have enough free storage" in scene.place()


def test_a_stand_in_survives_the_way_to_the_workers_replica(scene: Scene) -> None:
    scene.show(Kind.SLICES, gpus(version=2) | {"spec": {**gpus()["spec"], "devices": 7}})
    value = scene.cluster.seen(Kind.SLICES, "slice")
    assert value is not None
    change = Change(kind=Kind.SLICES, key="slice", value=value)
    assert frames.decode_change(frames.encode_change(change)) == change
