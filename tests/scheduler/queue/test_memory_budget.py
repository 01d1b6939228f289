"""Waiting pods and claims share a budget of memory; what counts as usage is always taken."""

import random
from typing import Any

import msgspec
import pytest

from scheduler.change import Change, Kind
from scheduler.cluster.interning import Interner
from scheduler.queue.memory_budget import CLAIM_BYTES, POD_BYTES, MemoryBudget
from solver.domain import Claim, Pod
from tests.support.builders import allocation, claim, config, consumer, entry, pod, result, toleration
from tests.support.cluster_builders import seen

MIB = 1024 * 1024
ROOM_FOR_10_PODS = 20 * (POD_BYTES + 2000)


def _shedding(budget: int = ROOM_FOR_10_PODS) -> MemoryBudget:
    return MemoryBudget(["dovetail"], budget, Interner())


def _waiting(name: str, namespace: str = "a", **fields: object) -> Pod:
    return msgspec.structs.replace(pod(name, namespace=namespace), scheduler_name="dovetail", **fields)


def _gone(each: Pod | Claim) -> Change:
    return msgspec.structs.replace(seen(each), value=None)


def _taken(shedding: MemoryBudget, pods: list[Pod]) -> list[str]:
    return [each.key for each in shedding.admit([seen(each) for each in pods]) if each.value is not None]


def test_within_the_budget_everything_is_taken() -> None:
    shedding = _shedding()
    assert len(_taken(shedding, [_waiting(f"p{n}") for n in range(3)])) == 3
    assert shedding.left(Kind.PODS) == 0


def test_one_namespace_gets_half_of_the_budget_and_another_still_has_room() -> None:
    shedding = _shedding()
    greedy = _taken(shedding, [_waiting(f"p{n}", "a") for n in range(1000)])
    assert len(greedy) == 5
    assert len(_taken(shedding, [_waiting(f"p{n}", "b") for n in range(20)])) >= 2
    assert shedding.largest() == "a"
    assert shedding.bytes <= ROOM_FOR_10_PODS / 2


def test_pods_that_wait_and_cannot_be_read_have_a_budget_too() -> None:
    shedding = _shedding()
    unreadable = [_waiting(f"p{n}", "a", invalid="spec: cannot be read") for n in range(1000)]
    assert len(_taken(shedding, unreadable)) == 5


def test_pods_of_others_and_large_ones_on_nodes_are_kept_without_what_says_where_they_may_run() -> None:
    few, many = (tuple(toleration(f"key-{n}") for n in range(count)) for count in (3, 1000))
    said: dict[str, Any] = {"tolerations": few, "node_selector": (("a", "b"),), "labels": (("app", "x"),)}
    foreign = msgspec.structs.replace(_waiting("p", **said), scheduler_name="other")
    kept = msgspec.structs.replace(foreign, tolerations=(), node_selector=())
    whole = _waiting("q", node_name="n1", **said)
    large = _waiting("r", node_name="n1", **(said | {"tolerations": many}))
    waiting = _waiting("s", **(said | {"tolerations": many}))
    expected = [kept, whole, msgspec.structs.replace(large, tolerations=(), node_selector=()), waiting]
    changes = _shedding(MIB * 64).admit([seen(each) for each in (foreign, whole, large, waiting)])
    assert [each.value for each in changes] == expected


@pytest.mark.parametrize(
    "usage",
    [
        pytest.param(_waiting("p", node_name="n1"), id="bound"),
        pytest.param(_waiting("p", nominated_node_name="n1"), id="nominated"),
        pytest.param(_waiting("p", is_terminal=True, node_name="n1"), id="ended"),
        pytest.param(_waiting("p", invalid="spec: cannot be read", node_name="n1"), id="unreadable on a node"),
        pytest.param(msgspec.structs.replace(_waiting("p"), scheduler_name="other"), id="another scheduler's"),
        pytest.param(
            claim("c", namespace="a", allocation=allocation(result("gpu", "gpu-0", "n1"))), id="allocated claim"
        ),
        pytest.param(claim("c", namespace="a", reserved_for=(consumer("p", "a"),)), id="reserved claim"),
    ],
)
def test_what_counts_as_usage_is_always_taken(usage: Pod | Claim) -> None:
    shedding = _shedding(budget=1)
    assert shedding.admit([seen(usage)]) == [seen(usage)]
    assert shedding.bytes == 0


def test_a_pod_that_was_left_out_is_taken_once_it_is_bound() -> None:
    shedding = _shedding(budget=1)
    assert _taken(shedding, [_waiting("p")]) == []
    bound = _waiting("p", node_name="n1")
    assert shedding.admit([seen(bound)]) == [seen(bound)]
    assert shedding.left(Kind.PODS) == 0


def test_a_claim_that_is_deallocated_and_left_out_comes_as_gone() -> None:
    shedding = _shedding(budget=1)
    shedding.admit([seen(claim("c", namespace="a", allocation=allocation(result("gpu", "gpu-0", "n1"))))])
    free = claim("c", namespace="a")
    assert shedding.admit([seen(free)]) == [_gone(free)]
    assert shedding.admit([seen(free)]) == []


