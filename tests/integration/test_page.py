"""`dovetail page` on the real API server: with the rights of its component, and with those of its callers."""

import json
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from e2e.controlplane.access import Access
from e2e.controlplane.plane import ControlPlane, free_port
from e2e.run.stage import page_of
from scheduler.api.queries import CALLER_HEADER
from scheduler.page import map_page
from tests.support.controlplane import wait_until
from tests.support.forwarding import forward
from tests.support.people import kubeconfig_of
from tests.support.shell_world import World

DEPLOY = Path(__file__).parents[2] / "deploy"
OWN_NAMESPACE = "dovetail-system"

pytestmark = pytest.mark.controlplane


class Served:
    """A page with the account of the component, and a Service that leads to it."""

    def __init__(self, world: World, port: int) -> None:
        self.world, self.plane, self.port = world, world.plane, port
        self.proxied = f"/api/v1/namespaces/{world.namespace}/services/https:dovetail-page:page/proxy"

    def ask(self, name: str, token: str) -> tuple[int, Any]:
        """Ask it straight."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            return _answer(Request(f"https://127.0.0.1:{self.port}/v1alpha1/{name}", headers=headers))
        except HTTPError as error:
            return error.code, json.load(error)

    def reads_all(self) -> bool:
        """Whether the account may list everything by now."""
        found = self.ask("map", self.token("dovetail-viewer"))[1]
        return found.get("forbidden") == [] and self.world.nodes[0] in found["texts"]

    def token(self, role: str) -> str:
        """Return a token, for Dovetail alone, of an account with a ClusterRole."""
        kubeconfig_of(self.plane, role)
        return self.token_of(f"person-{role}")

    def token_of(self, account: str) -> str:
        """Return such a token of an account in the namespace default."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": ["dovetail.dev"]},
        }
        path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
        return str(self.plane.request("POST", path, body)["status"]["token"])


def _answer(request: Request) -> tuple[int, Any]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with urlopen(request, context=context, timeout=30) as response:  # noqa: S310 - the address of our own server
        return response.status, json.load(response)


@pytest.fixture
def served(world: World) -> Iterator[Served]:
    world.add_nodes(1, devices=2)
    world.claim("used")
    world.allocate("used", "gpu-0", world.nodes[0], world.pod("runs", claim="used"))
    plane, port = world.plane, free_port()
    plane.kubectl("apply", "--server-side", "-k", str(DEPLOY / "overlays" / "default"))
    for name in ("serviceaccount.yaml", "clusterrolebindings.yaml"):
        plane.kubectl("apply", "--server-side", "-f", str(DEPLOY / "page" / name))
    forward(world, DEPLOY / "page" / "service.yaml", port)
    kubeconfig = plane.kubeconfig_for_service_account(OWN_NAMESPACE, "dovetail-page")
    command = [sys.executable, "-m", "scheduler", "page", f"--kubeconfig={kubeconfig}", f"--listen=:{port}"]
    files = [f"--tls-{each}-file={plane.folder / f'serving.{end}'}" for each, end in (("cert", "crt"), ("key", "key"))]
    names = [f"--scheduler-name={world.scheduler}"]
    with subprocess.Popen([*command, *files, *names], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("https://")
        made = Served(world, port)
        try:
            wait_until(made.reads_all, seconds=120)
            yield made
        finally:
            process.send_signal(signal.SIGTERM)


def test_the_account_of_the_component_reads_everything_and_callers_see_what_they_may(served: Served) -> None:
    status, found = served.ask("map", served.token("dovetail-viewer"))
    assert (status, found["forbidden"], found["hidden"]) == (200, [], {})
    assert "used" in found["texts"]

    status, found = served.ask("map", served.token("view"))
    assert (status, found["forbidden"]) == (200, ["nodes"])
    assert served.world.nodes[0] in found["texts"]  # ResourceSlices name it

    status, refusal = served.ask("map", served.token_of("default"))
    assert (status, refusal["reason"]) == (403, "Forbidden")
    assert "cannot list resourceslices.resource.k8s.io at the cluster scope" in refusal["message"]

    assert served.ask("map", "")[0] == 401
    assert served.ask("state", "no-token")[0] == 401


def test_the_page_comes_whole_through_the_proxy_of_the_api_server(served: Served) -> None:
    asked = {"User-Agent": "a browser", CALLER_HEADER: f"Bearer {served.token('dovetail-viewer')}"}
    admin = served.plane.admin

    def get(path: str) -> Any:
        headers = {**asked, "Authorization": f"Bearer {admin.token}"}
        context = ssl.create_default_context(cafile=str(admin.ca))
        request = Request(f"{admin.server}{served.proxied}/{path}", headers=headers)  # noqa: S310 - the address of our own server
        return urlopen(request, context=context, timeout=30)  # noqa: S310 - the address of our own server

    with get("") as response:
        text, policy = response.read().decode(), response.headers["Content-Security-Policy"]
    own, own_policy = map_page.served()
    scripts = [re.findall(r"<script>(.*)</script>", each, re.DOTALL) for each in (text, own)]
    assert scripts[0] == scripts[1]  # its hash is in the policy
    assert policy == own_policy
    with get("v1alpha1/map") as response:
        assert json.load(response)["kind"] == "FleetMap"


def test_make_run_serves_a_page(control_plane: ControlPlane) -> None:
    with page_of(control_plane) as url:

        def is_served() -> bool:
            try:
                return _answer(Request(f"{url}v1alpha1/state"))[0] == 200  # noqa: S310 - the address of our own server
            except OSError:
                return False

        wait_until(is_served, seconds=60)


def test_nothing_is_written_with_the_account(served: Served) -> None:
    access: Access = served.plane.access_for_service_account(OWN_NAMESPACE, "dovetail-page")
    for verb, group, resource in (
        ("create", "", "pods"),
        ("patch", "", "pods"),
        ("update", "resource.k8s.io", "resourceclaims"),
        ("get", "", "secrets"),
        ("get", "", "configmaps"),
    ):
        attributes = {"verb": verb, "group": group, "resource": resource, "namespace": served.world.namespace}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        assert access.request("POST", path, review)["status"]["allowed"] is False
