"""The page about repairs, done step by step: a fragmented cluster, and a card that fails at night."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from e2e.controlplane.plane import ControlPlane
from tests.integration import test_guides
from tests.integration.test_guides import CLAIMS, NAMESPACE, NODES, Begin, Follow, placed
from tests.support.controlplane import wait_until
from tests.support.repair_world import PLANS, install_component

pytestmark = pytest.mark.controlplane

shipped, account, plane, follow, begin = (
    test_guides.shipped,
    test_guides.account,
    test_guides.plane,
    test_guides.follow,
    test_guides.begin,
)
"""The fixtures of pages."""


def pods_of(plane: ControlPlane) -> list[dict[str, Any]]:
    """The pods of the namespace."""
    items: list[dict[str, Any]] = plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    return items


@pytest.mark.kubernetes(since="1.36")
@pytest.mark.parametrize("plane", [2], indirect=True)
def test_repair_step_by_step(plane: ControlPlane, follow: Follow, begin: Begin) -> None:
    install_component(plane)
    guide = follow("repair.md#step-by-step")
    by_day = begin(f"--config={guide.folder / 'config.yaml'}")
    guide.run("kubectl -n ml apply -f small.yaml")
    wait_until(lambda: sorted(node for _, node in placed(plane, "small")) == list(NODES))
    guide.run("kubectl -n ml apply -f large.yaml")
    wait_until(lambda: bool(plane.request("GET", PLANS)["items"]))
    assert "repair-waiting-" in guide.run("dovetail repair list").replace("\n", "")
    assert placed(plane, "large") == []
    shown = guide.run("dovetail repair show")
    assert "1 move (proven: it cannot be done with fewer)." in shown
    guide.run("dovetail map > fleet.html")
    assert (guide.folder / "fleet.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    guide.run("dovetail repair approve")
    guide.run("kubectl wait repairplans")
    assert len(placed(plane, "large")) == 1
    assert len(placed(plane, "small")) == 3

    by_day.stop()
    night = yaml.safe_load((guide.folder / "config.yaml").read_text())
    night["repair"]["autoApprove"] = True
    (guide.folder / "night.yaml").write_text(yaml.safe_dump(night))
    begin(f"--config={guide.folder / 'night.yaml'}")
    (free,) = {node for _, node in placed(plane, "small")} - _twice(node for _, node in placed(plane, "small"))
    before = {each["metadata"]["uid"] for each in pods_of(plane)}
    _taint_held_device(plane, free)
    wait_until(lambda: len({each["metadata"]["uid"] for each in pods_of(plane)} - before) == 1)
    wait_until(lambda: len(placed(plane, "small")) == 3)
    wait_until(lambda: "Moved by RepairPlan repair-devices-" in plane.kubectl("-n", NAMESPACE, "get", "events"))
    assert "Moved by RepairPlan repair-devices-" in guide.run("kubectl -n ml get events")
    wait_until(lambda: plane.kubectl("get", "repairplans").count("Done") == 2)
    assert guide.run("kubectl get repairplans").count("Done") == 2
    plane.kubectl("delete", "repairplans", "--all")


def _twice(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def _taint_held_device(plane: ControlPlane, node: str) -> None:
    """A driver finds a fault on the device of a node that is in use."""
    claims = plane.request("GET", CLAIMS)["items"]
    results = (each["status"]["allocation"]["devices"]["results"] for each in claims if each.get("status"))
    (held,) = [result["device"] for each in results for result in each if result["pool"] == node]
    slices = plane.request("GET", "/apis/resource.k8s.io/v1/resourceslices")["items"]
    (own,) = [each for each in slices if each["spec"].get("nodeName") == node]
    taints = [{"key": "example.com/broken", "effect": "NoSchedule"}]
    devices = [{**each, "taints": taints} if each["name"] == held else each for each in own["spec"]["devices"]]
    path = f"/apis/resource.k8s.io/v1/resourceslices/{own['metadata']['name']}"
    plane.request("PATCH", path, {"spec": {"devices": devices}}, content="application/merge-patch+json")
