"""The report on one pod: groups of nodes, device counts, the conflict, and changes that were solved."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from solver.diagnosis import conflict_model, explain_pod, facts
from solver.diagnosis.feasibility_probe import FeasibilityProbe, NodeCases, ProbeCase
from solver.domain import (
    HOSTNAME,
    Claim,
    LabelRequirement,
    LabelSelector,
    NodeDiagnosis,
    Pod,
    PodDiagnosis,
    PodId,
    Policy,
    RequestCount,
    ResourceSlice,
    TopologySpreadConstraint,
)
from solver.problem.devices import inventory_builder
from solver.problem.devices.inventory import Inventory
from tests.support import builders as b
from tests.support import solver_problems as s

ROOT = "resource.kubernetes.io/pcieRoot"
GPU = b.gpu_class()
POD = b.pod("p", "c")


def used(node: str, *numbers: int) -> list[Claim]:
    return [b.held(f"h-{node}-{number}", b.result("gpu", f"gpu-{number}", node)) for number in numbers]


def diagnose(*objects: s.Objects, pods: Sequence[Pod] = (POD,)) -> PodDiagnosis:
    return explain_pod(b.snapshot(*objects), b.batch(*pods), pods[-1], Policy(), s.PATIENT)


def only(found: PodDiagnosis) -> NodeDiagnosis:
    (kind,) = found.nodes
    return kind


def messages(found: PodDiagnosis) -> list[str]:
    return [each.message for each in found.changes]


def test_a_pod_that_fits_is_placed() -> None:
    found = diagnose(b.node("n1"), b.gpu_slice("n1"), GPU, b.claim("c", b.request("r")))

    assert (found.node, found.changes, only(found).fits) == ("n1", (), True)


def test_nodes_with_equal_answers_are_one_kind() -> None:
    found = diagnose(
        *(b.node(f"n{number}") for number in range(4)),
        *(b.gpu_slice(f"n{number}", count=4) for number in range(3)),
        *(each for number in range(3) for each in used(f"n{number}", number, number + 1)),
        GPU,
        b.claim("c", b.request("r", count=3)),
    )

    assert [(kind.nodes, [each.free for each in kind.requests]) for kind in found.nodes] == [
        (("n0", "n1", "n2"), [2]),
        (("n3",), [0]),
    ]


def test_what_was_not_counted_is_not_said_to_be_none() -> None:
    """Beyond the groups that are looked at in depth it is not known how many devices fit together."""
    free = range(1, 15)
    found = diagnose(
        *(b.node(f"n{number}") for number in free),
        *(b.gpu_slice(f"n{number}", count=number) for number in free),
        GPU,
        b.claim("c", b.request("r", count=20)),
    )

    counts = [(each.free, each.together) for kind in found.nodes for each in kind.requests]
    assert len(counts) == len(free)
    assert sum(together is None for _, together in counts) == 2
    assert all(together in {each, None} for each, together in counts)


def test_the_whole_cluster_is_indexed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes on one node do not replace the inventory of all nodes: `explain` asks the whole cluster again."""
    built: list[int] = []
    build = inventory_builder.build_inventory

    def counted(*arguments: Any, **named: Any) -> Inventory:
        built.append(len(arguments[0]))
        return build(*arguments, **named)

    monkeypatch.setattr(inventory_builder, "build_inventory", counted)
    found = diagnose(
        *(b.node(f"n{number}") for number in range(4)),
        *(b.gpu_slice(f"n{number}", count=4) for number in range(4)),
        *(each for number in range(4) for each in used(f"n{number}", 0)),
        GPU,
        b.claim("c", b.request("r", count=4)),
    )

    assert found.changes
    assert built.count(4) == 1
    assert 1 in built


def test_devices_are_counted_by_what_is_in_their_way() -> None:
    found = diagnose(
        b.node("n1"),
        b.resource_slice(
            "n1",
            *(
                b.device(
                    f"gpu-{index}",
                    attributes={ROOT: f"root-{index // 3}"},
                    taints=(b.taint("broken"),) if index == 5 else (),
                )
                for index in range(6)
            ),
        ),
        used("n1", 0),
        GPU,
        b.claim("c", b.request("r", count=3), constraints=(b.match(ROOT),)),
    )

    assert only(found).requests == (
        RequestCount(
            request="r",
            needed=3,
            matching=6,
            in_use=1,
            tainted=1,
            free=4,
            aligned=2,
            together=2,
            left_out=("1 tainted with broken:NoSchedule",),
        ),
    )


