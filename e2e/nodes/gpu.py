"""
`make gpu`: a card of this machine reaches a container, as NVML describes it: `python -m e2e.nodes.gpu`.

A control plane, one real node and Dovetail. The node's driver has the name of NVIDIA's and publishes what `nvml` reads.
It gives a container the device nodes of its card, and no libraries: the container opens the nodes and computes nothing.
"""

import contextlib
import sys
import time
from typing import Any, Final

import yaml

from e2e import audit
from e2e.controlplane import build
from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane, KubectlError
from e2e.controlplane.processes import ComponentError
from e2e.dovetail import Dovetail, install
from e2e.fleet import nvidia, publish
from e2e.fleet.shape import Fleet
from e2e.nodes import image, invariants, nvml
from e2e.nodes.cluster import Nodes, unusable
from e2e.nodes.node import Node, NodeSpec
from e2e.nodes.programs import Programs
from e2e.nodes.records import Container

NODE: Final = "gpu-node"
RUN_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.1
CANNOT_RUN: Final = 2

Json = dict[str, Any]


def main() -> int:
    """Run the command: 0 when the container has its card, 2 where this machine has no card or cannot have nodes."""
    try:
        cards = nvml.cards()
    except nvml.NoCardError as error:
        print(error, file=sys.stderr)
        return CANNOT_RUN
    if reason := unusable():
        print(f"No node can run here: {reason}.", file=sys.stderr)
        return CANNOT_RUN
    try:
        return run(cards)
    except (build.BuildError, ComponentError, KubectlError, RequestError) as error:
        print(error, file=sys.stderr)
        return 1


def run(cards: nvml.Cards) -> int:
    """
    Publish the cards, run one pod with one of them, and print what each has; 0 when all agree.

    Raises BuildError, ComponentError, KubectlError, RequestError.
    """
    for each in cards.left_out:
        print(each)
    build.controlplane_binary()
    Programs.built()
    with contextlib.ExitStack() as ends:
        plane = ends.enter_context(ControlPlane.start(feature_gates="on"))
        publish.publish_to(plane.kubeconfig, Fleet(classes=nvidia.CLASSES))
        spec = NodeSpec(name=NODE, drivers={nvidia.DRIVER: ({"devices": list(cards.devices)},)})
        nodes = ends.enter_context(Nodes.start_each(plane, [spec]))
        node = nodes[NODE]
        node.steer("edits.yaml", yaml.safe_dump(dict(cards.edits)))
        scheduler = ends.enter_context(Dovetail.start(install(plane), plane.folder / "dovetail.log"))
        print(yaml.safe_dump_all(_bare(each) for each in node.slices()), flush=True)
        _create(plane, sorted({each["path"] for edits in cards.edits.values() for each in edits["deviceNodes"]}))
        container = _wait(plane, node, (node, scheduler))
        problems = [*wrong(container, cards), *_audit(plane, nodes)]
    print("\n".join([*problems, f"wrong: {len(problems)}"] if problems else ["container, claim and driver agree"]))
    return 1 if problems else 0


def _bare(published: Json) -> Json:
    """Return a slice without what says who wrote it."""
    metadata = {key: value for key, value in published["metadata"].items() if key != "managedFields"}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    return {**kind, **published, "metadata": metadata}


def _create(plane: ControlPlane, paths: list[str]) -> None:
    """Create a claim and its pod, whose container tries to open the device nodes of all cards."""
    request = {"name": "card", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    claim = {"metadata": {"name": "card"}, "spec": {"devices": {"requests": [request]}}}
    plane.request("POST", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", claim)
    container = {
        "name": "main",
        "image": image.NAME,
        "args": [f"-open={','.join(paths)}"],
        "resources": {"claims": [{"name": "card"}]},
    }
    spec = {
        "schedulerName": "dovetail",
        "terminationGracePeriodSeconds": 1,
        "resourceClaims": [{"name": "card", "resourceClaimName": "card"}],
        "containers": [container],
    }
    plane.request("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "card"}, "spec": spec})


def _wait(plane: ControlPlane, node: Node, running: tuple[Node, Dovetail]) -> Container:
    """Wait for what the container prints. Raises ComponentError, with the pod's status and events, where none comes."""
    end = time.monotonic() + RUN_SECONDS
    while not (found := node.containers()):
        for each in running:
            each.check()
        if time.monotonic() > end:
            pod = plane.request("GET", "/api/v1/namespaces/default/pods/card")
            events = plane.request("GET", "/api/v1/namespaces/default/events")["items"]
            notes = [f"{each['reason']}: {each.get('message', '')}" for each in events]
            raise ComponentError("\n".join([f"the pod does not run: {pod['status']}", *notes]))
        time.sleep(POLL_SECONDS)
    return found[0]


def wrong(container: Container, cards: nvml.Cards) -> list[str]:
    """Print what the container got; return what it cannot open of its card, and what it can of others."""
    names = [each.rpartition("/")[2] for each in container.devices]
    own = {each["path"] for name in names for each in cards.edits[name]["deviceNodes"]}
    print(f"the container has {', '.join(names)} and opened {', '.join(sorted(own & _opened(container)))}")
    missing = [f"{path} was not opened: {container.opened.get(path, 'not tried')}" for path in own - _opened(container)]
    return sorted([*missing, *(f"{path} was opened, and is another card's" for path in _opened(container) - own)])


def _opened(container: Container) -> set[str]:
    return {path for path, error in container.opened.items() if not error}


def _audit(plane: ControlPlane, nodes: Nodes) -> list[str]:
    return [*invariants.audit(plane, nodes), *map(str, audit.audit(audit.read(plane.request)))]


if __name__ == "__main__":
    sys.exit(main())
