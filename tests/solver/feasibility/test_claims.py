"""Reasons against a pod before any node is looked at: one row per reason, with its message."""

import pytest
from msgspec.structs import replace

from solver import missing_claims, solve_greedily
from solver.domain import (
    Claim,
    Constraint,
    ConstraintKind,
    ConsumerReference,
    GangId,
    Pod,
    PodClaim,
    PodVolume,
    Policy,
    Reason,
    ReasonCode,
    Request,
    VolumeClaimId,
)
from solver.feasibility import claims
from tests.support import builders as b
from tests.support.solver_problems import PATIENT

GROUP = ConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="g", uid="uid-g")
BAD = "device.attributes['x'].y =="


def objections(pod: Pod, *known: Claim) -> tuple[Reason, ...]:
    return claims.objections(
        pod, {each.id: each for each in known}, {"gpu": b.gpu_class(), "bad": b.device_class("bad", BAD)}
    )


def codes(pod: Pod, *known: Claim) -> list[ReasonCode]:
    return [reason.code for reason in objections(pod, *known)]


def full(consumers: int = 256, *more: ConsumerReference) -> Claim:
    reserved = [*(b.consumer(f"c{index}") for index in range(consumers)), *more]
    return b.claim("c", allocation=b.allocation(b.result("gpu", "d0", "n1")), reserved_for=reserved)


POD = b.pod("p", "c")
TEMPLATED = b.pod("p", b.entry("c", template="t"))

