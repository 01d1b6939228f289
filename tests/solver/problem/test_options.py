"""The options to serve a component on a node, independent of usage."""

from solver.domain import Claim, ResourceSlice
from solver.problem.requests.component import Option
from tests.support import builders as b
from tests.support import solver_problems as s

ROOT, NUMA = "x.io/root", "x.io/numa"
NIC = "nic.example.com"


def ways(claim: Claim, *slices: ResourceSlice, rules: tuple[b.SnapshotObject, ...] = ()) -> tuple[Option, ...]:
    classes = (b.gpu_class(), b.device_class("nic", driver=NIC), b.device_class("none", "false"))
    problem = s.problem(b.node("n1"), slices, classes, claim, rules, pods=[b.pod("p", "c")])
    (part,) = problem.classes[0].parts
    return problem.options(part.component, problem.group(0))


def cards(*values: b.Attribute, driver: str = b.GPU_DRIVER, attribute: str = ROOT) -> ResourceSlice:
    devices = (b.device(f"d{index}", attributes={attribute: value}) for index, value in enumerate(values))
    return b.resource_slice("n1", *devices, driver=driver)


def sizes(claim: Claim, *slices: ResourceSlice) -> list[list[int]]:
    """Per option and line, how many types there are to choose from."""
    return [[len(line.types) for line in option.lines] for option in ways(claim, *slices)]


def test_without_constraints_there_is_one_way() -> None:
    assert len(ways(b.claim("c", b.request(count=2)), cards("p", "q", "r"))) == 1


def test_too_few_devices_are_no_way() -> None:
    assert ways(b.claim("c", b.request(count=4)), cards("p", "q", "r")) == ()


def test_every_value_with_enough_devices_is_a_way() -> None:
    claim = b.claim("c", b.request(count=2), constraints=(b.match(ROOT),))
    assert len(ways(claim, cards("p", "p", "q", "q", "r"))) == 2


def test_a_value_has_to_be_there_for_every_request() -> None:
    claim = b.claim("c", b.request("g"), b.request("n", "nic"), constraints=(b.match(ROOT),))
    assert len(ways(claim, cards("p", "q"), cards("q", "r", driver=NIC))) == 1


def test_requests_that_a_constraint_does_not_name_are_free() -> None:
    claim = b.claim(
        "c", *(b.request(name) for name in "abc"), constraints=(b.match(ROOT, "a", "b"), b.match(NUMA, "b", "c"))
    )
    devices = [b.device(f"d{i}", attributes={ROOT: f"r{i % 2}", NUMA: f"m{i // 2}"}) for i in range(4)]
    found = sizes(claim, b.resource_slice("n1", *devices))
    assert sorted(found) == [[2, 1, 2]] * 4


def test_devices_without_the_attribute_are_left_out() -> None:
    claim = b.claim("c", b.request(), constraints=(b.match(ROOT),))
    bare = b.resource_slice("n1", b.device("d"))
    assert ways(claim, bare) == ()


def test_a_number_matches_no_text() -> None:
    claim = b.claim("c", b.request(count=2), constraints=(b.match(ROOT),))
    assert ways(claim, cards(1, "1")) == ()


def test_lists_match_where_they_meet() -> None:
    claim = b.claim("c", b.request(count=2), constraints=(b.match(ROOT),))
    assert sizes(claim, cards(("p", "q"), ("q", "r"))) == [[2]]


def test_two_values_that_choose_the_same_devices_are_one_way() -> None:
    claim = b.claim("c", b.request(count=2), constraints=(b.match(ROOT),))
    assert len(ways(claim, cards(("p", "q"), ("p", "q")))) == 1


def test_lists_that_do_not_meet_are_no_way() -> None:
    claim = b.claim("c", b.request(count=3), constraints=(b.match(ROOT),))
    assert ways(claim, cards(("p", "q"), ("q", "r"), ("r", "p"))) == ()


