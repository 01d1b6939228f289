"""The component for the scheduler's own API: ports, names and paths fit together."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler import API_SERVICE
from scheduler.settings import load

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPONENT = DEPLOY / "api"


def _document(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _patch() -> dict[str, Any]:
    """What is added to the Deployment, by the path in the pod's template."""
    (patch,) = _document(COMPONENT / "kustomization.yaml")["patches"]
    return {each["path"]: each["value"] for each in yaml.safe_load(patch["patch"])}


def test_the_service_leads_to_the_port_of_the_configuration() -> None:
    service, settings = _document(COMPONENT / "service.yaml"), load(DEPLOY / "overlays" / "api" / "config.yaml")
    port = _patch()["/spec/template/spec/containers/0/ports/-"]
    assert settings.api.bind_address == f":{port['containerPort']}"
    assert [each["targetPort"] for each in service["spec"]["ports"]] == [port["name"]]
    labels = _document(DEPLOY / "base" / "deployment.yaml")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_the_role_opens_the_way_that_the_command_line_takes() -> None:
    service = _document(COMPONENT / "service.yaml")
    name, (port,) = service["metadata"]["name"], service["spec"]["ports"]
    (rule,) = _document(COMPONENT / "role.yaml")["rules"]
    assert (rule["resources"], rule["verbs"]) == (["services/proxy"], ["get"])
    assert rule["resourceNames"] == [f"https:{name}:{port['name']}"]
    assert f"{service['metadata']['namespace']}/{name}" == API_SERVICE


def test_the_certificate_is_where_the_configuration_looks() -> None:
    settings, patch = load(DEPLOY / "overlays" / "api" / "config.yaml"), _patch()
    mount = patch["/spec/template/spec/containers/0/volumeMounts/-"]
    assert {Path(settings.api.tls_cert_file).parent, Path(settings.api.tls_key_file).parent} == {
        Path(mount["mountPath"])
    }
    assert patch["/spec/template/spec/volumes/-"]["name"] == mount["name"]


@pytest.mark.parametrize("folder", [COMPONENT, DEPLOY / "components" / "secure-metrics"])
def test_reviews_share_no_queue_with_the_writes_of_the_scheduler(folder: Path) -> None:
    schema = _document(folder / "flowschema.yaml")["spec"]
    own = [
        each["spec"]
        for each in yaml.safe_load_all((DEPLOY / "base" / "flowschemas.yaml").read_text(encoding="utf-8"))
        if each["metadata"]["name"] == "dovetail"
    ]
    assert schema["matchingPrecedence"] < own[0]["matchingPrecedence"]  # the lowest that matches counts
    assert schema["priorityLevelConfiguration"] != own[0]["priorityLevelConfiguration"]
    (rule,) = schema["rules"]
    assert rule["subjects"] == own[0]["rules"][0]["subjects"]
    asked = [(each["apiGroups"], each["resources"], each["verbs"]) for each in rule["resourceRules"]]
    assert asked == [
        (["authentication.k8s.io"], ["tokenreviews"], ["create"]),
        (["authorization.k8s.io"], ["subjectaccessreviews"], ["create"]),
    ]


def test_whoever_may_ask_for_reviews_has_a_flow_schema_for_them() -> None:
    """Every component that binds `system:auth-delegator` to the scheduler's account."""
    delegating = {
        path.parent
        for path in DEPLOY.glob("**/clusterrolebinding*.yaml")
        for each in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if each["roleRef"]["name"] == "system:auth-delegator" and each["subjects"][0]["name"] == "dovetail"
    }
    assert delegating == {COMPONENT, DEPLOY / "components" / "secure-metrics"}
    assert all("flowschema.yaml" in _document(each / "kustomization.yaml")["resources"] for each in delegating)


def test_every_file_of_the_component_is_listed() -> None:
    listed = _document(COMPONENT / "kustomization.yaml")["resources"]
    assert {COMPONENT / name for name in listed} == set(COMPONENT.glob("*.yaml")) - {COMPONENT / "kustomization.yaml"}
