"""Unknown fields and wrong types are named with their place, by the API of the server's version."""

from typing import Any

import pytest

from e2e.controlplane import versions
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.live_cluster import without_cluster
from scheduler.simulation.manifests.documents import Document, ManifestFiles
from scheduler.simulation.manifests.strict_fields import of_object
from tests.support import manifests as m
from tests.support.corpus import corpus

OF_FIELDS = ("there is no such field", "expected ", "is larger than", "is a field of", "is of ", "'2026-13-01")
CLAIM = "resource.k8s.io/v1"


def errors(body: dict[str, Any], minor: int = 37) -> dict[str, str]:
    """The unknown fields and the wrong types; `make reading` and `test_value_rules` look at the values."""
    return {each.field: each.message for each in of_object(body, minor) if each.message.startswith(OF_FIELDS)}


def claim(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": CLAIM, "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": spec}


def request(**fields: Any) -> dict[str, Any]:
    return claim({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}, **fields}]}})


@pytest.mark.parametrize("kubernetes", versions.SUPPORTED)
def test_every_field_of_every_kind_is_known_in_its_version(kubernetes: str) -> None:
    objects = corpus(kubernetes).objects
    found = {
        name: errors(body | {"metadata": body["metadata"] | {"resourceVersion": ""}}, versions.minor(kubernetes))
        for name, body in objects.items()
    }
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
    assert len(found) > 15


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        pytest.param(
            request(selectors=[]),
            "spec.devices.requests[0].selectors",
            "there is no such field here: write it as spec.devices.requests[0].exactly.selectors",
            id="one level too high",
        ),
        pytest.param(
            claim({"tolerations": []}),
            "spec.tolerations",
            "there is no such field here: write it as spec.devices.requests[].exactly.tolerations",
            id="far too high",
        ),
        pytest.param(
            m.pod(containers=[{"name": "c", "nodeSelector": {}}]),
            "spec.containers[0].nodeSelector",
            "there is no such field here: write it as spec.nodeSelector",
            id="too deep",
        ),
        pytest.param(
            claim({"resourceClassName": "gpu"}),
            "spec.resourceClassName",
            "is of resource.k8s.io/v1alpha2: write devices: {requests: [{name: …, exactly: {deviceClassName: …}}]}",
            id="of an older version",
        ),
        pytest.param(
            m.pod(resourceClaims=[{"name": "g", "source": {"resourceClaimName": "c"}}]),
            "spec.resourceClaims[0].source",
            "is of Kubernetes 1.30 and older: write its resourceClaimName or resourceClaimTemplateName here",
            id="of an older pod",
        ),
        pytest.param(
            m.pod(containers=[{"name": "c", "Resources": {}}]),
            "spec.containers[0].Resources",
            "there is no such field: did you mean resources?",
            id="misspelt",
        ),
        pytest.param(
            m.pod(containers=[{"name": "c", "ports": [{"number": 80}]}]),
            "spec.containers[0].ports[0].number",
            "there is no such field: write one of containerPort, hostIP, hostPort, name, protocol",
            id="unknown",
        ),
        pytest.param(m.pod(hostNetwork="yes"), "spec.hostNetwork", "expected true or false, got a text", id="boolean"),
        pytest.param(
            m.pod(priority="5"),
            "spec.priority",
            "expected a whole number, got a text: leave out the quotes",
            id="number",
        ),
        pytest.param(
            m.pod(priority=2**31), "spec.priority", "is larger than 2147483647: write less", id="large number"
        ),
        pytest.param(m.pod(priority=0.5), "spec.priority", "expected a whole number, got a number", id="fraction"),
        pytest.param(
            m.pod(nodeName=5), "spec.nodeName", "expected a text, got a whole number: put it in quotes", id="text"
        ),
        pytest.param(m.pod(nodeSelector=[]), "spec.nodeSelector", "expected a mapping, got a list", id="mapping"),
        pytest.param(
            m.pod(nodeSelector={"a": True}),
            "spec.nodeSelector[a]",
            "expected a text, got true or false: put it in quotes",
            id="value of a map",
        ),
        pytest.param(
            m.pod(containers=[{"name": "c", "command": "sh"}]),
            "spec.containers[0].command",
            "expected a list, got a text",
            id="list",
        ),
        pytest.param(
            m.pod(containers=[{"name": "c", "resources": {"requests": {"cpu": True}}}]),
            "spec.containers[0].resources.requests[cpu]",
            "expected a quantity such as 10Gi, got true or false",
            id="quantity",
        ),
        pytest.param(
            m.pod() | {"metadata": {"name": "p", "creationTimestamp": "2026-13-01T00:00:00Z"}},
            "metadata.creationTimestamp",
            "'2026-13-01T00:00:00Z' is no time: write one such as 2026-01-31T12:00:00Z",
            id="time",
        ),
    ],
)
def test_a_mistake_names_its_field_and_what_to_write(body: dict[str, Any], field: str, message: str) -> None:
    assert errors(body) == {field: message}


def test_a_field_of_another_version_is_named_with_the_versions() -> None:
    body = m.pod(schedulingGroup={"podGroupName": "g"})
    said = "is a field of Kubernetes 1.36 and newer, and this is 1.35: leave it out"
    assert (errors(body, 35), errors(body, 36)) == ({"spec.schedulingGroup": said}, {})


def test_a_kind_is_judged_by_the_nearest_version_that_has_it() -> None:
    body = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"x": 1}}
    assert list(errors(body, 37)) == ["spec.x"]


def test_what_a_server_has_written_is_not_judged_and_other_kinds_are_not_known() -> None:
    stored = m.pod(tomorrow=1)
    stored["metadata"] |= {"resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z"}
    assert errors(stored) == errors({"apiVersion": "example.com/v1", "kind": "Pod", "tomorrow": 1}) == {}


@pytest.mark.parametrize(("version", "placed"), [("1.35", 0), ("1.37", 1)])
def test_manifests_are_judged_by_the_version_that_they_are_meant_for(version: str, placed: int) -> None:
    documents = [Document("f", m.pod("p", schedulingGroup={"podGroupName": "g"}))]
    case = CaseBuilder.of(without_cluster(version), ManifestFiles(documents)).case("dovetail")
    assert len(case.batch.pods) == placed
    assert len(case.problems) == 1 - placed
