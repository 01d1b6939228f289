"""What Karpenter does about each reason of a waiting pod: docs/autoscalers.md has the table."""

from pathlib import Path

import pytest
import yaml

from e2e.dovetail import Dovetail
from scheduler.status.conditions import ConditionReason
from tests.support.controlplane import wait_until
from tests.support.karpenter_world import CLASS, CPUS, GPUS_4, GPUS_8, KarpenterWorld
from tests.support.priority_classes import make_priority_class
from tests.support.shell_world import RESOURCE

pytestmark = pytest.mark.neighbours


def test_no_reason_but_unschedulable_makes_a_node(world: KarpenterWorld) -> None:
    """Every reason that Dovetail writes, each on a pod that a new node would take."""
    world.pool(GPUS_8)
    for reason in ConditionReason:
        name = reason.value.lower()
        world.train(name, 8, schedulerName="nobody")
        if reason is not ConditionReason.UNSCHEDULABLE:
            world.say(name, reason.value)
    world.train("nominated", 8, schedulerName="nobody")
    world.say("nominated", "Unschedulable", nominated="some-node")
    world.let_karpenter_look()
    assert world.made() == 0
    world.say("unschedulable", "Unschedulable")
    wait_until(lambda: world.made() == 1)
    world.let_karpenter_look()
    assert world.made() == 1


def test_a_pod_without_room_gets_a_node(world: KarpenterWorld) -> None:
    world.pool(GPUS_4)
    world.train("p", 2)
    world.run("p")
    assert world.made() == 1


def test_pods_that_no_node_helps_get_none(world: KarpenterWorld) -> None:
    """Its own simulation finds no node for what `Unschedulable` also says: a class or a volume that is missing."""
    world.pool(GPUS_8, GPUS_4)
    world.train("large", 16)
    request = {"name": "gpu", "exactly": {"deviceClassName": "nothing.example.com", "count": 1}}
    template = {"metadata": {"name": "no-class"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    world.plane.request("POST", f"{RESOURCE}/namespaces/{world.namespace}/resourceclaimtemplates", template)
    world.train("class", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "no-class"}])
    world.train("volume", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}])
    world.wait_for("Unschedulable", "large", "class", "volume")
    world.let_karpenter_look()
    assert world.made() == 0


def test_pods_that_wait_for_members_or_claims_get_none(world: KarpenterWorld) -> None:
    world.pool(GPUS_8)
    for number in range(3):
        world.train(f"g-{number}", 8, gang="g", size=4)
    world.train("claim", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "none"}])
    world.wait_for("WaitingForMembers", "g-0", "g-1", "g-2")
    world.wait_for("WaitingForClaims", "claim")
    world.let_karpenter_look()
    assert world.made() == 0
    world.train("g-3", 8, gang="g", size=4)
    world.run("g-0", "g-1", "g-2", "g-3")
    assert world.made() == 4


def test_a_pod_beyond_its_quota_gets_no_node_though_there_is_no_room(world: KarpenterWorld) -> None:
    world.pool(GPUS_8)
    selector = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    limits = [{"deviceClass": CLASS, "limit": 8}]
    quotas = "/apis/dovetail.dev/v1alpha1/devicequotas"
    body = {
        "apiVersion": "dovetail.dev/v1alpha1",
        "kind": "DeviceQuota",
        "metadata": {"name": world.word},
        "spec": {"namespaceSelector": selector, "resources": limits},
    }
    world.plane.request("POST", quotas, body)
    try:
        world.train("first", 8)
        world.run("first")
        world.train("second", 8)
        world.wait_for("QuotaExceeded", "second")
        world.let_karpenter_look()
        assert world.made() == 1
    finally:
        world.plane.request("DELETE", f"{quotas}/{world.word}")
    world.run("second")
    assert world.made() == 2


def test_a_pod_that_preempts_gets_no_node(world: KarpenterWorld) -> None:
    high = make_priority_class(world.plane, f"high-{world.word}")
    world.pool(GPUS_8)
    stopping = {"dovetail.dev/stop-seconds": "5"}
    world.train("low", 8, annotations=stopping, terminationGracePeriodSeconds=10)
    world.run("low")
    world.train("high", 8, schedulerName="dovetail-preempts", **high)
    world.wait_for("WaitingForVictims", "high")
    world.let_karpenter_look()
    assert world.made() == 1
    world.run("high")
    wait_until(lambda: world.get_pod("low") is None)


