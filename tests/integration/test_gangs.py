"""Gangs on the real API server: all of their pods or none, through waiting, losing, crashes and failed bindings."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane import versions
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail, install
from scheduler.kube.api_versions import pod_group_condition
from tests.support.controlplane import wait_until
from tests.support.marks import WITH_POD_GROUPS
from tests.support.series import series
from tests.support.shell_proxy import Dam, is_allocation, is_binding, lossy
from tests.support.shell_world import Json, Start, World

pytestmark = pytest.mark.controlplane

SCHEDULING = f"/apis/{versions.pod_groups()}"
ANNOTATED = "dovetail.dev/gang-minimum"
RACK = "example.com/rack"


def pod_group(
    world: World,
    name: str,
    minimum: int,
    *,
    claims: Sequence[Json] = (),
    topology: str = "",
    more: Json | None = None,
    **annotations: str,
) -> Json:
    """Create a PodGroup with the gang policy (of the basic one for a minimum of 0); `more` are fields of its spec."""
    policy: Json = {"gang": {"minCount": minimum}} if minimum else {"basic": {}}
    spec: Json = {"schedulingPolicy": policy, **(more or {})}
    if claims:
        spec["resourceClaims"] = list(claims)
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    body = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
    made: Json = world.plane.request("POST", f"{SCHEDULING}/namespaces/{world.namespace}/podgroups", body)
    return made


def group_condition(world: World, name: str) -> Json:
    found = world.plane.request("GET", f"{SCHEDULING}/namespaces/{world.namespace}/podgroups/{name}")
    conditions: list[Json] = found.get("status", {}).get("conditions", [])
    wanted = pod_group_condition(SCHEDULING.rpartition("/")[2])
    return next((each for each in conditions if each["type"] == wanted), {})


def member(world: World, gang: str, index: int, **spec: Any) -> Json:
    """Create a pod of a PodGroup, with a claim of its own from the template `one`."""
    return world.pod(f"{gang}-{index}", schedulingGroup={"podGroupName": gang}, **spec)


def labelled(world: World, gang: str, index: int, minimum: int, template: str = "one") -> None:
    """Create a pod of a gang by our label and annotation."""
    body = {
        "metadata": {
            "name": f"{gang}-{index}",
            "labels": {"dovetail.dev/gang": gang},
            "annotations": {ANNOTATED: str(minimum)},
        },
        "spec": {
            "schedulerName": world.scheduler,
            "nodeSelector": {"world": world.word},
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "main", "image": "example.com/none", "resources": {"claims": [{"name": "devices"}]}}
            ],
            "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": template}],
            "tolerations": [{"operator": "Exists"}],
        },
    }
    world.plane.request("POST", f"/api/v1/namespaces/{world.namespace}/pods", body)


def gangs_bound(world: World) -> dict[str, int]:
    """Count bound pods by gang."""
    counts: dict[str, int] = {}
    for name in world.bound():
        counts[name.rpartition("-")[0]] = counts.get(name.rpartition("-")[0], 0) + 1
    return counts


def allocated(world: World) -> int:
    return sum("allocation" in each.get("status", {}) for each in world.claims())


def is_told(world: World, pod: str) -> bool:
    return bool(world.condition(pod))


@WITH_POD_GROUPS
def test_a_gang_of_a_pod_group_waits_for_its_members_and_holds_nothing_meanwhile(world: World, start: Start) -> None:
    world.add_nodes(4, devices=1)
    world.template()
    pod_group(world, "g", 4)
    running = start()
    for index in range(3):
        member(world, "g", index)
    wait_until(lambda: is_told(world, "g-0"))

    condition = world.condition("g-0")
    assert condition["reason"] == "WaitingForMembers"
    assert "waits for members: 3 of 4 exist" in condition["message"]
    assert (allocated(world), world.bound()) == (0, {})

    member(world, "g", 3)
    wait_until(lambda: gangs_bound(world) == {"g": 4})
    wait_until(lambda: group_condition(world, "g").get("status") == "True")
    assert world.problems() == []
    assert running.is_running()


@WITH_POD_GROUPS
def test_of_two_gangs_that_need_six_of_eight_nodes_exactly_one_runs(world: World, start: Start) -> None:
    world.add_nodes(8, devices=1)
    world.template()
    pod_group(world, "a", 6)
    pod_group(world, "b", 6)
    start()
    for index in range(6):
        member(world, "a", index)
        member(world, "b", index)
    wait_until(lambda: sorted(gangs_bound(world).values()) == [6])

    (winner,) = gangs_bound(world)
    loser = {"a": "b", "b": "a"}[winner]
    wait_until(lambda: is_told(world, f"{loser}-0") and bool(group_condition(world, loser)))
    assert group_condition(world, loser)["status"] == "False"
    assert (gangs_bound(world), allocated(world)) == ({winner: 6}, 6)

    for index in range(6):
        world.delete_pod(f"{winner}-{index}")
    wait_until(lambda: gangs_bound(world) == {loser: 6}, seconds=60)
    assert world.problems() == []


@WITH_POD_GROUPS
def test_a_pod_whose_pod_group_does_not_exist_yet_waits_for_it(world: World, start: Start) -> None:
    world.add_nodes(1, devices=2)
    world.template()
    start()
    member(world, "late", 0)
    wait_until(lambda: is_told(world, "late-0"))
    assert "waits for PodGroup" in world.condition("late-0")["message"]

    pod_group(world, "late", 1)
    wait_until(lambda: gangs_bound(world) == {"late": 1})


@WITH_POD_GROUPS
def test_a_replacement_of_a_failed_member_joins_the_others_in_their_rack(world: World, start: Start) -> None:
    world.add_nodes(4, devices=1)
    for index, node in enumerate(world.nodes):
        world.label(node, RACK, f"r{index // 2}")
    world.template()
    pod_group(world, "g", 2, topology=RACK)
    start()
    for index in range(2):
        member(world, "g", index)
    wait_until(lambda: gangs_bound(world) == {"g": 2})
    home = world.bound()["g-1"]
    gone = world.bound()["g-0"]
    assert {world.nodes.index(home) // 2} == {world.nodes.index(gone) // 2}

    world.delete_pod("g-0")
    member(world, "g", 2)
    wait_until(lambda: world.bound().get("g-2") == gone, seconds=60)
    assert world.problems() == []


@WITH_POD_GROUPS
def test_a_scheduler_killed_between_claims_and_bindings_of_a_gang_is_followed_by_one_that_completes_it(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    world.add_nodes(6, devices=1)
    world.template()
    pod_group(world, "g", 6)
    dam = Dam(0, is_binding)
    with lossy(control_plane.admin, before=dam.before) as proxy:
        first = start(proxy.write_kubeconfig(tmp_path / "dam.kubeconfig"))
        for index in range(6):
            member(world, "g", index)
        wait_until(lambda: allocated(world) == 6)
        assert world.bound() == {}
        os.kill(first.pid, signal.SIGKILL)
        wait_until(lambda: not first.is_running())
        dam.open()
    start()
    wait_until(lambda: gangs_bound(world) == {"g": 6}, seconds=60)
    assert world.problems() == []


@WITH_POD_GROUPS
def test_claims_that_a_killed_scheduler_left_are_freed_where_a_member_is_gone(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    world.add_nodes(3, devices=1)
    world.template()
    pod_group(world, "g", 3)
    dam = Dam(0, is_binding)
    with lossy(control_plane.admin, before=dam.before) as proxy:
        first = start(proxy.write_kubeconfig(tmp_path / "dam.kubeconfig"))
        for index in range(3):
            member(world, "g", index)
        wait_until(lambda: allocated(world) == 3)
        os.kill(first.pid, signal.SIGKILL)
        wait_until(lambda: not first.is_running())
        world.delete_pod("g-2")
        dam.lose()
    start()
    world.pod("other")
    wait_until(lambda: list(world.bound()) == ["other"], seconds=60)
    wait_until(lambda: allocated(world) == 1, seconds=120)
    assert world.problems() == []


@WITH_POD_GROUPS
def test_an_allocation_that_is_refused_takes_the_whole_gang_back(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    """One of the claims is taken by a stranger while the others are written: nothing stays, and it is decided anew."""
    world.add_nodes(4, devices=1)
    for index in range(4):
        world.claim(f"c{index}")
    pod_group(world, "g", 4)
    struck: list[str] = []

    def strike(method: str, path: str) -> str:
        if is_allocation(method, path) and path.split("?", maxsplit=1)[0].endswith("c3/status") and not struck:
            struck.append(path)
            world.plane.request("DELETE", path.split("?", maxsplit=1)[0].removesuffix("/status"))
        return path

    with lossy(control_plane.admin, before=strike) as proxy:
        start(proxy.write_kubeconfig(tmp_path / "strike.kubeconfig"))
        for index in range(4):
            world.pod(f"g-{index}", claim=f"c{index}", schedulingGroup={"podGroupName": "g"})
        wait_until(lambda: bool(struck))
        wait_until(lambda: allocated(world) == 0)
        assert world.bound() == {}
        wait_until(lambda: world.get_claim("c3") is None)  # a controller takes its finalizer
        world.claim("c3")
        wait_until(lambda: gangs_bound(world) == {"g": 4}, seconds=60)
    assert world.problems() == []


@WITH_POD_GROUPS
def test_a_gang_whose_binding_fails_in_part_is_reported_and_completed(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    """A binding is turned to a path that is forbidden to exist, so that the server refuses it for good."""
    world.add_nodes(3, devices=1)
    world.template()
    pod_group(world, "g", 3)
    refused = [True]

    def refuse(method: str, path: str) -> str:
        is_mine = is_binding(method, path) and "/pods/g-2/" in path
        return path.replace("/api/v1/", "/apis/nowhere.example.com/v1/") if is_mine and refused[0] else path

    with lossy(control_plane.admin, before=refuse) as proxy:
        running = start(proxy.write_kubeconfig(tmp_path / "refuse.kubeconfig"))
        for index in range(3):
            member(world, "g", index)
        wait_until(lambda: gangs_bound(world) == {"g": 2}, seconds=60)
        wait_until(lambda: any(each["reason"] == "GangPartlyBound" for each in world.events("g-2")), seconds=60)
        wait_until(lambda: group_condition(world, "g").get("reason") == "SchedulerError")
        assert "partly bound: 2 of 3 required pods are bound" in group_condition(world, "g")["message"]
        assert allocated(world) == 3, "what the missing member holds is held for it"
        wait_until(lambda: series(running, "dovetail_gangs_partly_bound_total") >= 1)
        world.delete_pod("g-2")
        wait_until(lambda: group_condition(world, "g").get("reason") == "Unschedulable")
        assert "it waits for members: 2 of 3 exist" in group_condition(world, "g")["message"]
        refused[0] = False
        member(world, "g", 2)
        wait_until(lambda: gangs_bound(world) == {"g": 3}, seconds=60)
        wait_until(lambda: group_condition(world, "g").get("status") == "True")
    assert world.problems() == []


def reserved(world: World, claim: str) -> list[tuple[str, str]]:
    status = (world.get_claim(claim) or {}).get("status", {})
    return [(each["resource"], each["name"]) for each in status.get("reservedFor", [])]


@WITH_POD_GROUPS
@pytest.mark.parametrize("minimum", [3, 0], ids=["gang", "basic"])
def test_a_claim_that_a_group_shares_is_allocated_once_and_reserved_for_the_group(
    world: World, start: Start, minimum: int
) -> None:
    world.add_nodes(2, devices=1)
    world.template()
    entry = {"name": "shared", "resourceClaimTemplateName": "one"}
    pod_group(world, "g", minimum, claims=[entry])
    start()
    for index in range(3):
        member(world, "g", index, resourceClaims=[entry], containers=[container("shared")])
    wait_until(lambda: gangs_bound(world) == {"g": 3})

    (claim,) = world.claims()
    assert reserved(world, claim["metadata"]["name"]) == [("podgroups", "g")]
    assert len(set(world.bound().values())) == 1


def container(claim: str) -> Json:
    return {"name": "main", "image": "example.com/none", "resources": {"claims": [{"name": claim}]}}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane as it comes, without PodGroups; it has no namespace of a test yet."""
    with ControlPlane.start(feature_gates="defaults", kubelet=True, folder=tmp_path_factory.mktemp("plain")) as plane:
        yield plane


