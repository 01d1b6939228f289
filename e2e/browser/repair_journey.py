"""A fragmented cluster is repaired: a person reads the plan on the page, approves it, and watches it carried out."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import expect

from e2e import dovetail
from e2e.browser.live_server import LiveServer
from e2e.browser.visit import Chromium, Visit, visit
from e2e.controlplane.plane import REPOSITORY, ControlPlane
from e2e.fleet import fleets, publish
from e2e.fleet.shape import Manifest
from e2e.questions import busy_cluster

_GPUS: Final = 8
"""Of each of two nodes: a pod wants all of one, and each has a pod with one."""
_NAMESPACE: Final = "default"
_NONE, _ALL = re.compile(rf"^0 of {2 * _GPUS} "), re.compile(rf"^{_GPUS} of {2 * _GPUS} ")
_PATIENCE: Final = 120_000
"""Milliseconds in which the scheduler plans, or carries out a plan, on a machine that has other things to do."""


def follows_a_repair(chromium: Chromium, look: Callable[[Visit, str], None]) -> None:
    """The map shows the fleet after a plan, and nothing moves until it is approved; then the fleet is so."""
    with ControlPlane.start(kubelet=True) as plane, _advised(plane):
        server = LiveServer("--kubeconfig", str(plane.kubeconfig))
        with server, visit(chromium, server.address) as seen:
            shown, matches = seen.page.get_by_label("Show", exact=True), seen.page.get_by_role("status")
            expect(shown.locator("option")).to_have_count(2, timeout=_PATIENCE)
            name = shown.locator("option").nth(1).get_attribute("value") or ""
            seen.search(f"pod:{_NAMESPACE}/large")
            expect(matches).to_have_text(_NONE)
            now = seen.map.screenshot()
            shown.select_option(name)
            expect(matches).to_have_text(_ALL)
            expect(seen.page.locator(".figures-strip .held b")).to_have_text(str(_GPUS + 2))
            seen.settle()
            assert seen.map.screenshot() != now, "the map is the same after the plan"
            look(seen, "repair-after")
            shown.select_option("")
            expect(matches).to_have_text(_NONE)
            approve = ("repair", "approve", name, "--kubeconfig", str(plane.kubeconfig))
            subprocess.run([sys.executable, "-m", "scheduler", *approve], cwd=REPOSITORY, check=True)
            expect(matches).to_have_text(_ALL, timeout=_PATIENCE)
            expect(shown).to_have_count(0, timeout=_PATIENCE)  # the plan is over
            look(seen, "repair-done")


@contextmanager
def _advised(plane: ControlPlane) -> Iterator[None]:
    """Have Dovetail run with approval, in a cluster where a pod waits that fits once another one has moved."""
    with ThreadPoolExecutor(1) as thread:  # this one has an event loop of the browser's driver
        thread.submit(publish.publish_to, plane.kubeconfig, fleets.gpu_fleet(2, gpus=_GPUS)).result()
    kubeconfig = dovetail.install(plane, "repair")
    config = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "profiles": [{"policy": "spread"}],
        "repair": {**dovetail.REPAIRS, "autoApprove": False},
    }
    path = plane.folder / "config.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")
    running = dovetail.Dovetail.start(kubeconfig, plane.folder / "dovetail.log", f"--config={path}")
    try:
        _apply(plane, *(busy_cluster.template(_NAMESPACE, gpus) for gpus in (1, _GPUS)), _small())
        plane.kubectl("wait", "--for=jsonpath={.status.readyReplicas}=2", "--timeout=120s", "replicaset/small")
        _apply(plane, busy_cluster.waiting_pod("large", _NAMESPACE, {"resourceClaimTemplateName": f"gpus-{_GPUS}"}))
        yield
    finally:
        running.stop()


def _apply(plane: ControlPlane, *manifests: Manifest) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": manifests}
    plane.kubectl("apply", "-f", "-", input=json.dumps(listed))


def _small() -> Manifest:
    """Make a ReplicaSet of two pods with a device each."""
    pod = busy_cluster.waiting_pod("small", _NAMESPACE, {"resourceClaimTemplateName": "gpus-1"})
    labels = pod["metadata"]["labels"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "small", "namespace": _NAMESPACE},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
        },
    }