def test_a_pool_that_is_not_whole_is_named_at_its_nodes_and_at_no_others() -> None:
    found = diagnose(
        *(b.node(f"n{number}") for number in range(4)),
        *(b.resource_slice(f"n{number}", b.device("d"), slice_count=2) for number in range(2)),
        b.resource_slice("rack", b.device("d"), b.device("d"), at=b.scope(selector=b.on_node("n2"))),
        GPU,
        b.claim("c", b.request("r")),
    )

    own = "the pool of gpu.example.com is incomplete: 1 of 2 slices are published"
    rack = "pool gpu.example.com/rack is not used: device d is published 2 times"
    assert [(kind.nodes, kind.pools) for kind in found.nodes] == [
        (("n0", "n1"), (own,)),
        (("n2",), (rack,)),
        (("n3",), ()),
    ]


def test_one_more_free_device_under_one_root() -> None:
    found = diagnose(
        b.node("n1"),
        b.gpu_slice("n1"),
        used("n1", 3, 4, 5),
        GPU,
        b.claim("c", b.request("r", count=4), constraints=(b.match(ROOT, "r"),)),
    )

    assert messages(found) == [
        "1 more free device under one pcieRoot, now held by default/h-n1-3",
        "3 instead of 4 for request r: in a new claim, as a claim cannot be changed",
        f"without the same {ROOT} over r: in a new claim, as a claim cannot be changed",
    ]
    assert only(found).conflict == (
        "request r: 4 devices",
        f"the same {ROOT} over r",
        "devices in use by default/h-n1-3, default/h-n1-4, default/h-n1-5",
    )


def test_a_claim_whose_device_nobody_publishes_any_more_is_not_in_the_way() -> None:
    held = used("n1", 0, 5)  # gpu-5 was unplugged: who ends there gives nothing back
    found = diagnose(b.node("n1"), b.gpu_slice("n1", count=1), *held, GPU, b.claim("c", b.request("r")))

    assert messages(found) == ["1 more free device, now held by default/h-n1-0"]
    assert only(found).conflict == ("request r: 1 device", "devices in use by default/h-n1-0")


def test_several_devices_that_have_to_be_freed_are_as_few_as_will_do() -> None:
    found = diagnose(
        b.node("n1"),
        b.gpu_slice("n1", count=4),
        used("n1", 0, 1, 2),
        GPU,
        b.claim("c", b.request("r", count=3)),
    )

    assert messages(found)[0].startswith("2 more free devices, now held by")


def test_of_a_claim_only_the_devices_are_freed_that_are_needed() -> None:
    held = b.held("all", *(b.result("gpu", f"gpu-{number}", "n1") for number in range(8)))
    found = diagnose(b.node("n1"), b.gpu_slice("n1"), held, GPU, b.claim("c", b.request("r")))

    assert messages(found) == ["1 more free device, now held by default/all"]


def test_claims_of_other_devices_are_not_named() -> None:
    nics = b.resource_slice("n1", b.device("nic-0"), driver="nic.example.com")
    both = b.held("both", b.result("gpu", "gpu-0", "n1"), b.result("nic", "nic-0", "n1", driver="nic.example.com"))
    found = diagnose(b.node("n1"), b.gpu_slice("n1", count=1), nics, both, GPU, b.claim("c", b.request("r")))

    assert messages(found) == ["1 more free device, now held by default/both"]


def test_a_taint_of_the_devices() -> None:
    found = diagnose(b.node("n1"), b.gpu_slice("n1", taints=(b.taint("sick"),)), GPU, b.claim("c", b.request("r")))

    assert messages(found) == [
        "tolerate the device taint sick:NoSchedule in the request: in a new claim, as a claim cannot be changed"
    ]
    assert only(found).conflict == ("request r: 1 device", "taint sick:NoSchedule on 8 devices")


