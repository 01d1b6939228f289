"""The component of `dovetail observe`: arguments, names and rights fit together, and no right writes."""

import argparse
from pathlib import Path

import yaml

from scheduler.cli.adoption import observe
from scheduler.cli.main import COMMANDS
from scheduler.kube import paths
from tests.support.deploy_manifests import container, documents, pod_template

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPONENT = DEPLOY / "observe"
OPTIONAL = {
    ("resource.k8s.io", "devicetaintrules"),
    ("scheduling.k8s.io", "podgroups"),
    ("scheduling.x-k8s.io", "podgroups"),
    ("dovetail.dev", "deviceholds"),
    ("dovetail.dev", "devicequotas"),
}
"""Kinds that not every supported API server has."""


def test_the_container_runs_the_command_and_records_where_it_may_write() -> None:
    command, *arguments = container(COMPONENT)["args"]
    assert command in COMMANDS
    parser = argparse.ArgumentParser()
    observe.add(parser)
    options = parser.parse_args(arguments)
    (mount,) = container(COMPONENT)["volumeMounts"]
    assert str(options.record.parent) == mount["mountPath"]
    (volume,) = pod_template(COMPONENT)["spec"]["volumes"]
    assert (volume["name"], "emptyDir" in volume) == (mount["name"], True)


def test_the_account_may_list_and_watch_what_decides_and_nothing_else() -> None:
    role, binding = documents(COMPONENT / "clusterrole.yaml")
    granted = {(group, each) for rule in role["rules"] for group in rule["apiGroups"] for each in rule["resources"]}
    watched = {
        (parts[2] if parts[1] == "apis" else "", parts[-1])
        for parts in (path.split("/") for path in paths.COLLECTIONS.values())
    }
    assert granted == watched | OPTIONAL
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list", "watch"}
    (account,) = documents(COMPONENT / "serviceaccount.yaml")
    (subject,) = binding["subjects"]
    assert (subject["name"], subject["namespace"]) == (account["metadata"]["name"], account["metadata"]["namespace"])
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert pod_template(COMPONENT)["spec"]["serviceAccountName"] == account["metadata"]["name"]


def test_nothing_may_connect_to_its_pods_which_are_no_pods_of_the_scheduler() -> None:
    (policy,) = documents(COMPONENT / "networkpolicy.yaml")
    labels = pod_template(COMPONENT)["metadata"]["labels"]
    assert policy["spec"] == {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress"]}
    scheduler = yaml.safe_load((DEPLOY / "base" / "deployment.yaml").read_text(encoding="utf-8"))
    assert not scheduler["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_the_container_can_change_nothing() -> None:
    security, pod = container(COMPONENT)["securityContext"], pod_template(COMPONENT)["spec"]["securityContext"]
    assert (security["readOnlyRootFilesystem"], security["allowPrivilegeEscalation"]) == (True, False)
    assert (security["capabilities"], pod["runAsNonRoot"]) == ({"drop": ["ALL"]}, True)
    assert "memory" in container(COMPONENT)["resources"]["limits"]


def test_every_file_of_the_component_is_listed() -> None:
    (listed,) = documents(COMPONENT / "kustomization.yaml")
    files = {COMPONENT / name for name in listed["resources"]}
    assert files == set(COMPONENT.glob("*.yaml")) - {COMPONENT / "kustomization.yaml"}


def test_it_is_installed_alone_into_the_same_namespace() -> None:
    folder = DEPLOY / "overlays" / "observe"
    overlay = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    assert (overlay["resources"], overlay["components"]) == (["namespace.yaml"], ["../../observe"])
    assert (folder / "namespace.yaml").read_text() == (DEPLOY / "base" / "namespace.yaml").read_text()