def test_distinct_values_keep_all_that_have_one() -> None:
    claim = b.claim("c", b.request(count=2), constraints=(b.distinct(ROOT),))
    assert sizes(claim, cards("p", "p", "q")) == [[2]]


def alternatives(claim: Claim, *slices: ResourceSlice) -> list[tuple[int, ...]]:
    return [option.alternatives for option in ways(claim, *slices)]


def test_alternatives_come_in_their_order() -> None:
    claim = b.claim("c", b.first_available("r", *(b.alternative(name, count=4 - i) for i, name in enumerate("abc"))))
    assert alternatives(claim, cards("p", "p", "p")) == [(1,), (2,)]


def test_choices_of_several_requests_come_by_the_sum_of_ranks() -> None:
    requests = (b.first_available(name, *(b.alternative(sub) for sub in "abc")) for name in ("r", "s"))
    claim = b.claim("c", *requests, constraints=(b.match(ROOT),))
    found = ways(claim, cards("p", "p"))
    assert [option.rank for option in found] == sorted(sum(option.alternatives) for option in found)


def test_every_combination_of_alternatives_is_there_once() -> None:
    requests = (b.first_available(name, *(b.alternative(sub) for sub in "abc")) for name in ("r", "s"))
    claim = b.claim("c", *requests, constraints=(b.match(ROOT),))
    assert sorted(alternatives(claim, cards("p", "p"))) == [(i, j) for i in range(3) for j in range(3)]


def test_a_constraint_on_an_alternative_holds_only_for_it() -> None:
    request = b.first_available("r", b.alternative("a", count=2), b.alternative("b", count=2))
    claim = b.claim("c", request, constraints=(b.match(ROOT, "r/a"),))
    assert alternatives(claim, cards("p", "q")) == [(1,)]


ALL = b.claim("c", b.request("r", mode="All"))


def test_all_takes_every_device() -> None:
    (only,) = ways(ALL, cards("p", "q", "r"))
    assert [(line.needed, line.takes_each) for line in only.lines] == [(3, True)]


def test_all_of_none_is_no_way() -> None:
    assert ways(b.claim("c", b.request("r", "none", mode="All")), cards("p")) == ()


def test_all_with_a_tainted_device_is_no_way() -> None:
    rule = b.taint_rule("rule", b.taint("t"), device_name="d1")
    assert ways(ALL, cards("p", "q"), rules=(rule,)) == ()


def test_all_with_a_device_that_a_selector_fails_on_is_no_way() -> None:
    claim = b.claim("c", b.request("r", mode="All", selectors=("device.attributes['x.io'].root == 'p'",)))
    assert ways(claim, b.resource_slice("n1", b.device("d0", attributes={ROOT: "p"}), b.device("d1"))) == ()


def test_all_beside_a_pool_that_is_not_whole_is_no_way() -> None:
    other = b.resource_slice("n1", b.device("x"), driver=NIC, slice_count=2)
    assert ways(ALL, cards("p"), other) == ()


def test_a_count_beside_a_pool_that_is_not_whole_is_a_way() -> None:
    other = b.resource_slice("n1", b.device("x"), driver=NIC, slice_count=2)
    assert len(ways(b.claim("c", b.request()), cards("p"), other)) == 1


def test_all_with_unequal_values_is_no_way() -> None:
    assert ways(b.claim("c", b.request("r", mode="All"), constraints=(b.match(ROOT),)), cards("p", "q")) == ()


def test_all_of_more_than_32_devices_is_no_way() -> None:
    assert ways(ALL, b.gpu_slice("n1", count=33)) == ()


def test_all_of_32_devices_is_a_way() -> None:
    assert len(ways(ALL, b.gpu_slice("n1", count=32))) == 1


def test_alternatives_beyond_32_devices_are_left_out() -> None:
    pairs = (b.first_available(name, b.alternative("a", count=20), b.alternative("b", count=2)) for name in ("r", "s"))
    assert alternatives(b.claim("c", *pairs), b.gpu_slice("n1", count=40)) == [(0, 1), (1, 0), (1, 1)]
