"""Which nominations hold room: those that their node could take, bounded by the node and by namespace."""

import pytest
from msgspec.structs import replace

from solver.domain import Pod
from solver.problem import nominations
from tests.support import builders as b
from tests.support.preemption_cases import decide, running

NODE = b.node("n1", cpu=4, pods=10)


def nominated(name: str, node: str = "n1", **more: object) -> Pod:
    return replace(b.pod(name, **more), nominated_node_name=node)  # type: ignore[arg-type]  # as the caller has it


def counting(*objects: object, pods: tuple[Pod, ...]) -> list[str]:
    snapshot = replace(b.snapshot(*objects), nominated=pods)  # type: ignore[arg-type]  # as the caller has it
    return [pod.id.name for pod in nominations.effective(snapshot)]


def test_pods_that_fit_no_node_hold_none() -> None:
    nodes = [b.node(f"n{n}", cpu=4) for n in range(3)]
    greedy = tuple(nominated(f"x{n}", f"n{n}", cpu=1_000_000) for n in range(3))
    snapshot = replace(b.snapshot(*nodes), nominated=greedy)

    assert len(decide(snapshot, *(b.pod(f"good{n}", cpu=4) for n in range(3))).placements) == 3


def test_a_node_is_held_once_and_not_once_for_each_nomination() -> None:
    pods = tuple(nominated(f"p{n}", cpu=3) for n in range(4))
    assert counting(NODE, pods=pods) == ["p0"]
    assert counting(b.node("n1", cpu=4, pods=2), pods=tuple(nominated(f"p{n}") for n in range(4))) == ["p0", "p1"]


def test_the_most_important_nomination_counts_first_and_then_the_oldest() -> None:
    old = replace(nominated("old", cpu=3), creation="2026-01-01T00:00:00Z")
    new = replace(nominated("new", cpu=3), creation="2026-01-02T00:00:00Z")
    assert counting(NODE, pods=(new, old)) == ["old"]
    assert counting(NODE, pods=(new, old, nominated("high", cpu=3, priority=9))) == ["high"]


@pytest.mark.parametrize(
    ("neighbour", "expected"),
    [
        pytest.param(running("r", "n1", cpu=3, priority=9), [], id="a pod of a higher priority stays"),
        pytest.param(replace(running("r", "n1", cpu=3, priority=9), is_deleting=True), ["p"], id="it is leaving"),
        pytest.param(running("r", "n1", cpu=3, priority=5), ["p"], id="one of the same priority may be moved"),
        pytest.param(running("r", "n2", cpu=3, priority=9), ["p"], id="it runs elsewhere"),
    ],
)
def test_room_that_is_out_of_reach_is_not_held(neighbour: Pod, expected: list[str]) -> None:
    found = counting(NODE, b.node("n2"), neighbour, pods=(nominated("p", cpu=3, priority=5),))
    assert found == expected


def test_a_resource_that_devices_serve_is_no_reason_against_a_nomination() -> None:
    pod = nominated("p", cpu=1)
    pod = replace(pod, requests=(*pod.requests, ("example.com/gpu", 2)))
    assert counting(NODE, pods=(pod,)) == ["p"]
    assert counting(b.node("n1", extended={"example.com/gpu": 1}), pods=(pod,)) == []


def test_of_one_namespace_only_so_many_nominations_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nominations, "MOST_OF_NAMESPACE", 2)
    pods = tuple(nominated(f"p{n}") for n in range(4))
    other = nominated("other", namespace="b")
    assert counting(NODE, pods=(*pods, other)) == ["other", "p0", "p1"]


def test_devices_that_a_node_never_had_hold_none_of_those_that_it_has() -> None:
    objects = (b.node("n1"), b.gpu_slice("n1", count=2), b.gpu_class())
    claims = (b.claim("many", b.request(count=64)), b.claim("one"))
    greedy = replace(b.pod("greedy", "many", priority=5), nominated_node_name="n1")
    snapshot = replace(b.snapshot(*objects, *claims), nominated=(greedy,))
    assert len(decide(snapshot, b.pod("good", "one")).placements) == 1