def test_nodes_whose_devices_have_different_taints_are_different_kinds() -> None:
    taints = {"n1": "sick", "n2": "hot", "n3": "sick"}
    found = diagnose(
        *map(b.node, taints),
        *(b.gpu_slice(node, count=2, taints=(b.taint(taint),)) for node, taint in taints.items()),
        GPU,
        b.claim("c", b.request("r")),
    )
    assert [(kind.nodes, kind.requests[0].left_out, kind.conflict[1]) for kind in found.nodes] == [
        (("n1", "n3"), ("2 tainted with sick:NoSchedule",), "taint sick:NoSchedule on 2 devices"),
        (("n2",), ("2 tainted with hot:NoSchedule",), "taint hot:NoSchedule on 2 devices"),
    ]


def test_a_taint_of_the_node() -> None:
    found = diagnose(b.node("n1", taints=(b.taint("special"),)), b.gpu_slice("n1"), GPU, b.claim("c", b.request("r")))

    assert messages(found) == ["tolerate taint special:NoSchedule of the node"]
    assert only(found).objections == ("node(s) had untolerated taint {special: }",)


def test_a_change_that_is_not_enough_is_not_reported() -> None:
    found = diagnose(
        b.node("n1", taints=(b.taint("special"),)),
        b.gpu_slice("n1", count=1),
        used("n1", 0),
        GPU,
        b.claim("c", b.request("r")),
    )

    assert messages(found) == []


def test_room_on_the_node() -> None:
    pod = b.pod("p", "c", cpu=10)
    found = diagnose(b.node("n1", cpu=8), b.gpu_slice("n1"), GPU, b.claim("c", b.request("r")), pods=(pod,))

    assert only(found).objections == ("Insufficient cpu: 10 needed, 8 left",)
    assert messages(found) == ["room for cpu on the node (10 needed, 8 left)"]


def test_a_selector_that_no_node_matches() -> None:
    pod = b.pod("p", "c", node_selector={"zone": "a"})
    found = diagnose(b.node("n1"), b.gpu_slice("n1"), GPU, b.claim("c", b.request("r")), pods=(pod,))

    assert messages(found) == ["without zone=a in its nodeSelector"]


def test_a_misspelt_label_is_put_right_where_the_pod_then_fits() -> None:
    pod = b.pod("p", "c", node_selector={"zone": "east-11"})
    found = diagnose(
        b.node("n1", labels={"zone": "west"}),
        b.node("n2", labels={"zone": "east-1"}),
        b.gpu_slice("n2"),
        GPU,
        b.claim("c", b.request("r")),
        pods=(pod,),
    )

    assert [(each.message, each.node) for each in found.changes] == [
        ("zone=east-1 instead of zone=east-11 in its nodeSelector", "n2"),
        ("without zone=east-11 in its nodeSelector", "n2"),
    ]


def test_several_rules_about_nodes_are_dropped_together_only_where_one_is_not_enough() -> None:
    pod = b.pod("p", node_selector={"disk": "fast", "zone": "a"})

    assert messages(diagnose(b.node("n1"), pods=(pod,))) == ["without its nodeSelector and node affinity"]


def test_the_node_that_a_toleration_opens_need_not_be_the_first_with_the_taint() -> None:
    tainted = (b.taint("special"),)
    nodes = (b.node("n1", taints=tainted), b.node("n2", taints=tainted))
    found = diagnose(*nodes, b.gpu_slice("n2"), GPU, b.claim("c", b.request("r")))

    assert [(each.message, each.node) for each in found.changes] == [
        ("tolerate taint special:NoSchedule of the node", "n2")
    ]


def test_a_cordon_in_the_way_is_named_with_its_node() -> None:
    nodes = (b.node("n1"), b.node("n2", is_unschedulable=True))
    found = diagnose(*nodes, b.gpu_slice("n2"), GPU, b.claim("c", b.request("r")))

    assert messages(found) == ["uncordon node n2"]


def test_a_node_that_is_away_has_to_come_back_and_is_not_to_be_tolerated() -> None:
    away = tuple(b.taint("node.kubernetes.io/unreachable", effect=each) for each in ("NoSchedule", "NoExecute"))
    found = diagnose(b.node("n1"), b.node("n2", taints=away), b.gpu_slice("n2"), GPU, b.claim("c", b.request("r")))

    assert [(each.message, each.node) for each in found.changes] == [("get node n2 ready again", "n2")]


