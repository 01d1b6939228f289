"""
The nodes of the fleet as real ones: how kubelets and drivers are configured, and what their containers print.

All of `demo_fleet`, so that manifests and their ends are those of `make run`. With fewer, examples had to change: the
gang needs two nodes of an NVLink domain, the others 13 GPUs elsewhere, 05, 06, 08 and 13 a node of another kind each.
Eight would do; a node takes about 100 MiB with what runs on it, and a second to start.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from e2e.controlplane.plane import ControlPlane
from e2e.fleet.shape import Fleet
from e2e.nodes import invariants
from e2e.nodes.cluster import Nodes
from e2e.nodes.node import NodeSpec
from e2e.scenarios.examples import Example
from e2e.table import Printed

Object = Mapping[str, Any]

_OF_THE_KUBELET: Final = ("kubernetes.io/arch", "kubernetes.io/hostname", "kubernetes.io/os")


def start(plane: ControlPlane, fleet: Fleet, examples: tuple[Example, ...]) -> Nodes:
    """
    Start the fleet's nodes: names, labels, taints, cpus and devices are the fleet's, memory and disk this machine's.

    They have the disks that the examples name, and one image by all names there. Raises BuildError or ComponentError.
    """
    disks = _disks(examples)
    specs = [spec_of(node, fleet, disks.get(node["metadata"]["name"], ())) for node in fleet.nodes]
    return Nodes.start_each(plane, specs, images=_images(examples))


def spec_of(
    node: Object, fleet: Fleet, disks: tuple[str, ...] = (), *, kubelet: Mapping[str, Any] | None = None
) -> NodeSpec:
    """Say what a node of a fleet is made of; `kubelet` has further fields of its KubeletConfiguration."""
    name = node["metadata"]["name"]
    drivers: dict[str, list[dict[str, Any]]] = {}
    for each in fleet.slices:
        if each["spec"]["nodeName"] == name:
            drivers.setdefault(each["spec"]["driver"], []).append({"devices": each["spec"]["devices"]})
    return NodeSpec(
        name=name,
        labels={key: value for key, value in node["metadata"]["labels"].items() if key not in _OF_THE_KUBELET},
        cpus=int(node["status"]["capacity"]["cpu"]),
        kubelet={"registerWithTaints": node.get("spec", {}).get("taints", []), **(kubelet or {})},
        drivers=drivers,
        disks=disks,
    )


def printed(nodes: Nodes) -> Printed:
    """Return what each container says that it has; of one that was restarted, the last."""
    return {(each.uid, each.name): each.devices for node in nodes for each in node.containers()}


def audit(plane: ControlPlane, nodes: Nodes) -> tuple[str, bool]:
    """Compare what containers have with claims and with drivers' logs; say what there is, and whether it is right."""
    problems = invariants.audit(plane, nodes)
    containers = printed(nodes).values()
    claims = {uid for node in nodes for driver in node.drivers for uid in invariants.prepared(node.calls(driver))}
    count, with_devices = len(containers), sum(map(bool, containers))
    lines = [
        f"{count} containers have started, {with_devices} with devices; drivers have prepared {len(claims)} claims",
        *(f"  {each}" for each in problems),
        f"wrong: {len(problems)}" if problems else "what containers print, claims and drivers agree",
    ]
    return "\n".join(lines), not problems


def _images(examples: tuple[Example, ...]) -> tuple[str, ...]:
    specs = (spec for example in examples for _, spec, _ in example.pod_specs)
    return tuple(sorted({container["image"] for spec in specs for container in spec["containers"]}))


def _disks(examples: tuple[Example, ...]) -> dict[str, tuple[str, ...]]:
    """Return the folders of local volumes by the name of their node."""
    found: dict[str, tuple[str, ...]] = {}
    for manifest in (each for example in examples for each in example.manifests):
        if manifest["kind"] == "PersistentVolume":
            (term,) = manifest["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
            for host in term["matchExpressions"][0]["values"]:
                found[host] = (*found.get(host, ()), str(Path(manifest["spec"]["local"]["path"])))
    return found
