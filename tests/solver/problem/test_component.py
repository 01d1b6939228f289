"""How a claim is cut into independent components."""

import pytest
from msgspec.structs import replace

from solver.domain import Claim, ConstraintKind, DerivedAttribute, Request, SubRequest
from solver.feasibility.device_attributes import AttributeName
from solver.problem.requests.component import Ask, ClaimComponent, Member, components_of
from tests.support import builders as b

ROOT = "x.io/root"


def parts(claim: Claim) -> tuple[ClaimComponent, ...]:
    numbers: dict[SubRequest, int] = {}
    return components_of(claim, lambda alternative: numbers.setdefault(alternative, len(numbers)))


def requests(number: int, count: int = 1) -> list[Request]:
    return [b.request(f"r{index}", count=count) for index in range(number)]


POSITIONS: tuple[tuple[str, Claim, list[tuple[int, ...]]], ...] = (
    ("nothing joins requests", b.claim("c", *requests(3)), [(0,), (1,), (2,)]),
    (
        "a constraint joins what it names",
        b.claim("c", *requests(3), constraints=(b.match(ROOT, "r0", "r2"),)),
        [(0, 2), (1,)],
    ),
    ("a constraint without names joins all", b.claim("c", *requests(3), constraints=(b.match(ROOT),)), [(0, 1, 2)]),
    (
        "constraints that meet in a request join",
        b.claim("c", *requests(3), constraints=(b.match(ROOT, "r0", "r1"), b.distinct(ROOT, "r1", "r2"))),
        [(0, 1, 2)],
    ),
    (
        "an alternative joins its request",
        b.claim(
            "c",
            b.first_available("r0", b.alternative("a"), b.alternative("b")),
            b.request("r1"),
            constraints=(b.match(ROOT, "r0/b", "r1"),),
        ),
        [(0, 1)],
    ),
    (
        "an unknown name joins nothing",
        b.claim("c", *requests(2), constraints=(b.match(ROOT, "r0", "no"),)),
        [(0,), (1,)],
    ),
    ("32 devices stay apart", b.claim("c", *requests(2, 16)), [(0,), (1,)]),
    (
        "more than 32 devices in some choice are counted together",
        b.claim("c", b.first_available("r0", b.alternative("a", count=31), b.alternative("b")), *requests(3)[1:]),
        [(0, 1, 2)],
    ),
    ("All is counted with the rest", b.claim("c", b.request("r0", mode="All"), b.request("r1")), [(0, 1)]),
    ("admin access joins all", b.claim("c", b.request("r0", is_admin=True), *requests(3)[1:]), [(0, 1, 2)]),
)


@pytest.mark.parametrize(("claim", "positions"), [row[1:] for row in POSITIONS], ids=[row[0] for row in POSITIONS])
def test_a_claim_is_cut(claim: Claim, positions: list[tuple[int, ...]]) -> None:
    assert [each.positions for each in parts(claim)] == positions


def test_a_claim_without_requests_has_no_parts() -> None:
    bare = Claim(id=b.claim("c").id, uid="u")
    assert parts(bare) == ()


def test_equal_requests_are_equal_components() -> None:
    first, second = parts(b.claim("c", *requests(2)))
    assert first.component == second.component


def test_an_all_request_needs_no_number() -> None:
    (only,) = parts(b.claim("c", b.request(mode="All", count=3)))
    assert only.component.requests == ((Ask(0, 0),),)


def test_members_name_requests_of_the_component() -> None:
    claim = b.claim("c", *requests(3), constraints=(b.match(ROOT, "r1", "r2"),))
    (link,) = parts(claim)[1].component.links
    assert link.members == (Member(0, -1, AttributeName.parse(ROOT)), Member(1, -1, AttributeName.parse(ROOT)))


def test_a_member_of_one_alternative_says_which() -> None:
    request = b.first_available("r0", b.alternative("a"), b.alternative("b"))
    (only,) = parts(b.claim("c", request, constraints=(b.distinct(ROOT, "r0/b"),)))
    (link,) = only.component.links
    assert (link.kind, link.members) == (ConstraintKind.DISTINCT, (Member(0, 1, AttributeName.parse(ROOT)),))


def test_what_an_alternative_derives_is_compared_of_its_devices() -> None:
    derived = replace(b.alternative("b"), derived_attributes=(DerivedAttribute(name=ROOT, expression="device.driver"),))
    request = b.first_available("r0", b.alternative("a"), derived)
    (only,) = parts(b.claim("c", request, constraints=(b.match(ROOT),)))
    (link,) = only.component.links
    assert [link.compared(0, each) for each in (0, 1)] == [
        AttributeName.parse(ROOT),
        AttributeName.parse(ROOT, "device.driver"),
    ]


@pytest.mark.parametrize(
    ("claim", "needs_identity"),
    [
        (b.claim("c", b.request("r", count=2), constraints=(b.match(ROOT),)), False),
        (b.claim("c", b.request("r", count=2), constraints=(b.distinct(ROOT),)), True),
        (b.claim("c", b.request("r", is_admin=True)), True),
    ],
    ids=["match", "distinct", "admin"],
)
def test_rules_about_single_devices_need_identity(claim: Claim, *, needs_identity: bool) -> None:
    assert parts(claim)[0].component.needs_identity is needs_identity


def test_only_what_may_exceed_the_limit_is_limited() -> None:
    small, large = b.claim("c", b.request("r", count=32)), b.claim("c", b.request("r", mode="All"))
    assert [parts(each)[0].component.most_results for each in (small, large)] == [0, 32]
