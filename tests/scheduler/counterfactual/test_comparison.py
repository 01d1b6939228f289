"""What counts as better and as worse: pods, gangs, evictions, and what is still open."""

import pytest
from msgspec.structs import replace

from scheduler.counterfactual.fleet_measure import FleetMeasure, measured
from scheduler.counterfactual.outcomes import OutcomeCounts, PlacementOutcome, outcome_of
from solver import SolverCache
from solver.domain import GangAnnotations, Pod, Policy
from tests.support import builders as b
from tests.support.observed_scene import ObservedScene

NONE = OutcomeCounts()


@pytest.mark.parametrize(
    ("counterfactual", "real", "expected"),
    [
        pytest.param(10, 30, PlacementOutcome.SOONER, id="sooner"),
        pytest.param(30, 10, PlacementOutcome.LATER, id="later"),
        pytest.param(10, 15, PlacementOutcome.SAME, id="within the tolerance"),
        pytest.param(15, 10, PlacementOutcome.SAME, id="later within the tolerance"),
        pytest.param(10, None, PlacementOutcome.ONLY_COUNTERFACTUAL, id="the real one waits"),
        pytest.param(None, 10, PlacementOutcome.ONLY_REAL, id="the counterfactual one waits"),
        pytest.param(96, None, PlacementOutcome.SAME, id="the real one may follow"),
        pytest.param(None, 96, PlacementOutcome.SAME, id="the counterfactual one may follow"),
        pytest.param(None, None, PlacementOutcome.NEITHER, id="both wait"),
    ],
)
def test_an_outcome_says_which_cluster_was_first(
    counterfactual: float | None, real: float | None, expected: PlacementOutcome
) -> None:
    assert outcome_of(counterfactual, real, now=100, tolerance=5) is expected


def test_a_pod_that_dovetail_would_have_placed_sooner() -> None:
    scene = ObservedScene()
    scene.begin()
    scene.create(0, b.pod("p"))
    scene.decide(0)
    assert scene.compared.totals(0.5).pods == replace(NONE, same=1)  # the other scheduler may still follow
    open_now = scene.compared.totals(9)
    assert open_now.pods == replace(NONE, only_counterfactual=1, seconds_sooner=9)
    assert (open_now.real_waiting, open_now.counterfactual_waiting) == (1, 0)
    assert [each.name for each in scene.compared.still_open(9)] == ["p"]

    scene.bind(20, "p", "n0", "gpu-0")
    scene.decide(21)
    assert scene.compared.totals(30).pods == replace(NONE, sooner=1, seconds_sooner=20)
    assert scene.compared.still_open(30) == ()
    assert [(each.name, each.outcome, each.seconds_ahead) for each in scene.outcomes] == [("p", "sooner", 20)]


def test_pods_of_which_dovetail_would_have_been_worse_are_counted_as_such() -> None:
    scene = ObservedScene()
    scene.begin()
    scene.create(0, b.pod("late"), b.pod("never"))
    scene.bind(1, "late", "n0", "gpu-0")
    scene.bind(1, "never", "n0", "gpu-1")
    scene.create(0, b.pod("first", priority=5), gpus=2)
    scene.decide(5)  # "first" takes both devices
    assert scene.compared.totals(5).pods.only_real == 2
    scene.delete(10, "first")
    scene.decide(11)
    scene.end(31, "late")
    assert scene.compared.totals(40).pods == replace(
        NONE, later=2, only_counterfactual=1, seconds_later=20, seconds_sooner=5
    )


def test_a_pod_that_leaves_before_anyone_places_it_is_placed_by_neither() -> None:
    scene = ObservedScene()
    scene.begin()
    scene.create(0, b.pod("p"), gpus=3)
    scene.decide(0)
    scene.delete(9, "p")
    assert scene.compared.totals(9).pods == replace(NONE, neither=1)


def test_what_runs_at_the_start_and_pods_of_other_schedulers_are_not_compared() -> None:
    scene = ObservedScene(devices=3)
    scene.create(0, b.pod("old"))
    scene.bind(0, "old", "n0", "gpu-0")
    scene.begin()
    scene.create(0, replace(b.pod("other"), scheduler_name="other"))
    scene.bind(8, "other", "n0", "gpu-1")
    scene.decide(10)
    scene.end(20, "old")
    scene.end(20, "other")
    scene.decide(60)
    assert scene.counterfactual == {}
    assert scene.compared.totals(60).pods == NONE


def member(name: str, minimum: int) -> Pod:
    return replace(b.member(b.pod(name), "g"), gang_note=GangAnnotations(min_count=minimum))


def test_a_gang_is_compared_as_one_by_the_moment_when_its_minimum_runs() -> None:
    scene = ObservedScene()
    scene.begin()
    scene.create(0, member("a", 2), member("b", 2))
    scene.bind(0, "a", "n0", "gpu-0")  # half a gang holds a device and does not run
    scene.decide(1)
    found = scene.compared.totals(31)
    assert found.gangs == replace(NONE, only_counterfactual=1, seconds_sooner=30)
    assert found.pods == NONE

    scene.bind(41, "b", "n0", "gpu-1")
    assert scene.compared.totals(50).gangs == replace(NONE, sooner=1, seconds_sooner=40)
    assert [(each.kind, each.name) for each in scene.outcomes] == [("gang", "g")]


def test_a_gang_that_only_the_real_scheduler_starts_counts_against_dovetail() -> None:
    scene = ObservedScene()
    scene.begin()
    scene.create(0, b.pod("first", priority=5), gpus=2)
    scene.decide(0)
    scene.create(1, member("a", 2), member("b", 2))
    scene.bind(2, "a", "n0", "gpu-0")
    scene.bind(2, "b", "n0", "gpu-1")
    scene.decide(3)
    assert scene.compared.totals(12).gangs == replace(NONE, only_real=1, seconds_later=10)


def test_a_gang_that_runs_at_the_start_is_not_compared() -> None:
    scene = ObservedScene()
    scene.create(0, member("a", 2), member("b", 2))
    scene.bind(0, "a", "n0", "gpu-0")
    scene.bind(0, "b", "n0", "gpu-1")
    scene.begin()
    scene.decide(1)
    scene.end(9, "a")
    assert scene.compared.totals(9).gangs == NONE


def test_real_evictions_are_counted_once_and_beside_those_that_dovetail_would_have_made() -> None:
    scene = ObservedScene()
    scene.begin()
    scene.show(0, b.pod("small", cpu=30))
    scene.decide(0)
    running = b.pod("small", cpu=30, node_name="n0")
    scene.show(1, running)
    for _ in range(2):
        scene.show(2, replace(running, is_preempted=True, is_deleting=True))
        scene.show(2, replace(running, is_preempted=True, is_deleting=True, labels=(("a", "b"),)))
    found = scene.compared.totals(3)
    assert (found.real_evictions, found.counterfactual_evictions) == (1, 0)


def test_a_fleet_is_measured_by_devices_in_use_and_whole_free_nodes() -> None:
    scene = ObservedScene(nodes=3, devices=2)
    scene.create(0, b.pod("p"))
    scene.bind(0, "p", "n1", "gpu-0")
    found = measured(scene.compared.real.snapshot(), Policy(), SolverCache())
    assert found == FleetMeasure(devices_in_use=1, devices_free=5, whole_free_nodes=2)