REFUSED: tuple[tuple[str, Pod, tuple[Claim, ...], ReasonCode, str], ...] = (
    ("an unreadable pod", b.pod("p", invalid="spec: no"), (), ReasonCode.POD_INVALID, "spec: no"),
    ("a bound pod", b.pod("p", node_name="n1"), (), ReasonCode.POD_INVALID, "the pod is bound to node n1"),
    ("a gated pod", b.pod("p", scheduling_gates=("a", "b")), (), ReasonCode.POD_INVALID, "the pod is gated by a, b"),
    ("a pod that goes", b.pod("p", is_deleting=True), (), ReasonCode.POD_INVALID, "the pod is being deleted"),
    (
        "a claim that is not there",
        POD,
        (),
        ReasonCode.CLAIM_MISSING,
        "claim c does not exist yet; the pod waits for it (spec.resourceClaims[0].resourceClaimName)",
    ),
    (
        "a claim of another namespace",
        POD,
        (b.claim("c", namespace="other"),),
        ReasonCode.CLAIM_MISSING,
        "claim c does not exist yet; the pod waits for it (spec.resourceClaims[0].resourceClaimName)",
    ),
    (
        "a claim that is not made yet",
        b.pod("p", b.waiting_entry("t")),
        (),
        ReasonCode.CLAIM_MISSING,
        "the claim of entry waiting, from ResourceClaimTemplate t, does not exist yet; the pod waits for it",
    ),
    (
        "a claim made for another pod",
        TEMPLATED,
        (b.claim("c", owner_pod_uid="somebody"),),
        ReasonCode.CLAIM_NOT_OWNED,
        "claim c of entry c belongs to another pod",
    ),
    (
        "a claim of a group that the pod is not in",
        TEMPLATED,
        (replace(b.claim("c", owner_pod_uid=POD.uid), owner_group_uid="uid-g"),),
        ReasonCode.CLAIM_NOT_OWNED,
        "claim c of entry c belongs to another pod",
    ),
    (
        "a claim of the group that had the name of the pod's",
        replace(TEMPLATED, pod_group="g", pod_group_uid="uid-g-again"),
        (replace(b.claim("c"), owner_group_uid="uid-g"),),
        ReasonCode.CLAIM_NOT_OWNED,
        "claim c of entry c belongs to another pod",
    ),
    (
        "a claim that goes",
        POD,
        (b.claim("c", is_deleting=True),),
        ReasonCode.CLAIM_DELETING,
        "claim c is being deleted",
    ),
    ("an unreadable claim", POD, (b.claim("c", invalid="odd"),), ReasonCode.CLAIM_INVALID, "claim c: odd"),
    (
        "a claim with 256 consumers",
        POD,
        (full(),),
        ReasonCode.CLAIM_FULL,
        "claim c has 256 consumers, the most that a claim can have",
    ),
    (
        "a request of a kind that is not known",
        POD,
        (b.claim("c", Request(name="r", alternatives=())),),
        ReasonCode.CLAIM_INVALID,
        "claim c, request r: neither exactly nor firstAvailable is set, or this version does not know the kind",
    ),
    (
        "a class that is not there",
        POD,
        (b.claim("c", b.first_available("r", b.alternative("s", "absent"))),),
        ReasonCode.CLASS_MISSING,
        "claim c, request r/s: device class absent does not exist; hint: there are bad, gpu",
    ),
    (
        "a mode that is not known",
        POD,
        (b.claim("c", b.request("r", mode="Some")),),
        ReasonCode.CLAIM_INVALID,
        "claim c, request r: allocation mode Some is not known",
    ),
    (
        "no device at all",
        POD,
        (b.claim("c", b.request("r", count=0)),),
        ReasonCode.CLAIM_INVALID,
        "claim c, request r: count is 0: write 1 or more",
    ),
    (
        "a negative capacity",
        POD,
        (b.claim("c", b.request("r", capacity={"memory": "-1Gi"})),),
        ReasonCode.CLAIM_INVALID,
        "claim c, request r: capacity request memory is -1Gi: write 0 or more",
    ),
    (
        "a constraint of a kind that is not known",
        POD,
        (b.claim("c", constraints=(Constraint(kind=ConstraintKind.UNKNOWN, attribute=""),)),),
        ReasonCode.CLAIM_INVALID,
        "claim c: a constraint is neither matchAttribute nor distinctAttribute",
    ),
    (
        "an attribute without a domain",
        POD,
        (b.claim("c", constraints=(b.match("model"),)),),
        ReasonCode.CLAIM_INVALID,
        "claim c: matchAttribute model lacks its domain: write <driver>/model",
    ),
    (
        "two requests of one name",
        POD,
        (b.claim("c", b.request("r"), b.request("r")),),
        ReasonCode.CLAIM_INVALID,
        "claim c: 2 requests are named r",
    ),
    (
        "more devices than an allocation holds",
        POD,
        (b.claim("c", b.request("r", count=20), b.request("s", count=13)),),
        ReasonCode.CLAIM_TOO_LARGE,
        "claim c needs 33 devices; a claim holds at most 32 and never spans nodes: split it over the pods of a gang",
    ),
)


