"""A Service whose pod is a process of this machine, so that the API server's proxy leads there."""

import socket
from pathlib import Path

import yaml

from tests.support.controlplane import wait_until
from tests.support.shell_world import World


def forward(world: World, manifest: Path, port: int) -> None:
    """Create the Service of a manifest in the namespace of a world, and have it lead to a port of this machine."""
    plane, core = world.plane, f"/api/v1/namespaces/{world.namespace}"
    (service,) = yaml.safe_load_all(manifest.read_text())
    service["metadata"]["namespace"] = world.namespace
    service["spec"]["ports"][0]["targetPort"] = port
    service["spec"]["publishNotReadyAddresses"] = True  # the pod has no kubelet
    name, labels = service["metadata"]["name"], service["spec"]["selector"]
    containers = [{"name": "main", "image": "example.com/none"}]
    spec = {"containers": containers, "schedulerName": "none", "nodeName": world.nodes[0]}
    plane.request("POST", f"{core}/pods", {"metadata": {"name": name, "labels": labels}, "spec": spec})
    address = _own_address()  # the API server forwards to addresses of pods only
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    merge = "application/merge-patch+json"
    plane.request("PATCH", f"{core}/pods/{name}/status", {"status": status}, content=merge)
    plane.request("POST", f"{core}/services", service)
    # The API server finds the address in EndpointSlices, and before 1.37 in Endpoints.
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{world.namespace}/endpointslices"
    wait_until(lambda: any(each.get("endpoints") for each in plane.request("GET", slices)["items"]))
    wait_until(lambda: any(each.get("subsets") for each in plane.request("GET", f"{core}/endpoints")["items"]))


def _own_address() -> str:
    """An address of this machine that is not of the loopback interface, to which the API server forwards nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        return str(probe.getsockname()[0])