def test_nodes_and_everything_else_pass() -> None:
    shedding = _shedding(budget=1)
    change = Change(kind=Kind.NODES, key="n1", value=None)
    assert shedding.admit([change]) == [change]


def test_a_claim_is_paid_for_by_its_pod() -> None:
    shedding = _shedding()
    owner = _waiting("p", claims=(entry("p-gpu", namespace="a"),))
    assert _taken(shedding, [owner]) == ["a/p"]
    before = shedding.bytes
    own = msgspec.structs.replace(claim("p-gpu", namespace="a"), owner_pod_uid=owner.uid)
    assert shedding.admit([seen(own)]) == [seen(own)]
    assert shedding.bytes == before >= POD_BYTES + CLAIM_BYTES


def test_a_claim_of_a_pod_that_was_left_out_is_left_out_with_it() -> None:
    shedding = _shedding()
    shedding.is_closed = True
    owner = _waiting("p")
    own = msgspec.structs.replace(claim("p-gpu", namespace="a"), owner_pod_uid=owner.uid)
    assert shedding.admit([seen(owner), seen(own)]) == [_gone(owner), _gone(own)]
    shedding.is_closed = False
    assert [key.name for key, _ in shedding.candidates(10)] == ["a/p"]  # its claim comes after it
    assert shedding.readmit(*shedding.candidates(1)[0])
    assert shedding.admit([seen(owner)]) == [seen(owner)]
    assert [key.name for key, _ in shedding.candidates(10)] == ["a/p-gpu"]


def test_claims_that_came_before_their_pods_take_no_room_from_pods() -> None:
    shedding = _shedding()
    owners = [_waiting(f"p{n}", claims=(entry(f"p{n}-gpu", namespace="a"),)) for n in range(100)]
    claims = [
        msgspec.structs.replace(claim(f"{each.id.name}-gpu", namespace="a"), owner_pod_uid=each.uid) for each in owners
    ]
    shedding.admit([seen(each) for each in reversed(claims)])
    taken = _taken(shedding, owners)
    assert taken
    for key, number in shedding.candidates(1000):
        assert shedding.readmit(key, number)
        assert shedding.admit([seen(next(each for each in claims if str(each.id) == key.name))])[0].value is not None
    assert shedding.candidates(1000) == ()


def test_a_named_claim_goes_with_the_pods_that_use_it() -> None:
    shedding = _shedding()
    shedding.is_closed = True
    shared = claim("shared", namespace="a")
    shedding.admit([seen(shared)])
    shedding.is_closed = False
    first = shedding.candidates(1)[0]
    users = [_waiting(f"p{n}", claims=(entry("shared", namespace="a"),)) for n in range(2)]
    shedding.admit([seen(each) for each in users])
    assert shedding.candidates(10) == (first,)
    assert shedding.readmit(*first)
    assert shedding.admit([seen(shared)]) == [seen(shared)]
    before = shedding.bytes
    shedding.admit([_gone(users[0])])
    assert shedding.admit([seen(shared)]) == [seen(shared)]
    assert shedding.bytes < before


def test_a_pod_that_was_taken_stays_although_others_came() -> None:
    shedding = _shedding()
    first = [_waiting(f"p{n}", "a") for n in range(5)]
    assert len(_taken(shedding, first)) == 5
    _taken(shedding, [_waiting(f"p{n}", "b") for n in range(20)])
    assert len(_taken(shedding, first)) == 5


def test_a_pod_that_grows_too_large_comes_as_gone() -> None:
    shedding = _shedding()
    assert _taken(shedding, [_waiting("p")]) == ["a/p"]
    grown = _waiting("p", labels=tuple((f"key-{n}", "x" * 60) for n in range(10_000)))
    assert shedding.admit([seen(grown)]) == [_gone(grown)]
    assert shedding.left(Kind.PODS) == 1
    assert shedding.bytes == 0


def test_room_comes_back_when_pods_are_bound_or_deleted() -> None:
    shedding = _shedding()
    pods = [_waiting(f"p{n}") for n in range(8)]
    assert len(_taken(shedding, pods)) == 5
    assert shedding.candidates(10) == ()
    shedding.admit([_gone(pods[0]), seen(msgspec.structs.replace(pods[1], node_name="n1"))])
    assert [key.name for key, _ in shedding.candidates(10)] == ["a/p5", "a/p6"]


def test_the_smallest_namespace_is_taken_first() -> None:
    shedding = _shedding()
    shedding.is_closed = True
    shedding.admit([seen(_waiting("late", "b"))])
    shedding.is_closed = False
    shedding.admit([seen(_waiting(f"p{n}", "a")) for n in range(3)])
    shedding.is_closed = True
    shedding.admit([seen(_waiting("more", "a"))])
    assert shedding.candidates(10) == ()
    shedding.is_closed = False
    assert [key.name for key, _ in shedding.candidates(10)] == ["b/late", "a/more"]


