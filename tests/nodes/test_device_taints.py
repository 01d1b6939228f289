"""
A taint with NoExecute on a device that a container has: kube-controller-manager evicts the pod, the node takes back the
device, and Dovetail places the pod's replacement on another one.
"""

from datetime import datetime, timedelta
from typing import Final

import pytest

from e2e.controlplane import versions
from tests.support.controlplane import wait_until
from tests.support.nodes_world import Ask, NodesWorld
from tests.support.shell_world import RESOURCE, Json

pytestmark = [pytest.mark.nodes, pytest.mark.slow]

KEY: Final = "example.com/broken"
GPUS: Final = ("gpu-0", "gpu-1")
TOLERATED_SECONDS: Final = 2
RULES: Final = f"/apis/{versions.taint_rules()}/devicetaintrules"


def tolerating_template(world: NodesWorld) -> None:
    """Create a claim template whose claims stand a broken device for some seconds."""
    toleration = {"key": KEY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS}
    request = {"name": "gpu", "exactly": {"deviceClassName": world.driver, "tolerations": [toleration]}}
    path = f"{RESOURCE}/namespaces/{world.namespace}/resourceclaimtemplates"
    body = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    world.plane.request("POST", path, body)


def disruption(world: NodesWorld, pod: str) -> Json:
    conditions: list[Json] = (world.get_pod(pod) or {}).get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "DisruptionTarget"), {})


@pytest.mark.kubernetes(gates=("DRADeviceTaints",))
def test_a_pod_is_replaced_on_another_device_when_its_own_has_been_broken_for_longer_than_it_tolerates(
    world: NodesWorld, ask: Ask
) -> None:
    node = world.real["node-0"]
    world.publish([{"name": each} for each in GPUS])
    tolerating_template(world)
    template = world.pod_template("one", {"app": "r"})
    selector = {"matchLabels": {"app": "r"}}
    world.create("apps/v1", "replicasets", "r", replicas=1, selector=selector, template=template)
    wait_until(lambda: len(world.bound()) == 1)
    (first,) = world.bound()
    (broken,) = world.devices(world.claim_name(first))
    world.runs(first)
    # Its device stays with the evicted pod, so that the replacement, which tolerates the taint, cannot have it again.
    node.steer("unprepare.fail", "busy")

    tainted = {"taints": [{"key": KEY, "effect": "NoExecute"}]}
    node.publish([{"name": each, **(tainted if each in broken else {})} for each in GPUS])

    world.wait_for(first, lambda: disruption(world, first).get("reason") == "DeletionByDeviceTaintManager")
    (since,) = (taint["timeAdded"] for device in node.published() for taint in device.get("taints", ()))
    evicted = datetime.fromisoformat(disruption(world, first)["lastTransitionTime"])
    assert evicted >= datetime.fromisoformat(since) + timedelta(seconds=TOLERATED_SECONDS)
    wait_until(lambda: "DeviceTaintManagerEviction" in {each["reason"] for each in world.events(first)})
    wait_until(lambda: len(world.bound()) == 2)
    (second,) = set(world.bound()) - {first}
    (device,) = world.runs(second).devices
    assert device != f"{world.driver}/{broken}"
    assert world.devices(world.claim_name(first)) == [broken]
    wait_until(lambda: "busy" in {each.error for each in world.calls()})  # the replacement can be faster than its grace

    node.steer("unprepare.fail", None)

    wait_until(lambda: world.get_pod(first) is None)
    assert f"tainted taint {KEY}:NoExecute of the driver" in ask("devices", "--problems")
    of_first = [(each.call, each.error) for each in world.calls() if each.name == world.calls()[0].name]
    assert [of_first[0], of_first[-1]] == [("prepare", ""), ("unprepare", "")]
    assert set(of_first[1:-1]) == {("unprepare", "busy")}


@pytest.mark.kubernetes(gates=("DRADeviceTaintRules",))
def test_a_taint_rule_ends_a_pod_and_keeps_its_device_from_others_until_the_rule_goes(
    world: NodesWorld, ask: Ask
) -> None:
    world.publish([{"name": "gpu-0"}])
    for name in ("first", "next"):
        world.claim_of(name, {})
    world.pod("first", claim="first")
    world.runs("first")

    selector = {"driver": world.driver, "pool": "node-0", "device": "gpu-0"}
    spec = {"deviceSelector": selector, "taint": {"key": KEY, "effect": "NoExecute"}}
    world.plane.request("POST", RULES, {"metadata": {"name": world.word}, "spec": spec})

    wait_until(lambda: world.get_pod("first") is None and world.devices("first") == [])
    assert [each.call for each in world.calls()] == ["prepare", "unprepare"]
    world.pod("next", claim="next")
    world.wait_for("next", lambda: world.condition("next").get("status") == "False")
    assert f"1 tainted with {KEY}:NoExecute" in world.condition("next")["message"]
    assert f"taint {KEY}:NoExecute of DeviceTaintRule {world.word}" in ask("devices", "--problems")

    world.plane.request("DELETE", f"{RULES}/{world.word}")

    assert world.runs("next").devices == (f"{world.driver}/node-0/gpu-0",)