def test_only_the_largest_count_that_fits_is_reported() -> None:
    found = diagnose(
        b.node("n1"),
        b.node("n2"),
        b.gpu_slice("n1", count=2),
        b.gpu_slice("n2", count=3),
        GPU,
        b.claim("c", b.request("r", count=4)),
    )

    assert messages(found) == ["3 instead of 4 for request r: in a new claim, as a claim cannot be changed"]


def either(*counts: int) -> Claim:
    """A claim with one request for devices of n1, or else of n2."""
    alternatives = (
        b.alternative(name, selectors=(f"device.attributes['gpu.example.com'].kind == '{name}'",), count=count)
        for name, count in zip(("large", "small"), counts, strict=True)
    )
    return b.claim("c", b.first_available("r", *alternatives), constraints=(b.match(ROOT, "r/large"),))


def of_kind(node: str, kind: str, count: int) -> ResourceSlice:
    attributes = {"kind": kind, ROOT: "root"}
    return b.resource_slice(node, *(b.device(f"gpu-{index}", attributes=attributes) for index in range(count)))


def test_each_alternative_has_its_own_counts() -> None:
    slices = (of_kind("n1", "large", 8), of_kind("n2", "small", 3))
    found = diagnose(b.node("n1"), b.node("n2"), *slices, GPU, either(9, 4))

    assert messages(found) == [
        "8 instead of 9 for request r/large: in a new claim, as a claim cannot be changed",
        "3 instead of 4 for request r/small: in a new claim, as a claim cannot be changed",
    ]
    together = {
        kind.nodes: [(each.request, each.needed, each.together) for each in kind.requests] for kind in found.nodes
    }
    assert together == {
        ("n1",): [("r/large", 9, 8), ("r/small", 4, 0)],
        ("n2",): [("r/large", 9, 0), ("r/small", 4, 3)],
    }
    assert found.nodes[0].conflict == ("request r: 9 devices (large) or 4 devices (small)",)


def test_an_alternative_that_does_not_fit_is_not_said_to_fit_beside_one_that_does() -> None:
    found = diagnose(b.node("n1"), of_kind("n1", "large", 2), GPU, either(2, 4))

    assert found.node == "n1"
    assert [(each.request, each.together) for each in only(found).requests] == [("r/large", 2), ("r/small", 0)]


def test_requests_beside_each_other_are_counted_together() -> None:
    found = diagnose(
        b.node("n1"),
        b.gpu_slice("n1", count=4),
        GPU,
        b.claim("c", b.request("a", count=3), b.request("b", count=2)),
    )

    assert [(each.request, each.free, each.together) for each in only(found).requests] == [("a", 4, 2), ("b", 4, 1)]
    assert only(found).conflict == ("request a: 3 devices", "request b: 2 devices")


def test_alternatives_are_counted_each() -> None:
    found = diagnose(
        b.node("n1"),
        b.gpu_slice("n1", count=2),
        GPU,
        b.claim("c", b.first_available("r", b.alternative("four", count=4), b.alternative("three", count=3))),
    )

    assert [each.request for each in only(found).requests] == ["r/four", "r/three"]


def test_an_outranked_pod_names_the_winners_and_whether_it_is_proven() -> None:
    first, second = b.pod("first", "a", priority=5), b.pod("second", "c")
    found = diagnose(
        b.node("n1"),
        b.gpu_slice("n1", count=1),
        GPU,
        b.claim("a", b.request("r")),
        b.claim("c", b.request("r")),
        pods=(first, second),
    )

    assert found.lost_to == (PodId(b.NAMESPACE, "first"),)
    assert found.is_proven
    assert found.changes == ()


def test_a_pod_without_its_claim_has_no_kinds_of_nodes() -> None:
    found = diagnose(b.node("n1"), b.gpu_slice("n1"), GPU)

    assert found.nodes == ()
    assert "does not exist yet" in found.reasons[0].message


CROWDED = (
    b.node("n1"),
    b.gpu_slice("n1", taints=()),
    used("n1", 0, 4, 5, 6),
    GPU,
    b.claim(
        "c", b.request("a", count=3), b.request("b", count=2), constraints=(b.match(ROOT, "a"), b.match(ROOT, "b"))
    ),
)


