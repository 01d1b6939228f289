"""Manifests whose pods have rules about each other: what the server would fill in, and that the rules are kept."""

from typing import Any

from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.manifests.documents import Document
from scheduler.simulation.simulator import SimulationCase
from solver import solve
from solver.domain import HostPort, Policy
from tests.support import manifests as m
from tests.support.solver_problems import PATIENT

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def case(*manifests: m.Manifest) -> SimulationCase:
    assembly = CaseBuilder()
    assembly.add(Document(f"m{index}", each) for index, each in enumerate(manifests))
    return assembly.case("dovetail")


def placed(found: SimulationCase) -> dict[str, str]:
    plan = solve(found.snapshot, found.batch, Policy(), PATIENT)
    return {each.pod.name: each.node for each in plan.placements}


def apart(**more: Any) -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}, **more}
    return {"podAntiAffinity": {REQUIRED: [term]}}


def web(name: str, namespace: str = "default", **spec: Any) -> m.Manifest:
    made = m.pod(name, **spec)
    made["metadata"] |= {"labels": {"app": "web"}, "namespace": namespace}
    return made


def test_nodes_have_their_hostname_label() -> None:
    pods = [web(f"p{index}", affinity=apart()) for index in range(3)]

    assert sorted(placed(case(m.node("n1"), m.node("n2"), *pods)).values()) == ["n1", "n2"]


def test_namespaces_have_the_label_of_their_name_written_down_or_not() -> None:
    def of(name: str) -> dict[str, Any]:
        return apart(namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": name}})

    lab = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab", "labels": {"team": "x"}}}
    old = [web("one", "lab", nodeName="n1"), web("two", "office", nodeName="n1")]
    pods = [web(name, affinity=of(name)) for name in ("lab", "office", "home")]
    found = case(m.node("n1"), lab, *old, *pods)

    assert placed(found) == {"home": "n1"}
    assert [each.name for each in found.snapshot.namespaces] == ["default", "lab", "office"]


def test_ports_in_the_network_of_the_node_are_its_ports() -> None:
    container = {"name": "main", "ports": [{"containerPort": 80}, {"containerPort": 82, "hostPort": 82}]}
    (pod,) = case(web("p", hostNetwork=True, containers=[container])).batch.pods
    (other,) = case(web("p", containers=[container])).batch.pods

    assert pod.host_ports == (HostPort(port=80), HostPort(port=82))
    assert other.host_ports == (HostPort(port=82),)
