"""The components of `deploy/components`: each grants what one feature needs, and the scheduler knows it by name."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.features import BASE, CONSEQUENCES, KINDS, OFF_BY_DEFAULT, RIGHTS, STATUS_RIGHTS, Feature, granted_by
from scheduler.kube import paths
from scheduler.settings import load
from tests.support.deploy_manifests import documents

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPONENTS = DEPLOY / "components"
ACCOUNT = [{"kind": "ServiceAccount", "name": "dovetail", "namespace": "dovetail-system"}]


def _granted(role: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {
        (verb, group, resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("feature", Feature)
def test_a_component_grants_what_its_feature_needs_and_nothing_else(feature: Feature) -> None:
    role, binding = documents(DEPLOY.parent / feature.component / "clusterrole.yaml")
    assert _granted(role) == {right[:3] for right in (*RIGHTS[feature], *STATUS_RIGHTS.get(feature, ()))}
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == f"dovetail-{feature.value}"
    assert binding["subjects"] == ACCOUNT


def test_the_base_grants_what_the_scheduler_always_needs() -> None:
    role = documents(DEPLOY / "base" / "clusterrole.yaml")[0]
    assert _granted(role) == {right[:3] for right in BASE}


def test_no_right_is_granted_twice() -> None:
    roles = [
        documents(path)[0] for path in (DEPLOY / "base" / "clusterrole.yaml", *COMPONENTS.rglob("clusterrole.yaml"))
    ]
    granted = [each for role in roles if "resources" in role["rules"][0] for each in _granted(role)]
    assert len(granted) == len(set(granted))


def test_every_kind_is_watched_by_a_right_of_its_feature() -> None:
    for feature, kinds in KINDS.items():
        if feature is Feature.KUEUE:
            continue  # its watches are no watches of the cluster cache: `scheduler.placement_check`
        resources = {(right.group, right.resource) for right in RIGHTS[feature] if right.verb == "watch"}
        assert len(resources) == len(kinds)
        for kind in kinds & paths.COLLECTIONS.keys():
            assert kind.value in {resource for _, resource in resources}


def test_every_feature_says_what_follows_without_it() -> None:
    assert CONSEQUENCES.keys() == set(Feature)


@pytest.mark.parametrize("component", sorted(COMPONENTS.iterdir()), ids=lambda path: path.name)
def test_every_file_of_a_component_is_listed(component: Path) -> None:
    (found,) = documents(component / "kustomization.yaml")
    assert found["kind"] == "Component"
    assert set(found["resources"]) == {path.name for path in component.iterdir()} - {"kustomization.yaml"}


def test_the_default_has_every_feature() -> None:
    (overlay,) = documents(DEPLOY / "overlays" / "default" / "kustomization.yaml")
    assert {Path(each).name for each in overlay["components"]} == {each.value for each in set(Feature) - OFF_BY_DEFAULT}


@pytest.mark.parametrize(
    ("words", "manifests"),
    [
        pytest.param(
            'cannot create resource "pods/eviction" in API group ""', "deploy/components/preemption", id="one"
        ),
        pytest.param('cannot patch resource "pods/status" in API group ""', "deploy/base", id="the base's"),
        pytest.param("exceeded quota: cannot take more", "", id="no right"),
    ],
)
def test_a_refusal_names_what_grants_the_right(words: str, manifests: str) -> None:
    assert granted_by(f'User "x" {words} at the cluster scope') == manifests


def test_the_certificate_of_metrics_is_where_the_configuration_looks() -> None:
    settings = load(DEPLOY / "overlays" / "secure-metrics" / "config.yaml").metrics
    (component,) = documents(COMPONENTS / "secure-metrics" / "kustomization.yaml")
    patch = {each["path"]: each["value"] for each in yaml.safe_load(component["patches"][0]["patch"])}
    mount = patch["/spec/template/spec/containers/0/volumeMounts/-"]
    assert {Path(settings.tls_cert_file).parent, Path(settings.tls_key_file).parent} == {Path(mount["mountPath"])}
    assert patch["/spec/template/spec/volumes/-"]["name"] == mount["name"]


def test_the_table_of_rights_has_each_feature() -> None:
    page = (DEPLOY.parent / "docs" / "installing.md").read_text(encoding="utf-8")
    table = page.split("## Rights by feature", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1].strip(" `") for line in table.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(Feature)
