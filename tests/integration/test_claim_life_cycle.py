"""Claims on their way: allocated before, full, going away, left behind, made for others, reserved for a group."""

import pytest

from e2e.controlplane import versions
from tests.support.controlplane import wait_until
from tests.support.marks import WITH_POD_GROUPS
from tests.support.shell_world import RESOURCE, Json, Start, World

pytestmark = pytest.mark.controlplane

MERGE = "application/merge-patch+json"


def patch_pod_status(world: World, pod: str, status: Json) -> None:
    """Merge something into a pod's status."""
    path = f"/api/v1/namespaces/{world.namespace}/pods/{pod}/status"
    world.plane.request("PATCH", path, {"status": status}, content=MERGE)


def reserve(world: World, claim: str, references: list[Json]) -> None:
    """Write the consumers of an allocated claim."""
    path = f"{RESOURCE}/namespaces/{world.namespace}/resourceclaims/{claim}/status"
    world.plane.request("PATCH", path, {"status": {"reservedFor": references}}, content=MERGE)


def reserved(world: World, claim: str) -> list[str]:
    """Give the uids of those that use a claim."""
    status: Json = (world.get_claim(claim) or {}).get("status", {})
    return [each["uid"] for each in status.get("reservedFor", [])]


def strangers(count: int) -> list[Json]:
    """Consumers of an unknown kind, which no controller prunes."""
    return [
        {"apiGroup": "example.com", "resource": "things", "name": f"t{number}", "uid": f"uid-{number}"}
        for number in range(count)
    ]


def message(world: World, pod: str) -> str:
    """Give the text of a pod's PodScheduled condition."""
    return str(world.condition(pod).get("message", ""))


def test_a_claim_that_no_pod_uses_is_given_free_where_it_keeps_its_pod_away(world: World, start: Start) -> None:
    world.add_nodes(2, devices=1)
    world.claim("left")
    world.allocate("left", "gpu-0", world.nodes[0])
    world.label(world.nodes[1], "wanted", "yes")
    start()
    world.pod("p", claim="left", nodeSelector={"wanted": "yes"})

    wait_until(lambda: world.bound() == {"p": world.nodes[1]})

    assert world.devices("left") == [f"{world.nodes[1]}/gpu-0"]
    assert world.problems() == []


def test_a_claim_on_a_node_without_room_is_given_free_for_its_only_pod(world: World, start: Start) -> None:
    world.add_nodes(2, devices=1)
    world.claim("left")
    large = {"requests": {"cpu": "60"}}
    container = {"name": "main", "image": "example.com/none", "resources": large}
    world.pod("large", claims=(), containers=[container], resourceClaims=[], nodeName=world.nodes[0])
    container = {"name": "main", "image": "example.com/none", "resources": {**large, "claims": [{"name": "left"}]}}
    pod = world.pod("p", claim="left", containers=[container])
    world.allocate("left", "gpu-0", world.nodes[0], pod)

    start()
    wait_until(lambda: world.bound().get("p") == world.nodes[1])

    assert world.devices("left") == [f"{world.nodes[1]}/gpu-0"]


def test_a_pod_is_not_bound_to_an_allocation_of_a_device_with_which_another_pod_runs(
    world: World, start: Start
) -> None:
    """As two schedulers leave it that write at the same time, where the later one could not take its write back."""
    world.add_nodes(2, devices=1)
    world.claim("ours")
    world.claim("theirs")
    stranger = world.pod("stranger", claim="theirs", schedulerName="another-scheduler", nodeName=world.nodes[0])
    world.allocate("theirs", "gpu-0", world.nodes[0], stranger)
    world.allocate("ours", "gpu-0", world.nodes[0], world.pod("p", claim="ours"))

    start()
    wait_until(lambda: "p" in world.bound())

    assert world.devices("ours") == [f"{world.nodes[1]}/gpu-0"]
    assert world.problems() == []


