"""Which pods are equal: by everything that decides whether one can be placed, and nothing else."""

import msgspec
import pytest

from scheduler.queue import EquivalenceKeys
from scheduler.queue.equivalence import PodTerms
from solver.domain import Claim, ClaimId, GangId, HostPort, Pod, PodAffinityTerm, PodClaim
from tests.support.builders import allocation, claim, consumer, pod, request, toleration

LABELS = {"job-name": "other"}
COMPARED = {
    "scheduler_name",
    "priority",
    "preemption_policy",
    "requests",
    "containers",
    "level_slack",
    "node_selector",
    "required_affinity",
    "required_features",
    "tolerations",
    "host_ports",
    "affinity",
    "anti_affinity",
    "spread",
    "claims",
}
SETS_APART = {"gang", "pod_group", "volumes", "nominated_node_name", "invalid"}
DECIDES_NOTHING = {
    *("id", "uid", "labels", "creation", "generation", "controller", "images", "is_preemptible", "gang_note"),
    *("preferred_node_affinity", "preferred_affinity", "preferred_anti_affinity"),
    *("node_name", "scheduling_gates", "started", "is_deleting", "is_terminal", "has_failed", "is_preempted"),
    *("unhealthy", "unstarted_seconds", "pod_group_uid", "annotations", "place", "repair_note"),
}


class World:
    """Claims as they are now, pods with a history, and pods that are overdue."""

    def __init__(self) -> None:
        self.claims: dict[ClaimId, Claim] = {}
        self.apart = set[str]()
        self.overdue = set[str]()
        self.keys = EquivalenceKeys(
            self.claims.get, lambda pod: pod.uid in self.apart, lambda pod: pod.uid in self.overdue
        )

    def pod(self, name: str, **fields: object) -> Pod:
        """Give a pod with a claim that was made from a template for it."""
        made = claim(name, owner_pod_uid=f"uid-default-{name}")
        self.claims[made.id] = made
        return msgspec.structs.replace(pod(name, name), **fields)

    def key(self, pod: Pod) -> object:
        return self.keys.of(PodTerms(pod))

    def change(self, name: str, **fields: object) -> None:
        key = ClaimId("default", name)
        self.claims[key] = msgspec.structs.replace(self.claims[key], **fields)


@pytest.fixture
def world() -> World:
    return World()


def test_pods_of_one_template_are_equal(world: World) -> None:
    assert world.key(world.pod("a")) == world.key(world.pod("b")) is not None


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"creation": "2026-01-01T00:00:00Z"}, id="age"),
        pytest.param({"generation": 7}, id="generation"),
        pytest.param({"labels": tuple(LABELS.items())}, id="labels"),
        pytest.param({"images": ("example.com/other",)}, id="images"),
    ],
)
def test_what_decides_nothing_makes_no_difference(world: World, fields: dict[str, object]) -> None:
    assert world.key(world.pod("a")) == world.key(world.pod("b", **fields))


def test_pods_of_several_namespaces_are_equal(world: World) -> None:
    assert world.key(pod("a")) == world.key(pod("a", namespace="other"))


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"priority": 1}, id="priority"),
        pytest.param({"preemption_policy": "Never"}, id="preemption policy"),
        pytest.param({"scheduler_name": "other"}, id="profile"),
        pytest.param({"requests": (("cpu", 1000),)}, id="requests"),
        pytest.param({"node_selector": (("a", "b"),)}, id="node selector"),
        pytest.param({"required_features": ("One",)}, id="required features"),
        pytest.param({"tolerations": (toleration("k"),)}, id="tolerations"),
        pytest.param({"host_ports": (HostPort(port=80),)}, id="host ports"),
        pytest.param({"level_slack": (("cpu", 1),)}, id="pod-level requests"),
    ],
)
def test_what_decides_where_it_fits_makes_a_difference(world: World, fields: dict[str, object]) -> None:
    assert world.key(world.pod("a")) != world.key(world.pod("b", **fields)) is not None


def test_the_quota_counts_for_pods_that_ask_for_devices() -> None:
    keys = EquivalenceKeys(lambda _: None, lambda _: False, lambda _: False, lambda namespace: f"quota of {namespace}")
    extended = {"requests": (("example.com/gpu", 1),)}

    def is_equal(**fields: object) -> bool:
        both = (msgspec.structs.replace(pod("a", namespace=name), **fields) for name in ("one", "other"))
        first, second = (keys.of(PodTerms(each)) for each in both)
        return first == second

    assert is_equal()
    assert not is_equal(**extended)


def test_what_its_claim_asks_for_makes_a_difference(world: World) -> None:
    one, other = world.pod("a"), world.pod("b")
    world.change("b", requests=(request(count=2),))

    assert world.key(one) != world.key(other) is not None


def test_labels_and_namespace_count_for_a_pod_that_has_inter_pod_terms(world: World) -> None:
    company = {"anti_affinity": (PodAffinityTerm(topology_key="zone"),)}
    one, other = world.pod("a", **company), world.pod("b", **company)
    labelled, elsewhere = (
        world.pod("c", labels=tuple(LABELS.items()), **company),
        msgspec.structs.replace(pod("d", namespace="other"), **company),
    )

    assert world.key(one) == world.key(other)
    assert world.key(one) != world.key(labelled)
    assert world.key(msgspec.structs.replace(pod("d"), **company)) != world.key(elsewhere)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"allocation": allocation()}, id="allocated"),
        pytest.param({"reserved_for": (consumer("x"),)}, id="reserved"),
        pytest.param({"is_deleting": True}, id="deleting"),
        pytest.param({"invalid": "unreadable"}, id="invalid"),
        pytest.param({"owner_pod_uid": ""}, id="named by pods, perhaps several"),
        pytest.param({"owner_pod_uid": "another"}, id="another pod's"),
    ],
)
def test_a_pod_whose_claim_is_in_some_state_is_like_no_other(world: World, fields: dict[str, object]) -> None:
    each = world.pod("a")
    world.change("a", **fields)

    assert world.key(each) is None


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"gang": GangId("default", "g", "dovetail.dev")}, id="gang"),
        pytest.param({"pod_group": "g"}, id="pod group"),
        pytest.param({"nominated_node_name": "n1"}, id="nominated"),
        pytest.param({"invalid": "unreadable"}, id="invalid"),
        pytest.param({"claims": (PodClaim(entry="gpu", template="t"),)}, id="claim not made yet"),
    ],
)
def test_a_pod_with_something_of_its_own_is_like_no_other(world: World, fields: dict[str, object]) -> None:
    assert world.key(world.pod("a", **fields)) is None


def test_a_skipped_entry_needs_no_claim(world: World) -> None:
    skipped = {"claims": (PodClaim(entry="gpu", is_skipped=True),)}

    assert world.key(world.pod("a", **skipped)) == world.key(world.pod("b", **skipped)) is not None


def test_a_pod_with_a_history_is_like_no_other_and_overdue_ones_are_among_themselves(world: World) -> None:
    pods = [world.pod(name) for name in "abcd"]
    world.apart.add(pods[0].uid)
    world.overdue.update((pods[1].uid, pods[2].uid))
    keys = [world.key(each) for each in pods]

    assert keys[0] is None
    assert keys[1] == keys[2] != keys[3]


def test_it_is_known_of_every_field_of_a_pod_whether_it_tells_pods_apart() -> None:
    assert {each.name for each in msgspec.structs.fields(Pod)} == COMPARED | SETS_APART | DECIDES_NOTHING