@contextmanager
def world_on(plane: ControlPlane, namespace: str) -> Iterator[World]:
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    made = World(plane, namespace)
    try:
        yield made
    finally:
        made.clear()


def test_by_labels_alone_on_a_server_without_pod_groups_one_of_two_gangs_runs(
    plain: ControlPlane, tmp_path: Path
) -> None:
    account = install(plain)
    with world_on(plain, "labels") as world:
        world.add_nodes(8, devices=1)
        world.template()
        names = f"--scheduler-name={world.scheduler}"
        with Dovetail.start(account, tmp_path / "log", names, leader_elect=False):
            for index in range(6):
                labelled(world, "a", index, 6)
                labelled(world, "b", index, 6)
            wait_until(lambda: sorted(gangs_bound(world).values()) == [6])
            (winner,) = gangs_bound(world)
            loser = {"a": "b", "b": "a"}[winner]
            wait_until(lambda: is_told(world, f"{loser}-0"))
            assert gangs_bound(world) == {winner: 6}
            assert allocated(world) == 6
            assert world.problems() == []


def test_members_that_disagree_about_the_minimum_are_told_so(world: World, start: Start) -> None:
    world.add_nodes(2, devices=1)
    world.template()
    start()
    labelled(world, "g", 0, 2)
    labelled(world, "g", 1, 1)
    wait_until(lambda: is_told(world, "g-0"))
    wait_until(lambda: "differs: 1 by pod g-1, 2 by pod g-0" in world.condition("g-0")["message"])
    assert world.bound() == {}


