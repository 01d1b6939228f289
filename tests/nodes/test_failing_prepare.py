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
    # Of all controllers this one makes the next pod when the last is gone: by then both devices are free.
    template, selector = world.pod_template("one", {"app": "s"}), {"matchLabels": {"app": "s"}}
    world.create("apps/v1", "statefulsets", "s", serviceName="s", selector=selector, replicas=1, template=template)
    wait_until(lambda: "s-0" in world.bound())
    first, claim = world.get_pod("s-0") or {}, world.claim_name("s-0")
    (held,) = world.devices(claim)

    # The kubelet goes on to try. That of this test does so every 2 to 3 s, so that half a minute has many tries.
    world.wait_for("s-0", lambda: failing_seconds(world) > PATIENCE_SECONDS, seconds=2 * PATIENCE_SECONDS)

    explained = ask("explain", "s-0", "-n", world.namespace)
    assert "the kubelet does not start it: Failed to prepare dynamic resources" in explained
    assert "no power (FailedPrepareDynamicResources" in explained
    pod = world.get_pod("s-0") or {}
    (container,) = pod["status"]["containerStatuses"]
    assert (pod["status"]["phase"], container["state"]) == ("Pending", {"waiting": {"reason": "ContainerCreating"}})
    assert (pod["metadata"]["uid"], world.devices(claim)) == (first["metadata"]["uid"], [held])

    node.steer("prepare.fail", None)
    world.delete_pod("s-0")

    wait_until(lambda: world.claim_name("s-0") not in {"", claim} and bool(world.running("s-0")), seconds=60)
    (device,) = world.runs("s-0").devices
    assert device != f"{world.driver}/{held}"
    assert [(each.call, each.name == claim) for each in world.calls() if not each.error] == [
        ("unprepare", True),
        ("prepare", False),
    ]


def failing_seconds(world: NodesWorld) -> float:
    """Return how long the driver has failed, by its log."""
    times = [each.time for each in world.calls() if each.error]
    return (times[-1] - times[0]).total_seconds() if times else 0
