"""Opt-in where the API server cannot set `schedulerName` (before 1.36): it warns the author of a pod without it."""

import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.controlplane.plane import REPOSITORY, ControlPlane
from tests.support.controlplane import wait_until
from tests.support.opt_in import DEFAULT, LABEL, WITHOUT_LABEL, apply_policies, label, owned, pod

POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/dovetail-opt-in-warning"

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]
COLLECTIONS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "CronJob": "/apis/batch/v1/namespaces/{}/cronjobs",
}


def _template(**spec: Any) -> Json:
    return {"metadata": {"labels": {"a": "b"}}, "spec": {**pod()["spec"], "restartPolicy": "Never", **spec}}


def _deployment(**spec: Any) -> Json:
    selector = {"matchLabels": {"a": "b"}}
    template = _template(**{"restartPolicy": "Always", **spec})
    return {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"selector": selector, "template": template}}


def _job(**spec: Any) -> Json:
    return {"kind": "Job", "metadata": {"name": "j"}, "spec": {"template": _template(**spec)}}


def _cron_job(**spec: Any) -> Json:
    job = {"schedule": "0 * * * *", "jobTemplate": {"spec": _job(**spec)["spec"]}}
    return {"kind": "CronJob", "metadata": {"name": "c"}, "spec": job}


def _warning(plane: ControlPlane, namespace: str, manifest: Json) -> str:
    """Give the warning with which the API server accepts an object; kubectl prints it."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {plane.admin.token}"}
    path = f"{COLLECTIONS[manifest['kind']].format(namespace)}?dryRun=All"
    with contextlib.closing(plane.admin.connection(timeout_seconds=30)) as connection:
        connection.request("POST", path, json.dumps(manifest), headers)
        answer = connection.getresponse()
        text = answer.read()
    assert answer.status == http.client.CREATED, text
    return answer.headers.get("Warning", "")


@pytest.fixture(scope="module")
def warning_policy(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The policy that warns; gone again afterwards."""
    names = apply_policies(control_plane, "opt-in-warning")
    yield control_plane
    control_plane.kubectl("delete", *names)


@pytest.fixture
def warned(warning_policy: ControlPlane, namespace: str) -> str:
    """A namespace with the label, where the policy is in force."""
    label(warning_policy, namespace)
    wait_until(lambda: _warning(warning_policy, namespace, pod()) != "")
    return namespace


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        pytest.param(pod(), "spec.schedulerName", id="pod"),
        pytest.param(_deployment(), "spec.template.spec.schedulerName", id="Deployment"),
        pytest.param(_job(schedulerName=DEFAULT), "spec.template.spec.schedulerName", id="Job"),
        pytest.param(_cron_job(), "spec.jobTemplate.spec.template.spec.schedulerName", id="CronJob"),
    ],
)
def test_who_writes_no_scheduler_is_told_what_to_write(
    warning_policy: ControlPlane, warned: str, manifest: Json, field: str
) -> None:
    words = f"{field}: write dovetail, the scheduler of namespace {warned} by its label {LABEL}"
    assert words in _warning(warning_policy, warned, manifest)
    assert _warning(warning_policy, WITHOUT_LABEL, manifest) == ""


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(pod(schedulerName="dovetail"), id="Dovetail"),
        pytest.param(pod(schedulerName="volcano"), id="another scheduler"),
        pytest.param(pod(owned("ReplicaSet")), id="made by a controller"),
        pytest.param(pod(nodeName="n"), id="has a node"),
        pytest.param(_deployment(schedulerName="dovetail"), id="Deployment"),
        pytest.param(_cron_job(schedulerName="dovetail"), id="CronJob"),
    ],
)
def test_others_are_not_told_anything(warning_policy: ControlPlane, warned: str, manifest: Json) -> None:
    assert _warning(warning_policy, warned, manifest) == ""


def test_the_page_shows_the_warning_as_it_is(warning_policy: ControlPlane, warned: str) -> None:
    said = _warning(warning_policy, warned, _deployment()).removeprefix('299 - "').removesuffix('"')
    page = (REPOSITORY / "docs" / "installing.md").read_text(encoding="utf-8")
    assert f"Warning: {said.replace(warned, 'ml')}" in " ".join(page.split())


def test_the_server_finds_no_mistake_in_the_policy_that_warns(warning_policy: ControlPlane) -> None:
    def read() -> Json:
        found: Json = warning_policy.request("GET", POLICY)
        return found

    wait_until(lambda: read().get("status", {}).get("observedGeneration") == read()["metadata"]["generation"])
    assert read()["status"].get("typeChecking", {}).get("expressionWarnings", []) == []
