"""`dovetail page` on the real API server: with the rights of its component, and with those of its callers."""

import json
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml

from e2e.controlplane.access import Access
from e2e.controlplane.plane import ControlPlane, free_port
from e2e.dovetail import install
from e2e.run.stage import page_of
from scheduler.api.queries import CALLER_HEADER
from scheduler.page import map_page
from tests.integration.test_own_api import Desk
from tests.support.controlplane import wait_until
from tests.support.forwarding import forward
from tests.support.people import kubeconfig_of
from tests.support.shell_world import Start, World

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

    def fit(self, token: str, *manifests: Any, namespace: str = "") -> tuple[int, Any]:
        """Ask whether manifests would fit."""
        body = yaml.safe_dump_all(manifests).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/yaml"}
        address = f"https://127.0.0.1:{self.port}/v1alpha1/fit?namespace={namespace or self.world.namespace}"
        try:
            return _answer(Request(address, body, headers))
        except HTTPError as error:
            return error.code, json.load(error)

    def tenant(self, name: str) -> str:
        """Return a token of an account that may list devices, and pods and claims of a namespace of its own."""
        metadata = {"name": name}
        self.plane.request("POST", "/api/v1/namespaces", {"metadata": metadata})
        self.plane.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": metadata})
        subject = f"--serviceaccount=default:{name}"
        for role, resources in (("devices", "resourceslices.resource.k8s.io"), ("own", "pods,resourceclaims")):
            made = f"{name}-{role}"
            self.plane.kubectl("create", "clusterrole", made, "--verb=list", f"--resource={resources}")
            where = ("clusterrolebinding", made) if role == "devices" else ("rolebinding", made, "-n", name)
            self.plane.kubectl("create", *where, f"--clusterrole={made}", subject)
        token = self.token_of(name)
        wait_until(lambda: self.fit(token, self.pod("any"), namespace=name)[1].get("fits") is not None)
        return token

    def pod(self, name: str, count: int = 0, namespace: str = "") -> Any:
        """Make a pod that asks for so many devices, by a template `own`."""
        metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
        claims = [{"name": "gpu", "resourceClaimTemplateName": "own"}] if count else []
        containers = [{"name": "main", "image": "example.com/none"}]
        spec = {"schedulerName": self.world.scheduler, "containers": containers, "resourceClaims": claims}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def template(self, count: int) -> Any:
        """Make the template `own`."""
        request = {"name": "gpu", "exactly": {"deviceClassName": self.world.driver, "count": count}}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "own"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }

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


def _events(response: Any) -> Iterator[str]:
    """Read the names of events as they come."""
    return (line.decode().split()[1] for line in response if line.startswith(b"event: "))


@pytest.fixture
def served(world: World) -> Iterator[Served]:
    world.add_nodes(1, devices=2)
    world.claim("used")
    world.allocate("used", "gpu-0", world.nodes[0], world.pod("runs", claim="used"))
    with serving(world) as made:
        yield made


@contextmanager
def serving(world: World, *words: str) -> Iterator[Served]:
    """Serve the page with the account of the component while the block runs."""
    plane, port = world.plane, free_port()
    install(plane)
    for name in ("serviceaccount.yaml", "clusterrolebindings.yaml"):
        plane.kubectl("apply", "--server-side", "-f", str(DEPLOY / "page" / name))
    forward(world, DEPLOY / "page" / "service.yaml", port)
    kubeconfig = plane.kubeconfig_for_service_account(OWN_NAMESPACE, "dovetail-page")
    command = [sys.executable, "-m", "scheduler", "page", f"--kubeconfig={kubeconfig}", f"--listen=:{port}"]
    files = [f"--tls-{each}-file={plane.folder / f'serving.{end}'}" for each, end in (("cert", "crt"), ("key", "key"))]
    names = [f"--scheduler-name={world.scheduler}"]
    with subprocess.Popen([*command, *files, *names, *words], stdout=subprocess.PIPE, text=True) as process:
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
    assert served.ask("map?watch=true", "no-token")[0] == 401


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
    with get("v1alpha1/map?watch=true") as response:  # each event comes at once, and none is kept back
        assert [next(_events(response)), next(_events(response))] == ["whole", "state"]
        served.world.pod("more")
        assert next(_events(response)) in {"state", "change"}


def test_make_run_serves_a_page(control_plane: ControlPlane) -> None:
    with page_of(control_plane) as url:

        def is_served() -> bool:
            try:
                return _answer(Request(f"{url}v1alpha1/map"))[0] == 200  # noqa: S310 - the address of our own server
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


