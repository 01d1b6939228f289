"""A unit's writes in their order, and what a live read makes of a write that did not go through."""

import msgspec
import pytest

from scheduler.commit.claims import Allocate, ClaimWrite, Done, Operations, Reserve, Retry, judge, operations
from solver.domain import Claim, ClaimId, Reason, ReasonCode
from tests.support.builders import (
    allocation,
    claim,
    claim_allocation,
    consumer,
    held,
    placement,
    pod,
    result,
    share_id,
)
from tests.support.cluster_builders import unit

NEW = claim("new")
OLD = held("old", result("gpu", "gpu-1", "n1"), node_name="n1")
WANTED = allocation(result("gpu", "gpu-0", "n1"), node_name="n1")
OTHER = allocation(result("gpu", "gpu-7", "n1"), node_name="n1")
P, Q = pod("p", "new", "old"), pod("q", "new")


def changed(of: Claim, **changes: object) -> Claim:
    return msgspec.structs.replace(of, **changes)


def no_group(*_: object) -> str:
    return ""


def found(*claims: Claim, assumed: tuple[Claim, ...] = ()) -> Operations:
    known = {each.id: each for each in claims}
    shown = known | {each.id: each for each in assumed}
    parts = (placement(P, "n1"), placement(Q, "n1"), claim_allocation(NEW, result("gpu", "gpu-0", "n1")))

    def find(key: ClaimId) -> Claim | None:
        return known.get(key)

    answer = operations(unit(*parts), find, no_group, shown.get)
    assert isinstance(answer, Operations)
    return answer


def test_a_claim_is_allocated_with_every_consumer_of_the_unit_at_once() -> None:
    first = found(NEW, OLD).claims[0]

    assert isinstance(first, Allocate)
    assert first.consumers == (consumer("p"), consumer("q"))


def test_a_claim_that_was_allocated_before_is_reserved() -> None:
    second = found(NEW, OLD).claims[1]

    assert second == Reserve(claim=OLD, consumers=(consumer("p"),), assumed=OLD.allocation)


def test_what_was_decided_on_is_known_of_a_claim_whose_allocation_the_watch_has_not_shown() -> None:
    """Another client may have allocated it otherwise meanwhile: the pod would be elsewhere than its devices."""
    second = found(NEW, changed(OLD, allocation=None), assumed=(OLD,)).claims[1]

    assert second == Reserve(claim=changed(OLD, allocation=None), consumers=(consumer("p"),), assumed=OLD.allocation)
    assert judge(second, OLD) == Retry(claim=OLD)
    refusal = judge(second, changed(OLD, allocation=OTHER))
    assert not isinstance(refusal, Done | Retry)
    assert refusal.code is ReasonCode.CONFLICT


@pytest.mark.parametrize("name", ["new", "old"], ids=["one to allocate", "one to join"])
def test_a_unit_whose_claim_was_made_again_has_no_writes(name: str) -> None:
    again = {each.id: changed(each, uid="again") if each.id.name == name else each for each in (NEW, OLD)}
    parts = (placement(P, "n1"), claim_allocation(NEW, result("gpu", "gpu-0", "n1")))
    answer = operations(unit(*parts), again.get, no_group, again.get)

    assert not isinstance(answer, Operations)
    assert answer == Reason(
        code=ReasonCode.CONFLICT, message=f"claim default/{name} was deleted and created again meanwhile"
    )


def test_every_pod_of_the_unit_is_bound_where_it_was_placed() -> None:
    assert found(NEW, OLD).bindings == (placement(P, "n1"), placement(Q, "n1"))


def test_a_unit_whose_claim_is_gone_has_no_writes() -> None:
    answer = operations(unit(placement(pod("p", "old"), "n1")), lambda _: None, no_group, lambda _: None)

    assert not isinstance(answer, Operations)
    assert answer.code is ReasonCode.CLAIM_MISSING
    assert "default/old" in answer.message


ALLOCATE = Allocate(claim=NEW, allocation=WANTED, consumers=(consumer("p"),))
RESERVE = Reserve(claim=OLD, consumers=(consumer("p"),))
SHARED = allocation(result("gpu", "gpu-0", "n1", share_id=share_id(1)), node_name="n1")


@pytest.mark.parametrize(
    ("write", "live", "code"),
    [
        pytest.param(ALLOCATE, None, ReasonCode.CLAIM_MISSING, id="allocate: gone"),
        pytest.param(ALLOCATE, changed(NEW, uid="another"), ReasonCode.CONFLICT, id="allocate: made anew"),
        pytest.param(ALLOCATE, changed(NEW, is_deleting=True), ReasonCode.CLAIM_DELETING, id="allocate: deleting"),
        pytest.param(ALLOCATE, changed(NEW, allocation=OTHER), ReasonCode.CONFLICT, id="allocate: elsewhere"),
        pytest.param(ALLOCATE, changed(NEW, allocation=SHARED), ReasonCode.CONFLICT, id="allocate: a share of it"),
        pytest.param(ALLOCATE, changed(NEW, allocation=WANTED), ReasonCode.CONFLICT, id="allocate: same, not reserved"),
        pytest.param(RESERVE, None, ReasonCode.CLAIM_MISSING, id="reserve: gone"),
        pytest.param(RESERVE, changed(OLD, is_deleting=True), ReasonCode.CLAIM_DELETING, id="reserve: deleting"),
        pytest.param(RESERVE, changed(OLD, allocation=None), ReasonCode.CONFLICT, id="reserve: deallocated"),
        pytest.param(RESERVE, changed(OLD, allocation=OTHER), ReasonCode.CONFLICT, id="reserve: allocated anew"),
        pytest.param(
            RESERVE,
            changed(OLD, reserved_for=tuple(consumer(f"q{number}") for number in range(256))),
            ReasonCode.CLAIM_FULL,
            id="reserve: full",
        ),
    ],
)
def test_a_write_that_makes_no_sense_any_more_ends_with_its_reason(
    write: ClaimWrite, live: Claim | None, code: ReasonCode
) -> None:
    judgement = judge(write, live)

    assert not isinstance(judgement, Done | Retry)
    assert judgement.code is code
    assert str(write.claim.id) in judgement.message


@pytest.mark.parametrize(
    ("write", "live"),
    [
        pytest.param(ALLOCATE, changed(NEW, resource_version="9"), id="allocate: something else changed"),
        pytest.param(RESERVE, changed(OLD, resource_version="9"), id="reserve: something else changed"),
        pytest.param(
            RESERVE,
            changed(OLD, reserved_for=tuple(consumer(f"q{number}") for number in range(255))),
            id="reserve: one place left",
        ),
    ],
)
def test_a_write_is_repeated_on_the_newer_state_where_it_still_makes_sense(write: ClaimWrite, live: Claim) -> None:
    assert judge(write, live) == Retry(claim=live)


@pytest.mark.parametrize(
    ("write", "live"),
    [
        pytest.param(ALLOCATE, changed(NEW, allocation=WANTED, reserved_for=(consumer("p"),)), id="allocate"),
        pytest.param(RESERVE, changed(OLD, reserved_for=(consumer("q"), consumer("p"))), id="reserve"),
    ],
)
def test_a_write_that_acted_though_its_answer_was_lost_is_done(write: ClaimWrite, live: Claim) -> None:
    assert judge(write, live) == Done(claim=live)


def test_claims_are_looked_up_by_key() -> None:
    asked: list[ClaimId] = []

    def find(key: ClaimId) -> Claim | None:
        asked.append(key)
        return OLD

    operations(unit(placement(pod("p", "old"), "n1")), find, no_group, lambda _: None)

    assert asked == [OLD.id]
