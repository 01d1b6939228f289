"""Devices that have to be got ready first: pods are bound when they are, hear what they wait for, and get others."""

import datetime as dt
import time
from pathlib import Path

import pytest

from e2e.controlplane.kubelet import BINDING_FAILS, BINDING_SECONDS
from tests.support.controlplane import wait_until
from tests.support.shell_world import Json, Start, World

pytestmark = [pytest.mark.controlplane, pytest.mark.kubernetes(gates=("DRADeviceBindingConditions",))]

CONDITIONED = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
NEVER = {BINDING_SECONDS: "3600"}
PENDING = "BindingConditionsPending"

SETTINGS = """
apiVersion: config.dovetail.dev/v1alpha1
kind: DovetailConfiguration
commit:
  bindingTimeoutSeconds: {timeout}
  avoidFailedDeviceSeconds: {avoid}
"""


@pytest.fixture
def conditioned(world: World) -> World:
    """A world whose devices have to be got ready."""
    world.device = CONDITIONED
    return world


def configured(folder: Path, *, timeout: float = 600, avoid: float = 300) -> str:
    """Write a configuration and give the argument that names it."""
    path = folder / "binding.yaml"
    path.write_text(SETTINGS.format(timeout=timeout, avoid=avoid))
    return f"--config={path}"


def reason(world: World, pod: str) -> str:
    """Give the reason of a pod's PodScheduled condition."""
    return str(world.condition(pod).get("reason", ""))


def message(world: World, pod: str) -> str:
    """Give the message of a pod's PodScheduled condition."""
    return str(world.condition(pod).get("message", ""))


def nominated(world: World, pod: str) -> str:
    """Give the node that a pod is nominated for."""
    return str((world.get_pod(pod) or {})["status"].get("nominatedNodeName", ""))


def claim_status(world: World, name: str) -> Json:
    """Give a claim's status."""
    return dict((world.get_claim(name) or {}).get("status", {}))


def patch_claim(world: World, name: str, body: Json, subresource: str = "") -> None:
    """Merge something into a claim."""
    path = f"/apis/resource.k8s.io/v1/namespaces/{world.namespace}/resourceclaims/{name}{subresource}"
    world.plane.request("PATCH", path, body, content="application/merge-patch+json")


def test_a_pod_is_bound_only_when_its_device_is_ready(conditioned: World, start: Start) -> None:
    conditioned.add_nodes(1, devices=1)
    conditioned.claim("c", annotations={BINDING_SECONDS: "2"})
    start()
    conditioned.pod("p", claim="c")

    wait_until(lambda: reason(conditioned, "p") == PENDING)
    assert conditioned.bound() == {}
    wait_until(lambda: "p" in conditioned.bound())

    result = claim_status(conditioned, "c")["allocation"]["devices"]["results"][0]
    assert (result["bindingConditions"], result["bindingFailureConditions"]) == (["attached"], ["broken"])
    ready = claim_status(conditioned, "c")["devices"][0]["conditions"][0]
    assert (ready["type"], ready["status"]) == ("attached", "True")
    assert {each["reason"] for each in conditioned.events("p")} >= {PENDING}
    assert conditioned.problems() == []