def test_the_model_of_single_devices_names_the_clash() -> None:
    trials = FeasibilityProbe(Policy(), s.PATIENT)
    case = NodeCases(ProbeCase(b.snapshot(*CROWDED), POD)).on("n1")
    problem = trials.prepare(case)
    found = facts.facts(case, problem, 0)

    core = conflict_model.unsatisfiable_core(case, problem, found)

    assert core is not None
    assert {fact.kind for fact in core} >= {facts.FactKind.REQUEST, facts.FactKind.IN_USE}


@pytest.mark.parametrize("count", [1, 4])
def test_the_model_of_single_devices_has_no_objection_to_a_pod_that_fits(count: int) -> None:
    trials = FeasibilityProbe(Policy(), s.PATIENT)
    claim = b.claim("c", b.request("r", count=count), constraints=(b.match(ROOT),))
    case = NodeCases(ProbeCase(b.snapshot(b.node("n1"), b.gpu_slice("n1"), used("n1", 0), GPU, claim), POD)).on("n1")
    problem = trials.prepare(case)

    assert conflict_model.unsatisfiable_core(case, problem, facts.facts(case, problem, 0)) is None


def test_no_part_of_a_conflict_is_one() -> None:
    trials = FeasibilityProbe(Policy(), s.PATIENT)
    case = NodeCases(ProbeCase(b.snapshot(*CROWDED), POD)).on("n1")
    found = facts.facts(case, trials.prepare(case), 0)

    clash = conflict_model.minimal_conflict(trials, case, "n1", found)

    def holds_with(kept: Sequence[facts.Fact]) -> bool | None:
        changed = case
        for fact in found:
            if fact not in kept:
                changed = fact.without(changed)
        return trials.fits(changed, "n1")

    assert clash
    assert holds_with(clash) is False
    for size in range(len(clash)):
        for part in itertools.combinations(clash, size):
            assert holds_with(part) is True


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 8])
def test_the_pod_fits_after_every_reported_change(count: int) -> None:
    objects = (
        b.node("n1"),
        b.gpu_slice("n1", count=7),
        used("n1", 1, 2, 5),
        GPU,
        b.claim("c", b.request("r", count=count)),
    )
    found = diagnose(*objects)

    free = 4
    assert bool(found.node) == (count <= free)
    assert only(found).requests[0].together == min(count, free)
    if free < count <= 7:
        assert messages(found)[0].startswith(f"{count - free} more free device")
    if count > free:
        assert any(each.startswith(f"{free} instead of {count}") for each in messages(found))


def test_requests_of_equal_names_in_several_claims_are_distinguished() -> None:
    pod = b.pod("p", "c", "d")
    found = diagnose(
        b.node("n1"),
        b.gpu_slice("n1", count=4),
        GPU,
        b.claim("c", b.request("r", count=1)),
        b.claim("d", b.request("r", count=8)),
        pods=(pod,),
    )

    one, other = (each.entry for each in pod.claims)
    assert [(each.request, each.needed, each.together) for each in only(found).requests] == [
        (f"claim {one}, r", 1, 0),
        (f"claim {other}, r", 8, 3),
    ]
    assert only(found).conflict == (f"claim {other}, request r: 8 devices",)
    fewer = f"3 instead of 8 for claim {other}, request r: in a new claim, as a claim cannot be changed"
    assert fewer in messages(found)


def test_the_options_of_a_spread_constraint_are_changed_one_by_one() -> None:
    """A tainted node counts as an empty domain, unless its taint is honoured."""
    app = LabelSelector(requirements=(LabelRequirement(key="app", operator="In", values=("web",)),))
    spread = TopologySpreadConstraint(topology_key=HOSTNAME, max_skew=1, selector=app)
    running = b.pod("old", node_name="n1", labels={"app": "web"})
    pod = replace(b.pod("p", labels={"app": "web"}), spread=(spread,))
    found = diagnose(b.node("n1"), b.node("tainted", taints=(b.taint("control"),)), running, pods=(pod,))
    over = f"its topology spread constraint over {HOSTNAME}"
    assert f"nodeTaintsPolicy: Honor in {over}" in messages(found)

    pod = replace(pod, spread=(replace(spread, min_domains=3),))
    other = b.pod("other", node_name="n2", labels={"app": "web"})
    found = diagnose(b.node("n1"), b.node("n2"), running, other, pods=(pod,))
    assert f"without minDomains in {over}" in messages(found)
