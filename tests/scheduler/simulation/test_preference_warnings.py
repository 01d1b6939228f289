"""Preferences that no node can meet are named once, with the key that was meant."""

from collections.abc import Collection

import pytest
from msgspec.structs import replace

from scheduler.simulation.manifests import preference_warnings
from solver.domain import PodAffinityTerm, TopologySpreadConstraint, WeightedPodAffinityTerm, wording
from tests.support import builders as b

NODES = (b.node("n1", labels={"example.com/rack": "r1"}),)
ABSENT = "no node has a label of this key, so it decides nothing: did you mean example.com/rack?"
TERM = WeightedPodAffinityTerm(weight=1, term=PodAffinityTerm(topology_key="example.com/rak"))


def test_each_key_is_named_once() -> None:
    pods = [replace(b.pod(f"p{number}"), preferred_affinity=(TERM,)) for number in range(2)]
    assert list(preference_warnings.of(b.batch(*pods), NODES)) == [
        f"pod default/p0: preferred pod affinity over example.com/rak: {ABSENT}"
    ]


def test_every_kind_of_preference() -> None:
    term = b.expressions(b.requirement("example.com/rak", "Exists"))
    spread = TopologySpreadConstraint(topology_key="example.com/rak", max_skew=1, is_required=False)
    pod = replace(b.pod("p"), preferred_node_affinity=((1, term),), preferred_anti_affinity=(TERM,), spread=(spread,))
    gang = b.gang("g", 1, b.by_label("example.com/rak", is_required=False))
    found = list(preference_warnings.of(b.batch(b.member(pod, "g"), gangs=[gang]), NODES))
    assert found == [
        f"pod default/p: preferred node affinity example.com/rak: {ABSENT}",
        f"pod default/p: preferred pod anti-affinity over example.com/rak: {ABSENT}",
        f"pod default/p: topology spread (ScheduleAnyway) over example.com/rak: {ABSENT}",
        f"gang default/g: preferred topology example.com/rak: {ABSENT}",
    ]


def test_a_value_that_no_node_has() -> None:
    def found(*values: str) -> list[str]:
        term = b.expressions(b.requirement("example.com/rack", "In", *values))
        return list(preference_warnings.of(b.batch(replace(b.pod("p"), preferred_node_affinity=((1, term),))), NODES))

    (told,) = found("r11", "x")
    assert told.startswith("pod default/p: preferred node affinity example.com/rack in r11, x: no node has such a")
    assert told.endswith("so it decides nothing: did you mean r1?")
    assert found("x", "r1") == []


def test_an_attribute_that_no_device_publishes() -> None:
    slices = (b.resource_slice("n1", b.device("gpu-0", attributes={"fabric": "f"})),)
    levels = (b.by_device(f"gpu.example.com/{name}", is_required=False) for name in ("fabrik", "fabric"))
    batch = b.batch(b.member(b.pod("p"), "g"), gangs=[b.gang("g", 1, *levels)])
    (told,) = preference_warnings.of(batch, NODES, slices)
    assert told.startswith("gang default/g: preferred topology device:gpu.example.com/fabrik: no device publishes this")
    assert told.endswith("so it decides nothing: did you mean gpu.example.com/fabric?")


def test_known_keys_and_a_cluster_without_labels_give_no_warning() -> None:
    known = replace(TERM, term=replace(TERM.term, topology_key="example.com/rack"))
    pod = replace(b.pod("p"), preferred_affinity=(known,))
    assert list(preference_warnings.of(b.batch(pod), NODES)) == []
    assert list(preference_warnings.of(b.batch(replace(pod, preferred_affinity=(TERM,))), ())) == []


def test_however_many_values_are_nowhere_few_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def nearest(_: str, known: Collection[str]) -> str:
        compared.append(len(known))
        return ""

    monkeypatch.setattr(wording, "nearest", nearest)
    nodes = [b.node(f"n{number}", labels={"host": f"h{number}", "rack": f"r{number % 9}"}) for number in range(900)]

    def asking(key: str) -> list[str]:
        terms = [b.expressions(b.requirement(key, "In", f"gone-{number}")) for number in range(300)]
        pods = [replace(b.pod(f"p{n}"), preferred_node_affinity=((1, term),)) for n, term in enumerate(terms)]
        return list(preference_warnings.of(b.batch(*pods), nodes))

    found = asking("host")
    assert compared == []
    assert found[-1] == "292 more preferences name what no node has, and decide nothing"
    assert len(found) == 9

    asking("rack")
    assert compared == [9] * 8
