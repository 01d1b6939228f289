import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.access import Access
from e2e.controlplane.plane import ControlPlane
from scheduler.features import OFF_BY_DEFAULT, Feature
from tests.support.controlplane import wait_until
from tests.support.marks import MUTATING_POLICIES

OVERLAYS = sorted(path for path in (Path(__file__).parents[2] / "deploy" / "overlays").iterdir())
DEFAULT = next(path for path in OVERLAYS if path.name == "default")
NAMESPACE = "dovetail-system"

pytestmark = pytest.mark.controlplane

ALLOWED = [
    *[(verb, "", kind, "") for kind in ("namespaces", "nodes") for verb in ("list", "watch")],
    *[(verb, "", "pods", "") for verb in ("get", "list", "watch")],
    *[
        (verb, "resource.k8s.io", kind, "")
        for kind in ("deviceclasses", "devicetaintrules", "resourceslices")
        for verb in ("list", "watch")
    ],
    *[
        (verb, "storage.k8s.io", kind, "")
        for kind in ("csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments")
        for verb in ("list", "watch")
    ],
    *[
        (verb, "", kind, "")
        for kind in ("persistentvolumeclaims", "persistentvolumes")
        for verb in ("get", "list", "watch", "patch")
    ],
    *[
        (verb, "resource.k8s.io", "resourceclaims", "")
        for verb in ("get", "list", "watch", "create", "update", "patch", "delete")
    ],
    ("get", "resource.k8s.io", "resourceclaimtemplates", ""),
    ("list", "", "resourcequotas", ""),
    *[(verb, "resource.k8s.io", "resourceclaims", "status") for verb in ("update", "patch")],
    *[(verb, "resource.k8s.io", "resourceclaims", "binding") for verb in ("update", "patch")],
    *[
        (verb, group, "podgroups", "")
        for group in ("scheduling.k8s.io", "scheduling.x-k8s.io")
        for verb in ("list", "watch")
    ],
    ("patch", "scheduling.k8s.io", "podgroups", "status"),
    *[(verb, "dovetail.dev", "deviceholds", "") for verb in ("get", "list", "watch", "create", "delete")],
    ("patch", "dovetail.dev", "deviceholds", "status"),
    *[(verb, "dovetail.dev", "devicequotas", "") for verb in ("list", "watch")],
    ("patch", "dovetail.dev", "devicequotas", "status"),
    ("create", "", "pods", "binding"),
    ("patch", "", "pods", "status"),
    ("create", "", "pods", "eviction"),
    ("delete", "", "pods", ""),
    *[(verb, "policy", "poddisruptionbudgets", "") for verb in ("list", "watch")],
    ("create", "events.k8s.io", "events", ""),
    ("patch", "events.k8s.io", "events", ""),
]
"""(verb, group, resource, subresource), each in any namespace."""

REFUSED = [
    ("get", "", "secrets", ""),
    ("list", "", "secrets", ""),
    ("get", "", "configmaps", ""),
    ("create", "", "pods", ""),
    ("update", "", "pods", ""),
    ("patch", "", "pods", ""),
    ("create", "", "pods", "exec"),
    ("patch", "policy", "poddisruptionbudgets", ""),
    ("delete", "policy", "poddisruptionbudgets", ""),
    ("patch", "scheduling.k8s.io", "podgroups", ""),
    ("patch", "scheduling.x-k8s.io", "podgroups", "status"),
    ("patch", "", "nodes", ""),
    ("create", "", "persistentvolumes", ""),
    ("delete", "", "persistentvolumeclaims", ""),
    ("patch", "", "persistentvolumes", "status"),
    ("patch", "storage.k8s.io", "csinodes", ""),
    ("deletecollection", "resource.k8s.io", "resourceclaims", ""),
    ("update", "resource.k8s.io", "resourceclaims", "driver"),
    ("create", "resource.k8s.io", "resourceslices", ""),
    ("delete", "resource.k8s.io", "resourceslices", ""),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings", ""),
    ("create", "", "serviceaccounts", "token"),
    ("impersonate", "", "users", ""),
    ("*", "*", "*", ""),
]


def _name(row: tuple[str, str, str, str]) -> str:
    verb, group, resource, subresource = row
    return " ".join((verb, f"{resource}/{subresource}" if subresource else resource, group)).strip()