def test_with_a_delay_a_node_comes_before_a_pod_is_evicted(world: KarpenterWorld) -> None:
    high = make_priority_class(world.plane, f"high-{world.word}")
    world.pool(GPUS_8)
    world.train("low", 8, schedulerName="dovetail-delayed")
    world.run("low")
    world.train("high", 8, schedulerName="dovetail-delayed", **high)
    world.run("low", "high")
    assert world.made() == 2


def test_nothing_is_bought_for_a_gang_with_a_member_that_cannot_start(world: KarpenterWorld) -> None:
    world.pool(GPUS_8)
    names = [*(f"g-{number}" for number in range(3)), "g-bad"]
    for name in names[:3]:
        world.train(name, 8, gang="g", size=4)
    never = [{"matchExpressions": [{"key": "world", "operator": "NotIn", "values": [world.word]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": never}}}
    world.train("g-bad", 8, gang="g", size=4, affinity=affinity)
    world.wait_for("MemberCannotStart", *names)
    world.let_karpenter_look()
    assert world.made() == 0
    world.delete_pod("g-bad")
    wait_until(lambda: world.get_pod("g-bad") is None)
    world.train("g-good", 8, gang="g", size=4)
    world.run(*names[:3], "g-good")
    assert world.made() == 4


def test_nothing_is_bought_where_no_shape_helps(world: KarpenterWorld, account: Path, tmp_path: Path) -> None:
    """With `shapesComplete`: three of four would fit on new nodes, and the fourth on no shape."""
    world.pool(GPUS_8)
    world.train("shows", 1)
    world.run("shows")
    document = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "autoscaling": {"shapesComplete": True},
        "profiles": [{"schedulerName": world.word}],
    }
    config = tmp_path / "dovetail.yaml"
    config.write_text(yaml.safe_dump(document))
    with Dovetail.start(account, tmp_path / "dovetail.log", f"--config={config}", leader_elect=False):
        for number in range(3):
            world.train(f"g-{number}", 8, gang="g", size=4, schedulerName=world.word)
        world.train("g-3", 9, gang="g", size=4, schedulerName=world.word)
        world.train("alone", 9, schedulerName=world.word)
        world.wait_for("NoShapeHelps", "alone")
        world.wait_for("MemberCannotStart", "g-0", "g-1", "g-2")
        world.let_karpenter_look()
        assert world.made() == 1


def test_a_gang_that_fits_in_no_domain_says_so_and_gets_no_node(world: KarpenterWorld) -> None:
    """Its pods fit one by one on two nodes of two zones, so Karpenter's simulation needs no node for them."""
    pools = [world.pool(GPUS_8, name=zone, zones=[zone]) for zone in ("zone-a", "zone-b")]
    for zone in ("zone-a", "zone-b"):
        world.train(f"half-{zone}", 4, nodeSelector={"world": world.word, "topology.kubernetes.io/zone": zone})
    world.run("half-zone-a", "half-zone-b")
    names = world.gang("g", 2, 4, annotations={"dovetail.dev/gang-topology": "label:topology.kubernetes.io/zone"})
    world.wait_for("Unschedulable", *names)
    world.let_karpenter_look()
    assert [world.made(each) for each in pools] == [1, 1]
    message = world.condition(names[0])["message"]
    assert "they fit, and not in one label topology.kubernetes.io/zone" in message
    world.delete_pod("half-zone-a")
    world.run(*names)


def test_a_pod_whose_claim_is_on_a_full_node_gets_one_node_in_vain(world: KarpenterWorld) -> None:
    """Karpenter 1.15 reads labels of an allocation's node selector, and not the name of its node."""
    world.pool(GPUS_8)
    world.claim("shared", 1)
    named = [{"name": "gpu", "resourceClaimName": "shared"}]
    world.train("first", resourceClaims=named)
    world.run("first")
    large = {"requests": {"cpu": "191"}, "claims": [{"name": "gpu"}]}
    container = {"name": "main", "image": "example.com/none", "resources": large}
    world.train("second", resourceClaims=named, containers=[container])
    wait_until(lambda: world.made() == 2 and len(world.ready_nodes()) == 2)
    world.let_karpenter_look()
    assert world.made() == 2
    assert world.reasons("second") == {"Unschedulable"}
    world.delete_pod("first")
    world.run("second")


def test_a_cpu_pod_gets_the_cheap_node(world: KarpenterWorld) -> None:
    world.pool(GPUS_8, CPUS)
    container = {"name": "main", "image": "example.com/none", "resources": {"requests": {"cpu": "2"}}}
    world.train("p", containers=[container], resourceClaims=[])
    world.run("p")
    (claim,) = world.karpenter.node_claims(world.word)
    assert claim["metadata"]["labels"]["node.kubernetes.io/instance-type"] == CPUS.name
