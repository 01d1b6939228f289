"""A client of the real API server and what the tests here make with it."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from e2e.controlplane.plane import ControlPlane
from scheduler.kube import paths, writes
from scheduler.kube.client import Client
from scheduler.kube.decode.pods import decode_pod
from solver.domain import Claim, ClaimId, Pod
from tests.support.kube_objects import encoded
from tests.support.shell_proxy import LossyProxy, lossy

DEVICE_CLASS = "kube-tests"
"""No class has to exist for a claim to name it."""


class Cluster:
    """Makes objects in a namespace of the test's own."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def send(self, method: str, path: str, body: Any = None, **fields: Any) -> Any:
        sent = None if body is None else body if isinstance(body, bytes) else encoded(body)
        return json.loads(await self.client.request(method, path, body=sent, **fields))

    async def pod(self, name: str = "pod", **spec: Any) -> Pod:
        body = {
            "metadata": {"name": name},
            "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "busybox"}], **spec},
        }
        collection = f"/api/v1/namespaces/{self.namespace}/pods"
        return decode_pod(await self.client.request("POST", collection, body=encoded(body)))

    async def claim(self, name: str = "claim", *, parameters: str = "", finalizers: tuple[str, ...] = ()) -> Claim:
        config = (
            f',"config":[{{"opaque":{{"driver":"gpu.example.com","parameters":{parameters}}}}}]' if parameters else ""
        )
        body = (
            f'{{"metadata":{{"name":"{name}","finalizers":{json.dumps(finalizers)}}},"spec":{{"devices":{{"requests":'
            f'[{{"name":"gpu","exactly":{{"deviceClassName":"{DEVICE_CLASS}"}}}}]{config}}}}}}}'
        )
        path = f"/apis/resource.k8s.io/v1/namespaces/{self.namespace}/resourceclaims"
        await self.send("POST", path, body.encode())
        found = await writes.read_claim(self.client, ClaimId(self.namespace, name))
        assert found is not None
        return found

    async def raw_claim(self, name: str = "claim") -> Any:
        return await self.send("GET", paths.claim(ClaimId(self.namespace, name)))


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client.connect(control_plane.kubeconfig) as client:
        yield client


@pytest.fixture
def cluster(client: Client, namespace: str) -> Cluster:
    return Cluster(client, namespace)


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[LossyProxy]:
    """A way to the API server on which things go wrong."""
    with lossy(control_plane.admin) as made:
        yield made
