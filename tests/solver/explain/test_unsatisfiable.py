"""Requirements that no node meets are found once for all pods, however many nodes there are."""

from collections.abc import Iterable, Iterator
from typing import SupportsIndex

import pytest
from msgspec.structs import replace

from solver import solve
from solver.domain import Node, Pod, Policy, TopologySpreadConstraint, wording
from solver.explain.unsatisfiable import UnsatisfiableRequirements
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support import volume_builders as volumes

HOST = "kubernetes.io/hostname"


class Looked(tuple[Node, ...]):  # noqa: SLOT001 -- it counts
    """Nodes that count how often one of them is looked at."""

    looks = 0

    def __iter__(self) -> Iterator[Node]:
        for each in super().__iter__():
            self.looks += 1
            yield each

    def __getitem__(self, index: SupportsIndex) -> Node:  # type: ignore[override]  # no slices here
        self.looks += 1
        return super().__getitem__(index)


def problem_of(hosts: Iterable[str], *pods: Pod) -> Problem:
    nodes = (b.node(name, labels={HOST: name}) for name in hosts)
    return prepare(b.snapshot(nodes), b.batch(*pods), Policy(), SolverCache())


def on_host(name: str, host: str) -> Pod:
    return replace(b.pod(name, cpu=1 + len(name)), node_selector=((HOST, host),))


def told(never: UnsatisfiableRequirements, problem: Problem) -> list[list[str]]:
    return [[reason.message for reason in never.reasons(each)] for each in problem.classes]


def test_how_large_nodes_are_is_looked_at_once_for_all_pods() -> None:
    pods = [b.pod(f"p{number}", cpu=100 + number) for number in range(20)]
    problem = problem_of((f"n{number:02}" for number in range(30)), *pods)
    nodes = problem.inventory.nodes = Looked(problem.inventory.nodes)
    found = told(UnsatisfiableRequirements(problem), problem)
    assert found[-1] == ["the pod requests 119 cpu; the largest node that it may use (n00) has 64"]
    assert len(found) == len(pods)
    assert nodes.looks == len(nodes) + len(pods)


def test_of_many_host_names_only_the_nearest_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    real = wording.nearest

    def nearest(name: str, known: Iterable[str]) -> str:
        names = list(known)
        compared.append(len(names))
        return real(name, names)

    monkeypatch.setattr(wording, "nearest", nearest)
    pods = (on_host("p", "node-0150-b"), on_host("pp", "node-0150-b"))
    problem = problem_of((f"node-{number:04}-a" for number in range(300)), *pods)
    found = told(UnsatisfiableRequirements(problem), problem)
    assert found == [[f"nodeSelector {HOST}=node-0150-b: no node has it: did you mean node-0150-a?"] for _ in pods]
    assert compared == [64]


def test_a_spread_over_a_key_that_no_node_has_names_the_key_that_was_meant() -> None:
    spread = TopologySpreadConstraint(topology_key="example.com/rak", max_skew=1)
    pod = replace(b.pod("p"), spread=(spread,))
    decided = s.plan(b.node("n1", labels={"example.com/rack": "a"}), pods=(pod,))
    key = "example.com/rak"
    told = f"topology spread over {key}: no node has a label {key}: did you mean example.com/rack?"
    assert told in s.messages(decided, "p")


def test_a_volume_that_is_to_be_made_on_a_node_that_is_gone() -> None:
    made = volumes.storage_class("made", "csi.example.com")
    claim = volumes.volume_claim("data", storage="made", selected="gone")
    snapshot = volumes.with_storage(b.snapshot(b.node("n1")), made, claim)
    decided = solve(snapshot, b.batch(volumes.using(b.pod("p"), "data")), Policy(), s.PATIENT)
    lead = "volume claim data: its volume is to be made on node gone, which does not exist"
    assert any(each.startswith(lead) for each in s.messages(decided, "p"))
