"""What can be said about the manifests without a cluster; `test_on_the_api_server` asks the API server itself."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.kube import paths
from scheduler.settings import load
from scheduler.simulation import live_cluster
from scheduler.simulation.adding import karpenter_objects
from solver.domain import quantity

DEPLOY = Path(__file__).parents[2] / "deploy"
BASE = DEPLOY / "base"
MONITORING = DEPLOY / "monitoring"
ROLES = sorted((DEPLOY / "components").rglob("clusterrole.yaml"))
CONFIGURATIONS = sorted(DEPLOY.rglob("config.yaml"))


def _objects() -> list[dict[str, Any]]:
    files = sorted(set(BASE.glob("*.yaml")) - {BASE / "config.yaml", BASE / "kustomization.yaml"})
    return [document for file in files for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))]


def _object(kind: str, name: str = "dovetail") -> dict[str, Any]:
    (found,) = [one for one in _objects() if one["kind"] == kind and one["metadata"]["name"] == name]
    return found


def _container() -> dict[str, Any]:
    (container,) = _object("Deployment")["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.parent.name)
def test_every_configuration_is_right(path: Path) -> None:
    load(path)


def test_every_file_of_the_base_is_listed() -> None:
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    assert {BASE / name for name in listed} == set(BASE.glob("*.yaml")) - {
        BASE / "config.yaml",
        BASE / "kustomization.yaml",
    }


def test_the_container_has_memory_above_the_solvers_own_limit() -> None:
    limit = quantity.units_rounded_up(quantity.parse(_container()["resources"]["limits"]["memory"])) / 2**20
    for path in CONFIGURATIONS:
        assert limit >= load(path).solver.memory_limit_mib + 512


def test_the_role_names_the_lease_of_the_configuration() -> None:
    rules = _object("Role")["rules"]
    assert [rule.get("resourceNames") for rule in rules] == [
        None,
        [load(BASE / "config.yaml").leader_election.lease_name],
    ]
    assert rules[0]["verbs"] == ["create"]


def test_nothing_is_granted_by_wildcard() -> None:
    documents = [*_objects(), *(each for role in ROLES for each in yaml.safe_load_all(role.read_text("utf-8")))]
    roles = [one for one in documents if one["kind"] in {"ClusterRole", "Role"}]
    granted = [word for role in roles for rule in role.get("rules") or () for word in _words(rule)]
    assert granted
    assert [word for word in granted if "*" in word] == []


def test_viewers_may_read_what_commands_list_and_nothing_else() -> None:
    granted = {
        (group, resource)
        for rule in _object("ClusterRole", "dovetail-viewer")["rules"]
        if "resourceNames" not in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    documents = (*live_cluster.DOCUMENTS, *live_cluster.ADMISSION)
    every = (*paths.COLLECTIONS.values(), *(path for _, _, path in documents), *karpenter_objects.PATHS)
    listed = {_group_and_resource(path) for path in every}
    optional = {
        ("resource.k8s.io", "devicetaintrules"),
        ("scheduling.k8s.io", "podgroups"),
        ("scheduling.x-k8s.io", "podgroups"),
        ("dovetail.dev", "deviceholds"),
        ("dovetail.dev", "devicequotas"),
        ("dovetail.dev", "repairplans"),
    }
    assert granted == listed | optional | {("", "events")}
    named = [rule for rule in _object("ClusterRole", "dovetail-viewer")["rules"] if "resourceNames" in rule]
    assert [(rule["apiGroups"], rule["resources"], rule["resourceNames"], rule["verbs"]) for rule in named] == [
        ([""], ["configmaps"], ["dovetail-config"], ["get"]),
        (["coordination.k8s.io"], ["leases"], ["dovetail"], ["get"]),
    ]
    verbs = {verb for rule in _object("ClusterRole", "dovetail-viewer")["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}


def _group_and_resource(path: str) -> tuple[str, str]:
    """Split `/apis/GROUP/VERSION/RESOURCE`, or `/api/v1/RESOURCE`."""
    parts = path.split("/")
    return (parts[2] if parts[1] == "apis" else "", parts[-1])


def test_critical_pods_have_a_quota_where_clouds_want_one() -> None:
    quota = _object("ResourceQuota", "dovetail-critical-pods")
    pods = _object("Deployment")["spec"]
    assert quota["metadata"]["namespace"] == _object("Deployment")["metadata"]["namespace"]
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert scope["values"] == [pods["template"]["spec"]["priorityClassName"]]
    assert int(quota["spec"]["hard"]["pods"]) > pods["replicas"]


def _words(rule: dict[str, Any]) -> list[str]:
    return [word for key in ("apiGroups", "resources", "verbs", "nonResourceURLs") for word in rule.get(key, ())]


def test_the_container_can_change_nothing_but_its_own_folder_for_files() -> None:
    assert _container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    pod = _object("Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert [mount["mountPath"] for mount in _container()["volumeMounts"] if not mount.get("readOnly")] == ["/tmp"]  # noqa: S108


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_probes_and_scrapes_ask_the_ports_that_are_bound_by_default() -> None:
    container, settings = _container(), load(BASE / "config.yaml")
    health, scraped = _port(settings.health.bind_address), _port(settings.metrics.bind_address)
    assert container["ports"] == [
        {"name": "health", "containerPort": health},
        {"name": "metrics", "containerPort": scraped},
    ]
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert probes == {
        "startupProbe": {"path": "/livez", "port": "health"},
        "livenessProbe": {"path": "/livez", "port": "health"},
        "readinessProbe": {"path": "/readyz", "port": "health"},
    }
    annotations = _object("Deployment")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(scraped)


@pytest.mark.parametrize("path", [BASE / "networkpolicy.yaml", DEPLOY / "api" / "networkpolicy.yaml"], ids=str)
def test_network_policies_select_the_pods_and_their_ports(path: Path) -> None:
    policy = yaml.safe_load(path.read_text(encoding="utf-8"))
    pods = _object("Deployment")
    assert policy["metadata"]["namespace"] == pods["metadata"]["namespace"]
    labels = pods["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    (rule,) = policy["spec"]["ingress"]
    names = {each["name"] for each in _container()["ports"]} | {"api"}  # the component adds it
    assert {each["port"] for each in rule["ports"]} <= names


def test_without_a_label_only_monitoring_reads_metrics() -> None:
    (rule,) = _object("NetworkPolicy")["spec"]["ingress"]
    allowed = [each["namespaceSelector"]["matchLabels"] for each in rule["from"]]
    assert allowed == [{"kubernetes.io/metadata.name": "monitoring"}, {"dovetail.dev/scrape": "true"}]
    assert [each["port"] for each in rule["ports"]] == ["metrics"]


def test_a_disruption_leaves_one_of_the_replicas() -> None:
    budget = _object("PodDisruptionBudget")["spec"]
    deployment = _object("Deployment")["spec"]
    assert budget["minAvailable"] < deployment["replicas"]
    assert budget["selector"] == deployment["selector"]
    assert deployment["selector"]["matchLabels"].items() <= deployment["template"]["metadata"]["labels"].items()


def test_what_is_scraped_is_the_port_of_the_pods() -> None:
    monitor = yaml.safe_load((MONITORING / "podmonitor.yaml").read_text(encoding="utf-8"))
    pods = _object("Deployment")["spec"]["template"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= pods["metadata"]["labels"].items()
    (scraped,) = monitor["spec"]["podMetricsEndpoints"]
    assert scraped["port"] in {port["name"] for port in _container()["ports"]}
    assert scraped == {"port": "metrics", "path": "/metrics"}