def test_a_manifest_is_decided_on_the_whole_cluster_and_nothing_is_written(served: Served) -> None:
    token = served.token("dovetail-viewer")

    status, found = served.fit(token, served.template(1), served.pod("new", 1))
    assert (status, found["fits"], found["problems"], found["forbidden"]) == (200, True, [], [])
    (placement,) = found["placements"]
    assert (placement["node"], "gpu-1" in placement["devices"][0]) == (served.world.nodes[0], True)

    status, found = served.fit(token, served.template(2), served.pod("new", 2))
    assert (status, found["fits"]) == (200, False)
    assert f"{served.world.namespace}/runs" in found["changes"][0]["message"]

    names = [each["metadata"]["name"] for each in served.world.pods()]
    assert "new" not in names


def test_a_tenant_hears_nothing_of_other_namespaces(served: Served) -> None:
    name = f"tenant-{served.world.word}"
    token = served.tenant(name)

    status, found = served.fit(token, served.template(2), served.pod("new", 2), namespace=name)
    assert (status, found["fits"], found["changes"]) == (200, False, [])
    assert "runs" not in json.dumps(found)
    assert served.world.namespace not in json.dumps(found)

    foreign = served.pod("new", 0, served.world.namespace)
    status, found = served.fit(token, foreign, namespace=name)
    assert (status, found["fits"], found["problems"][0]["field"]) == (200, None, "metadata.namespace")
    status, refusal = served.fit(token, served.pod("new"), namespace=served.world.namespace)
    assert (status, refusal["reason"]) == (403, "Forbidden")


def test_a_manifest_is_posted_through_the_proxy_with_the_role_of_the_component(served: Served) -> None:
    name = f"poster-{served.world.word}"
    served.tenant(name)
    (role,) = yaml.safe_load_all((DEPLOY / "page" / "role.yaml").read_text())
    role["metadata"]["namespace"] = served.world.namespace
    served.plane.kubectl("apply", "-f", "-", input=json.dumps(role))
    subject = f"--serviceaccount=default:{name}"
    served.plane.kubectl(
        "create", "rolebinding", name, "-n", served.world.namespace, f"--role={role['metadata']['name']}", subject
    )
    access = served.plane.access_for_service_account("default", name)
    headers = {
        "Authorization": f"Bearer {access.token}",
        CALLER_HEADER: f"Bearer {served.token_of(name)}",
        "Content-Type": "application/yaml",
        "Origin": "http://localhost:8001",  # of `kubectl proxy`
    }
    context = ssl.create_default_context(cafile=str(access.ca))
    address = f"{access.server}{served.proxied}/v1alpha1/fit?namespace={name}"

    def is_answered() -> bool:
        request = Request(address, yaml.safe_dump(served.pod("new")).encode(), headers)  # noqa: S310 - the address of our own server
        try:
            with urlopen(request, context=context, timeout=90) as response:  # noqa: S310 - the address of our own server
                return json.load(response)["fits"] is True
        except HTTPError as error:
            if error.code != 403:  # until the authorizer has seen the role
                raise
            return False

    wait_until(is_answered, seconds=60)


def test_decisions_come_from_the_scheduler_with_the_rights_of_the_caller(
    world: World, start: Start, account: Path, tmp_path: Path
) -> None:
    world.add_nodes(1, devices=2)
    world.template()
    desk = Desk(world, tmp_path)
    start(account, f"--config={desk.config(5.0)}")
    desk.place("placed")
    certificate = world.plane.folder / "serving.crt"  # itself, not what signed it
    api = (f"--server=https://127.0.0.1:{desk.port}", f"--certificate-authority={certificate}")
    with serving(world, *api) as page:
        status, found = page.ask(f"decisions?namespace={world.namespace}&pod=placed", page.token("dovetail-viewer"))
        assert status == 200
        assert [(each["what"], each["node"]) for each in found["events"]] == [("Bound", world.nodes[0])]
        stranger = page.tenant(f"tenant-{world.word}")
        status, refusal = page.ask(f"decisions?namespace={world.namespace}&pod=placed", stranger)
        assert (status, refusal["reason"]) == (403, "Forbidden")
        status, found = page.ask("decisions", stranger)
        assert (status, found["events"], found["hidden"]["pods"] > 0) == (200, [], True)
        assert page.ask("decisions", "no-token")[0] == 401


@pytest.mark.parametrize("authority", ["serving.crt", "missing.crt"])
def test_where_the_api_of_the_scheduler_is_off_the_page_says_so(world: World, authority: str) -> None:
    world.add_nodes(1, devices=1)
    server, certificate = f"https://127.0.0.1:{free_port()}", world.plane.folder / authority
    with serving(world, f"--server={server}", f"--certificate-authority={certificate}") as page:
        status, refusal = page.ask("decisions", page.token("dovetail-viewer"))
    assert status == 503
    assert refusal["message"].startswith(f"{server} does not answer. Its API is off by default")