def add_channels(world: World, driver: str) -> None:
    """Publish on every node one pool with a channel and a daemon device, as compute domains do, and their classes."""
    resource = "/apis/resource.k8s.io/v1"
    for kind in ("channel", "daemon"):
        expression = f'device.driver == "{driver}" && device.attributes["{driver}"].type == "{kind}"'
        selectors = [{"cel": {"expression": expression}}]
        body: Json = {"metadata": {"name": f"{kind}.{driver}"}, "spec": {"selectors": selectors}}
        world.plane.request("POST", f"{resource}/deviceclasses", body)
        request = {"name": kind, "exactly": {"deviceClassName": f"{kind}.{driver}"}}
        template = {"metadata": {"name": kind}, "spec": {"spec": {"devices": {"requests": [request]}}}}
        world.plane.request("POST", f"{resource}/namespaces/{world.namespace}/resourceclaimtemplates", template)
    for node in world.nodes:
        devices = [{"name": f"{kind}-0", "attributes": {"type": {"string": kind}}} for kind in ("channel", "daemon")]
        spec = {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        }
        world.plane.request("POST", f"{resource}/resourceslices", {"metadata": {"name": f"{node}-cd"}, "spec": spec})


@WITH_POD_GROUPS
def test_channel_claims_of_a_gang_share_pools_with_daemons_that_kube_scheduler_places(
    control_plane: ControlPlane, world: World, start: Start
) -> None:
    """Daemons of a compute domain land on the gang's nodes while it is placed and after; no device is held twice."""
    world.add_nodes(4, devices=1)
    for index, node in enumerate(world.nodes):
        world.label(node, RACK, f"r{index // 2}")
    world.template()
    driver = f"cd-{world.word}.example.com"
    add_channels(world, driver)
    pod_group(world, "g", 2, topology=RACK)
    peer = control_plane.start_kube_scheduler()
    try:
        start()
        entries = [
            {"name": "gpu", "resourceClaimTemplateName": "one"},
            {"name": "channel", "resourceClaimTemplateName": "channel"},
        ]
        used = {"claims": [{"name": each["name"]} for each in entries]}
        main = {"name": "main", "image": "example.com/none", "resources": used}
        for index in range(2):
            member(world, "g", index, resourceClaims=entries, containers=[main])
            daemon(world, world.nodes[index])
        wait_until(lambda: gangs_bound(world).get("g") == 2, seconds=60)
        for node in world.nodes[2:]:
            daemon(world, node)
        wait_until(lambda: sum(name.startswith("daemon") for name in world.bound()) == 4, seconds=60)
    finally:
        peer.stop()
    held = [
        (each["metadata"]["name"], result["pool"], result["device"])
        for each in world.claims()
        for result in each["status"]["allocation"]["devices"]["results"]
        if result["driver"] == driver
    ]
    assert len({(pool, device) for _, pool, device in held}) == len(held) == 6
    homes = {node for name, node in world.bound().items() if name.startswith("g-")}
    assert len({world.nodes.index(node) // 2 for node in homes}) == 1
    assert {pool for _, pool, device in held if device == "channel-0"} == homes


def daemon(world: World, node: str) -> None:
    """Create a pod as the compute domain's DaemonSet would: for one node, with a daemon claim, by kube-scheduler."""
    required = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}
    world.pod(
        f"daemon-{node}",
        template="daemon",
        schedulerName="default-scheduler",
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
    )
