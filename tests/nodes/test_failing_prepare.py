"""A preparation that fails as long as the pod is there: the kubelet's words are told, a replacement goes elsewhere."""

import pytest

from tests.support.controlplane import wait_until
from tests.support.nodes_world import Ask, NodesWorld

pytestmark = [pytest.mark.nodes, pytest.mark.slow]

PATIENCE_SECONDS = 30
"""For how long a kubelet must have tried before a device counts as suspect: docs/policies.md."""


def test_a_replacement_of_a_pod_that_never_started_gets_another_device(world: NodesWorld, ask: Ask) -> None:
    node = world.real["node-0"]
    world.publish([{"name": "gpu-0"}, {"name": "gpu-1"}])
    world.template()
    node.steer("prepare.fail", "no power")
    template = world.pod_template("one", {"app": "r"})
    world.create("apps/v1", "replicasets", "r", replicas=1, selector={"matchLabels": {"app": "r"}}, template=template)
    wait_until(lambda: len(world.bound()) == 1)
    (first,) = world.bound()
    (held,) = world.devices(world.claim_name(first))

    # The kubelet goes on to try. That of this test does so every 2 to 3 s, so that half a minute has many tries.
    world.wait_for(first, lambda: failing_seconds(world) > PATIENCE_SECONDS, seconds=2 * PATIENCE_SECONDS)

    explained = ask("explain", first, "-n", world.namespace)
    assert "the kubelet does not start it: Failed to prepare dynamic resources" in explained
    assert "no power (FailedPrepareDynamicResources" in explained
    pod = world.get_pod(first) or {}
    (container,) = pod["status"]["containerStatuses"]
    assert (pod["status"]["phase"], container["state"]) == ("Pending", {"waiting": {"reason": "ContainerCreating"}})
    assert (world.devices(world.claim_name(first)), list(world.bound())) == ([held], [first])

    node.steer("prepare.fail", None)
    world.delete_pod(first)

    wait_until(lambda: any(name != first for name in world.bound()))
    (second,) = set(world.bound()) - {first}
    (device,) = world.runs(second).devices
    assert device != f"{world.driver}/{held}"
    wait_until(lambda: world.get_pod(first) is None)
    assert [each.call for each in world.calls() if not each.error and each.name != world.claim_name(second)] == [
        "unprepare"
    ]
    world.plane.request("DELETE", f"/apis/apps/v1/namespaces/{world.namespace}/replicasets/r")


def failing_seconds(world: NodesWorld) -> float:
    """Return how long the driver has failed, by its log."""
    times = [each.time for each in world.calls() if each.error]
    return (times[-1] - times[0]).total_seconds() if times else 0
