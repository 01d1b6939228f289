"""Pods that controllers make again get devices once those of their predecessors are given back."""

import pytest

from tests.support.controlplane import wait_until
from tests.support.nodes_world import NodesWorld

pytestmark = pytest.mark.nodes


def test_a_pod_of_a_stateful_set_is_replaced_on_its_device(world: NodesWorld) -> None:
    world.publish([{"name": "gpu-0"}])
    world.template()
    labels = {"app": "s"}
    template = world.pod_template("one", labels)
    world.create(
        "apps/v1", "statefulsets", "s", serviceName="s", selector={"matchLabels": labels}, replicas=1, template=template
    )
    wait_until(lambda: bool(world.running("s-0")), seconds=60)
    first, claim = world.runs("s-0"), world.claim_name("s-0")

    world.delete_pod("s-0")

    wait_until(lambda: any(each.uid != first.uid for each in world.running("s-0")), seconds=60)
    assert world.claim_name("s-0") != claim
    assert world.runs("s-0").devices == first.devices
    assert [each.call for each in world.calls()] == ["prepare", "unprepare", "prepare"]


def test_a_job_tries_again_with_the_device_of_the_pod_that_failed(world: NodesWorld) -> None:
    world.publish([{"name": "gpu-0"}])
    world.template()
    failing = world.pod_template("one", {"app": "j"}, restartPolicy="Never", arguments=["-after=0.1", "-exit=3"])
    world.create("batch/v1", "jobs", "j", backoffLimit=1, template=failing)

    # The job's controller waits ten seconds before it tries again. A kubelet tells the phase last, after unprepare.
    wait_until(lambda: [each["status"]["phase"] for each in world.pods()] == ["Failed"] * 2, seconds=60)

    assert [each.call for each in world.calls()] == ["prepare", "unprepare"] * 2
    codes = [
        each["state"]["terminated"]["exitCode"] for pod in world.pods() for each in pod["status"]["containerStatuses"]
    ]
    assert codes == [3, 3]
    assert {device for each in world.containers() for device in each.devices} == {f"{world.driver}/node-0/gpu-0"}
    claims = [call.name for call in world.calls() if call.call == "prepare"]
    assert len(set(claims)) == 2
