"""Metrics over HTTPS: the API server says which user scrapes and whether that user may."""

import contextlib
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.controlplane.plane import ControlPlane, free_port
from tests.support.controlplane import wait_until
from tests.support.shell_world import Start, World

COMPONENT = Path(__file__).parents[2] / "deploy" / "components" / "secure-metrics"
RBAC = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"

pytestmark = pytest.mark.controlplane


@pytest.fixture
def url(world: World, account: Path, start: Start, tmp_path: Path) -> str:
    """The metrics of a scheduler that asks for tokens."""
    for name in ("clusterrole.yaml", "clusterrolebinding.yaml"):
        world.plane.kubectl("apply", "--server-side", "-f", str(COMPONENT / name))
    port, path = free_port(), tmp_path / "config.yaml"
    document = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "metrics": {
            "tlsCertFile": str(world.plane.folder / "serving.crt"),
            "tlsKeyFile": str(world.plane.folder / "serving.key"),
        },
    }
    path.write_text(yaml.safe_dump(document))
    start(account, f"--config={path}", f"--metrics-bind-address=127.0.0.1:{port}")
    return f"https://127.0.0.1:{port}/metrics"


@pytest.fixture
def token(world: World) -> str:
    """The token of an account without any right."""
    accounts = f"/api/v1/namespaces/{world.namespace}/serviceaccounts"
    world.plane.request("POST", accounts, {"metadata": {"name": "prometheus"}})
    return world.plane.access_for_service_account(world.namespace, "prometheus").token


@contextlib.contextmanager
def reading(plane: ControlPlane, namespace: str) -> Iterator[None]:
    """Bind the component's role to the account."""
    body = {
        "metadata": {"name": namespace},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "dovetail-metrics-reader",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": namespace}],
    }
    plane.request("POST", RBAC, body)
    yield
    plane.request("DELETE", f"{RBAC}/{namespace}")


def scrape(url: str, token: str) -> tuple[int, str]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310 - our own server
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(request, context=tls, timeout=30) as answer:  # noqa: S310 - the same
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_user_with_the_right_to_the_path_scrapes(world: World, url: str, token: str) -> None:
    assert scrape(url, "")[0] == 401
    assert scrape(url, "not-a-token")[0] == 401
    status, text = scrape(url, token)
    assert (status, "cannot get path '/metrics'" in text) == (403, True)

    with reading(world.plane, world.namespace):
        wait_until(lambda: scrape(url, token)[0] == 200, seconds=30)  # answers are kept for ten seconds
        assert "dovetail_build_info" in scrape(url, token)[1]
