"""The component of `dovetail page`: arguments, ports, names, rights and paths fit together."""

import argparse
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from scheduler.cli import page
from scheduler.cli.main import COMMANDS
from scheduler.settings import default, parse_address
from tests.support.deploy_manifests import container, documents, pod_template

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPONENT = DEPLOY / "page"


def test_the_container_runs_the_command_with_a_certificate_that_is_mounted() -> None:
    command, *arguments = container(COMPONENT)["args"]
    assert command in COMMANDS
    parser = argparse.ArgumentParser()
    page.add(parser)
    options = parser.parse_args(arguments)
    assert parse_address(options.listen).port == container(COMPONENT)["ports"][0]["containerPort"]
    mounts = {each["mountPath"]: each["name"] for each in container(COMPONENT)["volumeMounts"]}
    volumes = {each["name"]: each for each in pod_template(COMPONENT)["spec"]["volumes"]}
    files = (options.tls_cert_file, options.tls_key_file, str(options.config), str(options.certificate_authority))
    sources = [volumes[mounts[str(Path(each).parent)]] for each in files]
    assert [next(iter(each.keys() - {"name"})) for each in sources] == ["secret", "secret", "configMap", "secret"]


def test_the_page_asks_the_service_of_the_scheduler_and_trusts_its_certificate() -> None:
    parser = argparse.ArgumentParser()
    page.add(parser)
    options = parser.parse_args(container(COMPONENT)["args"][1:])
    service = yaml.safe_load((DEPLOY / "api" / "service.yaml").read_text(encoding="utf-8"))
    address, (port,) = urlsplit(options.server), service["spec"]["ports"]
    assert address.scheme == "https"
    assert address.hostname == f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert (address.port or 443) == port["port"]
    policy = yaml.safe_load((DEPLOY / "api" / "networkpolicy.yaml").read_text(encoding="utf-8"))["spec"]
    assert policy["ingress"] == [{"ports": [{"port": port["targetPort"]}]}]  # from everywhere
    assert documents(COMPONENT / "networkpolicy.yaml")[0]["spec"]["policyTypes"] == ["Ingress"]  # to everywhere
    (volume,) = [each for each in pod_template(COMPONENT)["spec"]["volumes"] if each["name"] == "api-tls"]
    (patch,) = yaml.safe_load((DEPLOY / "api" / "kustomization.yaml").read_text(encoding="utf-8"))["patches"]
    (secret,) = [each["value"]["secret"] for each in yaml.safe_load(patch["patch"]) if "secret" in each["value"]]
    assert volume["secret"]["secretName"] == secret["secretName"]
    assert volume["secret"]["optional"] is True
    assert [each["key"] for each in volume["secret"]["items"]] == ["tls.crt"]  # never the key


def test_the_memory_of_the_container_has_room_for_a_question() -> None:
    limit = container(COMPONENT)["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    assert int(limit.removesuffix("Mi")) >= default().solver.memory_limit_mib + 1024


def test_service_policy_role_and_probe_name_the_port_of_the_pods() -> None:
    files = "service.yaml", "role.yaml", "networkpolicy.yaml"
    (service,), (role,), (policy,) = (documents(COMPONENT / name) for name in files)
    (port,) = container(COMPONENT)["ports"]
    (of_service,) = service["spec"]["ports"]
    assert of_service["targetPort"] == port["name"]
    assert container(COMPONENT)["readinessProbe"]["httpGet"] == {"path": "/", "port": port["name"], "scheme": "HTTPS"}
    assert [each["port"] for each in policy["spec"]["ingress"][0]["ports"]] == [port["name"]]
    (rule,) = role["rules"]
    assert rule["resourceNames"] == [f"https:{service['metadata']['name']}:{of_service['name']}"]
    assert (rule["resources"], rule["verbs"]) == (["services/proxy"], ["get", "create"])
    labels = pod_template(COMPONENT)["metadata"]["labels"]
    assert service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"] == labels


def test_its_pods_are_no_pods_of_the_scheduler() -> None:
    scheduler = yaml.safe_load((DEPLOY / "base" / "deployment.yaml").read_text(encoding="utf-8"))
    assert (
        not scheduler["spec"]["selector"]["matchLabels"].items()
        <= pod_template(COMPONENT)["metadata"]["labels"].items()
    )
    assert (
        pod_template(COMPONENT)["spec"]["serviceAccountName"]
        != scheduler["spec"]["template"]["spec"]["serviceAccountName"]
    )


def test_the_account_may_read_and_review_and_nothing_else() -> None:
    (account,) = documents(COMPONENT / "serviceaccount.yaml")
    bindings = documents(COMPONENT / "clusterrolebindings.yaml")
    assert [each["roleRef"]["name"] for each in bindings] == ["dovetail-viewer", "system:auth-delegator"]
    for each in bindings:
        (subject,) = each["subjects"]
        assert (subject["name"], subject["namespace"]) == (
            account["metadata"]["name"],
            account["metadata"]["namespace"],
        )
    assert pod_template(COMPONENT)["spec"]["serviceAccountName"] == account["metadata"]["name"]


def test_the_container_can_change_nothing() -> None:
    security, pod = container(COMPONENT)["securityContext"], pod_template(COMPONENT)["spec"]["securityContext"]
    assert (security["readOnlyRootFilesystem"], security["allowPrivilegeEscalation"]) == (True, False)
    assert (security["capabilities"], pod["runAsNonRoot"]) == ({"drop": ["ALL"]}, True)
    assert "memory" in container(COMPONENT)["resources"]["limits"]


def test_every_file_of_the_component_is_listed() -> None:
    (listed,) = documents(COMPONENT / "kustomization.yaml")
    files = {COMPONENT / name for name in listed["resources"]}
    assert files == set(COMPONENT.glob("*.yaml")) - {COMPONENT / "kustomization.yaml"}