def test_a_waiting_pod_shows_its_node_and_what_it_waits_for_until_when(conditioned: World, start: Start) -> None:
    conditioned.add_nodes(1, devices=1)
    conditioned.claim("c", annotations=NEVER)
    start()
    conditioned.pod("p", claim="c")
    wait_until(lambda: reason(conditioned, "p") == PENDING)

    node = conditioned.nodes[0]
    text = conditioned.condition("p")["message"]
    since = claim_status(conditioned, "c")["allocation"]["allocationTimestamp"]
    until = (dt.datetime.fromisoformat(since) + dt.timedelta(seconds=600)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert nominated(conditioned, "p") == node
    assert f"attached of device {conditioned.driver}/{node}/gpu-0 in claim c" in text
    assert text.endswith(f"since {since} and until {until}")


def test_many_waiting_pods_hold_up_no_other_pod(conditioned: World, start: Start) -> None:
    conditioned.add_nodes(2, devices=50)
    for number in range(80):
        conditioned.claim(f"c{number}", annotations=NEVER)
        conditioned.pod(f"waiting{number}", claim=f"c{number}")
    start()
    wait_until(lambda: sum("allocation" in each.get("status", {}) for each in conditioned.claims()) == 80, seconds=60)
    for name in ("first", "second"):  # by the second one the plan that waits is the one before the last
        conditioned.claim(name, annotations={BINDING_SECONDS: "0"})
        conditioned.pod(name, claim=name)
        wait_until(lambda: name in conditioned.bound())  # noqa: B023 - called before the next turn

    assert sorted(conditioned.bound()) == ["first", "second"]


def test_a_device_that_fails_is_given_back_and_another_one_taken(conditioned: World, start: Start) -> None:
    conditioned.add_nodes(1, devices=2)
    conditioned.claim("c", annotations={BINDING_SECONDS: "2", BINDING_FAILS: "true"})
    start()
    conditioned.pod("p", claim="c")
    wait_until(lambda: bool(conditioned.devices("c")))
    first = conditioned.devices("c")
    wait_until(lambda: conditioned.devices("c") not in ([], first))
    patch_claim(conditioned, "c", {"metadata": {"annotations": {BINDING_FAILS: "false"}}})

    wait_until(lambda: "p" in conditioned.bound())

    assert conditioned.devices("c") != first
    assert conditioned.problems() == []


def test_a_pod_whose_only_device_failed_hears_so_and_gets_it_later(
    conditioned: World, start: Start, account: Path, tmp_path: Path
) -> None:
    conditioned.add_nodes(1, devices=1)
    conditioned.claim("c", annotations={BINDING_SECONDS: "0", BINDING_FAILS: "true"})
    start(account, configured(tmp_path, avoid=5))
    conditioned.pod("p", claim="c")

    said = f"device binding failed: broken of device {conditioned.driver}/{conditioned.nodes[0]}/gpu-0 in claim c"
    wait_until(lambda: said in message(conditioned, "p"))
    wait_until(lambda: f"Before that: {said}" in message(conditioned, "p"))
    patch_claim(conditioned, "c", {"metadata": {"annotations": {BINDING_FAILS: "false"}}})
    wait_until(lambda: "p" in conditioned.bound())

    assert conditioned.problems() == []


def test_a_device_that_is_late_is_given_back_and_tried_again(
    conditioned: World, start: Start, account: Path, tmp_path: Path
) -> None:
    conditioned.add_nodes(1, devices=1)
    conditioned.claim("c", annotations=NEVER)
    start(account, configured(tmp_path, timeout=3))
    conditioned.pod("p", claim="c")
    wait_until(lambda: bool(conditioned.devices("c")))
    first = claim_status(conditioned, "c")["allocation"]

    wait_until(lambda: reason(conditioned, "p") in {"BindingFailed", "DevicesAvoided"})
    assert "binding timeout: attached of device" in message(conditioned, "p")
    wait_until(lambda: claim_status(conditioned, "c").get("allocation", first) != first)
    wait_until(lambda: reason(conditioned, "p") == PENDING)
    assert "Before that: binding timeout: attached of device" in message(conditioned, "p")
    assert conditioned.bound() == {}


def test_pods_that_share_a_claim_give_it_back_together(
    conditioned: World, start: Start, account: Path, tmp_path: Path
) -> None:
    conditioned.add_nodes(1, devices=1)
    conditioned.claim("c", annotations=NEVER)
    start(account, configured(tmp_path, timeout=6))
    conditioned.pod("first", claim="c")
    wait_until(lambda: reason(conditioned, "first") == PENDING)
    conditioned.pod("second", claim="c")
    wait_until(lambda: reason(conditioned, "second") == PENDING)

    first, second = (conditioned.condition(name)["message"] for name in ("first", "second"))
    assert first == second, "the second pod does not start the clock again"
    wait_until(lambda: conditioned.devices("c") == [])
    assert conditioned.bound() == {}


def test_a_scheduler_that_starts_anew_goes_on_waiting(conditioned: World, start: Start) -> None:
    conditioned.add_nodes(2, devices=2)
    conditioned.claim("c", annotations={BINDING_SECONDS: "8"})
    first = start()
    conditioned.pod("p", claim="c")
    wait_until(lambda: reason(conditioned, "p") == PENDING)
    before = claim_status(conditioned, "c")["allocation"]

    started = time.monotonic()
    first.stop()
    assert time.monotonic() - started < 5, "a wait holds up no stop"
    start()
    wait_until(lambda: "p" in conditioned.bound())

    assert claim_status(conditioned, "c")["allocation"] == before
    assert conditioned.problems() == []


def test_a_pod_that_is_deleted_while_it_waits_leaves_nothing_behind(conditioned: World, start: Start) -> None:
    conditioned.add_nodes(1, devices=1)
    conditioned.claim("c", annotations=NEVER)
    start()
    conditioned.pod("p", claim="c")
    wait_until(lambda: reason(conditioned, "p") == PENDING)

    conditioned.delete_pod("p")
    wait_until(lambda: conditioned.devices("c") == [])

    conditioned.pod("next", claim="c")
    wait_until(lambda: reason(conditioned, "next") == PENDING)


def test_a_pod_that_is_deleted_while_a_scheduler_that_started_anew_waits_leaves_nothing_behind(
    conditioned: World, start: Start
) -> None:
    conditioned.add_nodes(1, devices=1)
    conditioned.claim("c", annotations=NEVER)
    first = start()
    conditioned.pod("p", claim="c")
    wait_until(lambda: reason(conditioned, "p") == PENDING)
    first.stop()
    second = start()
    wait_until(lambda: '"unit_waiting"' in second.log.read_text())

    conditioned.delete_pod("p")
    wait_until(lambda: conditioned.devices("c") == [])