@pytest.mark.parametrize(
    ("pod", "known", "code", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_a_pod_is_refused(pod: Pod, known: tuple[Claim, ...], code: ReasonCode, message: str) -> None:
    (found,) = objections(pod, *known)
    assert (found.code, found.message) == (code, message)


def test_what_kube_scheduler_says_comes_with_the_reason() -> None:
    going, full, absent = replace(b.claim("c"), is_deleting=True), b.claim("c", b.request("r", "absent")), POD
    assert [each.counted_as for each in (*objections(POD, going), *objections(POD, full), *objections(absent))] == [
        'resourceclaim "c" is being deleted',
        "request r: device class absent does not exist",
        'could not find ResourceClaim "default/c"',
    ]


TOLERATED: tuple[tuple[str, Pod, tuple[Claim, ...]], ...] = (
    ("a pod without claims", b.pod("p"), ()),
    ("a claim", POD, (b.claim("c"),)),
    ("an entry that needs no claim", b.pod("p", b.skipped_entry()), ()),
    ("a claim from a template, of the pod", TEMPLATED, (b.claim("c", owner_pod_uid=POD.uid),)),
    (
        "a claim from a template, of the pod's group",
        replace(TEMPLATED, pod_group="g", pod_group_uid="uid-g"),
        (replace(b.claim("c"), owner_group_uid="uid-g"),),
    ),
    ("a named claim that has an owner", POD, (b.claim("c", owner_pod_uid="somebody"),)),
    ("a claim with 255 consumers", POD, (full(255),)),
    ("a full claim that the pod is in", POD, (full(255, b.consumer("p")),)),
    (
        "a full claim that the pod's group is in",
        replace(POD, pod_group="g", pod_group_uid=GROUP.uid),
        (full(255, GROUP),),
    ),
    ("a claim without requests", POD, (replace(b.claim("c"), requests=()),)),
    (
        "too many devices in an alternative that need not be chosen",
        POD,
        (b.claim("c", b.first_available("r", b.alternative("s", count=40), b.alternative("t", count=32))),),
    ),
    (
        "an allocated claim whose class is gone",
        POD,
        (b.claim("c", b.request("r", "absent"), allocation=b.allocation()),),
    ),
)


@pytest.mark.parametrize(("pod", "known"), [row[1:] for row in TOLERATED], ids=[row[0] for row in TOLERATED])
def test_a_pod_is_considered(pod: Pod, known: tuple[Claim, ...]) -> None:
    assert codes(pod, *known) == []


@pytest.mark.parametrize("place", ["class", "request"])
def test_a_selector_that_does_not_compile_is_quoted(place: str) -> None:
    request = b.request("r", "bad") if place == "class" else b.request("r", selectors=(BAD,))
    (reason,) = objections(POD, b.claim("c", request))
    where = "device class bad" if place == "class" else "claim c, request r"
    assert (reason.code, reason.message.startswith(f"{where}: selector {BAD!r}: ")) == (
        ReasonCode.SELECTOR_INVALID,
        True,
    )


def test_every_objection_is_given_and_each_once() -> None:
    entries: tuple[PodClaim, ...] = (b.entry("c", name="one"), b.entry("c", name="two"), b.entry("gone"))
    known = b.claim("c", b.request("r", "absent"), b.request("s", mode="Some"))
    assert codes(b.pod("p", *entries), known) == [
        ReasonCode.CLASS_MISSING,
        ReasonCode.CLAIM_INVALID,
        ReasonCode.CLAIM_MISSING,
    ]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(POD, id="a claim that is named"),
        pytest.param(b.pod("p", b.waiting_entry("t")), id="a claim from a template"),
        pytest.param(b.pod("p", "c", b.waiting_entry("t"), "d", "c"), id="several claims"),
    ],
)
def test_what_is_said_of_a_pod_whose_claims_are_late_is_all_that_there_is_to_say(pod: Pod) -> None:
    late = missing_claims(pod, lambda _: False)

    assert late
    assert late == objections(pod)
    plan = solve_greedily(b.snapshot(b.node("n1"), b.gpu_class()), b.batch(pod), Policy(), PATIENT)
    assert plan.unplaced[0].reasons == late


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(b.pod("p"), id="no claims"),
        pytest.param(b.pod("p", PodClaim(entry="x", template="t", is_skipped=True)), id="a claim that is not needed"),
        pytest.param(b.pod("p", "c", "made"), id="one of several claims is there"),
        pytest.param(b.pod("p", "c", invalid="spec: no"), id="an unreadable pod"),
        pytest.param(replace(POD, scheduling_gates=("g",)), id="a gated pod"),
        pytest.param(replace(POD, gang=GangId("default", "g", "dovetail.dev")), id="a pod of a gang"),
        pytest.param(replace(POD, volumes=(PodVolume(name="v", claim=VolumeClaimId("default", "v")),)), id="volumes"),
    ],
)
def test_a_pod_of_which_more_can_be_said_than_that_its_claims_are_late_is_not_late(pod: Pod) -> None:
    assert missing_claims(pod, lambda claim: claim.name == "made") == ()