def test_a_claim_that_another_pod_uses_stays_where_it_is(world: World, start: Start) -> None:
    world.add_nodes(2, devices=1)
    world.claim("used")
    running = world.pod("running", claim="used", schedulerName="another-scheduler", nodeName=world.nodes[0])
    world.allocate("used", "gpu-0", world.nodes[0], running)
    world.label(world.nodes[1], "wanted", "yes")
    start()
    world.pod("p", claim="used", nodeSelector={"wanted": "yes"})

    wait_until(lambda: "allocated elsewhere" in message(world, "p"))

    assert world.devices("used") == [f"{world.nodes[0]}/gpu-0"]
    assert reserved(world, "used") == [running["metadata"]["uid"]]


def test_the_257th_consumer_waits_until_another_one_goes(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    world.claim("full")
    world.allocate("full", "gpu-0", world.nodes[0])
    reserve(world, "full", strangers(256))
    start()
    world.pod("p", claim="full")
    wait_until(lambda: "256 consumers" in message(world, "p"))

    reserve(world, "full", strangers(255))
    wait_until(lambda: "p" in world.bound())

    assert len(reserved(world, "full")) == 256


def test_a_claim_that_is_being_deleted_takes_no_pod(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    world.claim("going")
    world.allocate("going", "gpu-0", world.nodes[0])
    reserve(world, "going", strangers(1))
    world.plane.request("DELETE", f"{RESOURCE}/namespaces/{world.namespace}/resourceclaims/going")
    start()
    world.pod("p", claim="going")

    wait_until(lambda: "claim going is being deleted" in message(world, "p"))

    assert world.bound() == {}


def test_two_entries_that_name_one_claim_are_one_consumer(world: World, start: Start) -> None:
    world.add_nodes(1, devices=2)
    world.claim("c")
    start()
    entries = [{"name": each, "resourceClaimName": "c"} for each in ("first", "second")]
    used = {"claims": [{"name": each["name"]} for each in entries]}
    container = {"name": "main", "image": "example.com/none", "resources": used}
    pod = world.pod("p", claim="c", resourceClaims=entries, containers=[container])

    wait_until(lambda: "p" in world.bound())

    assert (len(world.devices("c")), reserved(world, "c")) == (1, [pod["metadata"]["uid"]])


def test_an_entry_that_needs_no_claim_is_passed_over(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    start()
    world.pod("p", template="never-made")
    patch_pod_status(world, "p", {"resourceClaimStatuses": [{"name": "devices"}]})

    wait_until(lambda: "p" in world.bound())


def test_a_pod_with_one_claim_allocated_and_one_not_gets_the_other_on_the_same_node(world: World, start: Start) -> None:
    world.add_nodes(2, devices=2)
    world.claim("old")
    world.claim("new")
    world.allocate("old", "gpu-1", world.nodes[1])
    start()
    world.pod("p", claims=("new", "old"))

    wait_until(lambda: world.bound() == {"p": world.nodes[1]})

    assert (world.devices("old"), world.devices("new")) == ([f"{world.nodes[1]}/gpu-1"], [f"{world.nodes[1]}/gpu-0"])
    assert world.problems() == []


@WITH_POD_GROUPS
def test_pods_of_a_group_that_has_the_claim_add_no_entries(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    world.claim("shared")
    groups = f"/apis/{versions.pod_groups()}/namespaces/{world.namespace}/podgroups"
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": [{"name": "shared", "resourceClaimName": "shared"}]}
    group = world.plane.request("POST", groups, {"metadata": {"name": "g"}, "spec": spec})
    uid = group["metadata"]["uid"]
    world.allocate("shared", "gpu-0", world.nodes[0])
    reference = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": uid}
    reserve(world, "shared", [reference])
    start()
    for number in range(3):
        world.pod(f"p{number}", claim="shared", schedulingGroup={"podGroupName": "g"})

    wait_until(lambda: len(world.bound()) == 3)

    assert reserved(world, "shared") == [uid]