@pytest.fixture(scope="module")
def deployed(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The base with every feature, applied as a user does it; its pods are gone afterwards."""
    control_plane.kubectl("apply", "--server-side", "-k", str(DEFAULT))
    yield control_plane
    control_plane.kubectl("-n", NAMESPACE, "delete", "deployment", "dovetail")
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    wait_until(lambda: not control_plane.request("GET", pods)["items"])


@pytest.fixture(scope="module")
def account(deployed: ControlPlane) -> Access:
    """A way in with the account that the base gives the scheduler."""
    return deployed.access_for_service_account(NAMESPACE, "dovetail")


def _is_allowed(account: Access, row: tuple[str, str, str, str], namespace: str = "", name: str = "") -> bool:
    """Ask the API server what it would say to a request of the account (namespace "": in all of them)."""
    attributes = dict(zip(("verb", "group", "resource", "subresource"), row, strict=True))
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**attributes, "namespace": namespace, "name": name}},
    }
    answer = account.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


@pytest.mark.parametrize("row", ALLOWED, ids=_name)
def test_the_account_may_do_what_dovetail_does(account: Access, row: tuple[str, str, str, str]) -> None:
    assert _is_allowed(account, row)


@pytest.mark.parametrize("row", REFUSED, ids=_name)
def test_the_account_may_do_nothing_broader(account: Access, row: tuple[str, str, str, str]) -> None:
    assert not _is_allowed(account, row)


def test_the_cluster_roles_grant_what_dovetail_does_and_nothing_else(deployed: ControlPlane) -> None:
    names = ("dovetail", *(f"dovetail-{each.value}" for each in Feature if each not in OFF_BY_DEFAULT))
    paths = [f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}" for name in names]
    granted = {
        (verb, group, *resource.partition("/")[::2])
        for path in paths
        for rule in deployed.request("GET", path)["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == set(ALLOWED)


LEASE = "coordination.k8s.io"


@pytest.mark.parametrize(
    ("verb", "namespace", "name", "is_allowed"),
    [
        pytest.param("create", NAMESPACE, "", True, id="create its own"),
        pytest.param("get", NAMESPACE, "dovetail", True, id="read its own"),
        pytest.param("patch", NAMESPACE, "dovetail", True, id="renew its own"),
        pytest.param("patch", NAMESPACE, "other", False, id="renew another"),
        pytest.param("delete", NAMESPACE, "dovetail", False, id="delete its own"),
        pytest.param("get", "kube-system", "kube-scheduler", False, id="read kube-scheduler's"),
        pytest.param("create", "kube-system", "", False, id="create elsewhere"),
    ],
)
def test_the_account_has_its_own_lease_only(
    account: Access, verb: str, namespace: str, name: str, *, is_allowed: bool
) -> None:
    assert _is_allowed(account, (verb, LEASE, "leases", ""), namespace, name) is is_allowed


def test_applying_it_again_changes_nothing(deployed: ControlPlane) -> None:
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/dovetail"
    before = deployed.request("GET", path)["metadata"]["generation"]
    deployed.kubectl("apply", "--server-side", "-k", str(DEFAULT))
    assert deployed.request("GET", path)["metadata"]["generation"] == before


def test_its_pods_are_admitted_under_the_restricted_standard(deployed: ControlPlane) -> None:
    def pods() -> list[Any]:
        listed: list[Any] = deployed.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        return listed

    wait_until(lambda: len(pods()) == 2)


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        pytest.param(
            f"/apis/{LEASE}/v1/namespaces/{NAMESPACE}/leases/dovetail", "dovetail-leader-election", id="Lease"
        ),
        pytest.param("/api/v1/nodes?limit=1", "dovetail", id="objects of the cluster"),
        pytest.param("/apis/resource.k8s.io/v1/resourceclaims?limit=1", "dovetail", id="objects of namespaces"),
    ],
)
def test_its_requests_flow_apart_from_the_workloads(
    deployed: ControlPlane, account: Access, path: str, schema: str
) -> None:
    listed = deployed.request("GET", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas")["items"]
    names = {one["metadata"]["uid"]: one["metadata"]["name"] for one in listed}
    wait_until(lambda: names.get(_flow(account, path)) == schema)


def _flow(account: Access, path: str) -> str:
    """Which FlowSchema (by uid) the API server put a read of the account under."""
    request = urllib.request.Request(account.server + path, headers={"Authorization": f"Bearer {account.token}"})  # noqa: S310 - the test's own server
    tls = ssl.create_default_context(cafile=str(account.ca))
    try:
        with urllib.request.urlopen(request, context=tls, timeout=30) as answer:  # noqa: S310 - the same
            headers = answer.headers
    except urllib.error.HTTPError as error:
        with error:
            headers = error.headers
    return str(headers["X-Kubernetes-PF-FlowSchema-UID"])


@pytest.mark.parametrize(
    "overlay",
    [pytest.param(path, id=path.name, marks=[MUTATING_POLICIES] if path.name == "opt-in" else []) for path in OVERLAYS],
)
def test_every_overlay_would_be_accepted(deployed: ControlPlane, overlay: Path) -> None:
    deployed.kubectl("apply", "--server-side", "--dry-run=server", "-k", str(overlay))