def test_what_was_read_before_the_watch_showed_it_again_does_not_count() -> None:
    shedding = _shedding()
    shedding.is_closed = True
    shedding.admit([seen(_waiting("p"))])
    shedding.is_closed = False
    (key, number) = shedding.candidates(1)[0]
    shedding.admit([seen(_waiting("p", labels=(("a", "b"),)))])
    assert not shedding.readmit(key, number)
    shedding.admit([_gone(_waiting("p"))])
    assert not shedding.readmit(key, number + 1)


def test_a_namesake_pays_for_itself() -> None:
    shedding = _shedding()
    first = _waiting("p", claims=(entry("x", namespace="a"),))
    shedding.admit([seen(first)])
    shedding.admit([seen(msgspec.structs.replace(_waiting("p"), uid="another"))])
    assert POD_BYTES <= shedding.bytes < POD_BYTES + CLAIM_BYTES


@pytest.mark.parametrize("seed", range(20))
def test_the_budget_holds_and_everything_is_given_back(seed: int) -> None:
    chance, budget = random.Random(seed), 30 * POD_BYTES  # noqa: S311 - repeatable cases, no secret
    shedding = _shedding(budget)
    there: dict[str, Pod | Claim] = {}
    mirrored: set[tuple[Kind, str]] = set()
    for step in range(600):
        change = _random_change(chance, there, step)
        for each in shedding.admit([change]):
            (mirrored.discard if each.value is None else mirrored.add)((each.kind, each.key))
        if chance.random() < 0.1:
            for key, number in shedding.candidates(3):
                assert shedding.readmit(key, number)
                for each in shedding.admit([seen(there[key.name])]):
                    (mirrored.discard if each.value is None else mirrored.add)((each.kind, each.key))
        assert 0 <= shedding.bytes <= budget
        left = shedding.left(Kind.PODS) + shedding.left(Kind.CLAIMS)
        assert len(mirrored) + left == len(there)
    for last in tuple(there.values()):
        shedding.admit([_gone(last)])
    assert shedding.bytes == 0
    assert shedding.left(Kind.PODS) == shedding.left(Kind.CLAIMS) == 0
    assert shedding.largest() == ""


def _random_change(chance: random.Random, there: dict[str, Pod | Claim], step: int) -> Change:
    if there and chance.random() < 0.4:
        return _gone(there.pop(chance.choice(sorted(there))))
    namespace = chance.choice("abc")
    name = f"{chance.choice('pc')}{chance.randrange(40)}"
    made: Pod | Claim
    if name.startswith("p"):
        node = "n1" if chance.random() < 0.2 else ""
        made = _waiting(name, namespace, node_name=node, labels=((f"k{step}", "x" * chance.randrange(2000)),))
    else:
        owner = f"uid-p{chance.randrange(40)}" if chance.random() < 0.7 else ""
        made = msgspec.structs.replace(claim(name, namespace=namespace), owner_pod_uid=owner)
    there[f"{namespace}/{name}"] = made
    return seen(made)


def _large(name: str) -> Claim:
    parameters = '{"x": "' + name + "y" * 10 * CLAIM_BYTES + '"}'
    return msgspec.structs.replace(claim(name, namespace="a"), config=(config(parameters=parameters),))


def test_what_a_claim_has_of_its_own_is_paid_for_although_its_pod_was_taken() -> None:
    """Ten parameters of 10 KiB are nothing that a pod has paid for with its name."""
    shedding = _shedding()
    users = [msgspec.structs.replace(_waiting(f"p{n}"), claims=(entry(f"c{n}", namespace="a"),)) for n in range(2)]
    assert len(_taken(shedding, users)) == 2
    small, large = claim("c0", namespace="a"), _large("c1")
    assert [each.value for each in shedding.admit([seen(small), seen(large)])] == [small, None]
    assert shedding.left(Kind.CLAIMS) == 1


def test_a_large_claim_is_taken_when_there_is_room_for_it() -> None:
    shedding = _shedding(budget=8 * MIB)
    user = msgspec.structs.replace(_waiting("p"), claims=(entry("c", namespace="a"),))
    shedding.admit([seen(user)])
    shedding.is_closed = True
    assert [each.value for each in shedding.admit([seen(_large("c"))])] == [None]
    assert shedding.candidates(10) == ()
    shedding.is_closed = False
    (candidate,) = shedding.candidates(10)
    assert candidate[0].name == "a/c"
    assert shedding.readmit(*candidate)
    assert [each.value for each in shedding.admit([seen(_large("c"))])] == [_large("c")]
    assert shedding.bytes > 10 * CLAIM_BYTES


def test_a_claim_whose_pod_went_is_taken_when_there_is_room_for_it() -> None:
    shedding = _shedding(budget=8 * MIB)
    user = msgspec.structs.replace(_waiting("p"), claims=(entry("c", namespace="a"),))
    shedding.admit([seen(user)])
    shedding.is_closed = True
    shedding.admit([seen(_large("c"))])
    shedding.admit([_gone(user)])
    shedding.is_closed = False

    (candidate,) = shedding.candidates(10)

    assert shedding.readmit(*candidate)
    assert [each.value for each in shedding.admit([seen(_large("c"))])] == [_large("c")]
    assert (shedding.left(Kind.CLAIMS), shedding.candidates(10)) == (0, ())
