"""Jobs that arrive, wait and end: what no policy may do, what each does on hand examples, and the figures."""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from e2e.traces.queues import job_policies
from e2e.traces.queues.job_batches import DovetailQueue
from e2e.traces.queues.job_bound import most_used
from e2e.traces.queues.job_figures import figures
from e2e.traces.queues.job_simulation import Gpu, JobPod, Moves, Outcome, Placed, QueuePolicy, pods_of, simulate
from e2e.traces.queues.job_traces import Job, JobTrace
from e2e.traces.workload import TraceError
from solver.domain import Policy

DOVETAIL = "dovetail"
GANG_POLICIES = ("first-fit", "best-fit", DOVETAIL)


def made(name: str, trace: JobTrace, starvation: float = math.inf) -> QueuePolicy:
    return DovetailQueue(trace, starvation, Policy()) if name == DOVETAIL else job_policies.MAKE[name]()


def trace_of(*jobs: tuple[float, int, float], machines: int = 2, gpus: int = 4) -> JobTrace:
    """Make a trace of (arrival, GPUs, seconds)."""
    ordered = sorted(jobs, key=lambda job: job[0])
    return JobTrace("some", tuple(Job(number, *job) for number, job in enumerate(ordered)), machines, gpus)


def starts(name: str, trace: JobTrace, starvation: float = math.inf) -> dict[int, float]:
    return simulate(trace, made(name, trace, starvation)).starts


traces = st.builds(
    lambda jobs, machines: trace_of(*jobs, machines=machines),
    st.lists(
        st.tuples(st.integers(0, 20).map(float), st.integers(1, 13), st.integers(1, 30).map(float)),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 3),
)


def check(trace: JobTrace, outcome: Outcome) -> None:
    """Check what holds of every policy: jobs wait for their arrival, have all their GPUs, and no GPU runs two jobs."""
    runs: defaultdict[Gpu, list[tuple[float, float]]] = defaultdict(list)
    for job in trace.jobs:
        if job.number not in outcome.starts:
            continue
        begin, gpus = outcome.starts[job.number], outcome.gpus[job.number]
        assert begin >= job.arrival
        assert len(set(gpus)) == len(gpus) == job.gpus
        assert all(machine < trace.machines and gpu < trace.gpus for machine, gpu in gpus)
        assert len({machine for machine, _ in gpus}) == len(pods_of(job, trace.gpus))
        for gpu in gpus:
            runs[gpu].append((begin, begin + job.seconds))
    for intervals in runs.values():
        intervals.sort()
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(intervals))


@settings(max_examples=60, deadline=None)
@given(trace=traces, name=st.sampled_from(GANG_POLICIES), starvation=st.sampled_from([5.0, math.inf]))
def test_policies_with_gangs_run_every_job_that_fits_the_cluster(trace: JobTrace, name: str, starvation: float) -> None:
    outcome = simulate(trace, made(name, trace, starvation))
    check(trace, outcome)
    too_large = {job.number for job in trace.jobs if len(pods_of(job, trace.gpus)) > trace.machines}
    assert {job.number for job in outcome.too_large} == too_large
    assert outcome.starts.keys() == {job.number for job in trace.jobs} - too_large


@settings(max_examples=60, deadline=None)
@given(trace=traces)
def test_one_by_one_keeps_the_same_rules(trace: JobTrace) -> None:
    check(trace, simulate(trace, made("kube-scheduler", trace)))


def test_a_job_is_a_pod_for_each_machine_that_it_fills_and_one_for_the_rest() -> None:
    sizes = [[pod.gpus for pod in pods_of(Job(0, 0.0, gpus, 1.0), 8)] for gpus in (1, 8, 12, 16)]
    assert sizes == [[1], [8], [8, 4], [8, 8]]


def test_first_fit_passes_over_what_does_not_fit() -> None:
    # 0 has a machine; 1 needs two and waits for 0; 2 and 3 pass it, in the order in which they came.
    trace = trace_of((0, 4, 10), (1, 8, 5), (2, 3, 6), (3, 2, 1), (4, 1, 20))
    assert starts("first-fit", trace) == {0: 0, 2: 2, 4: 4, 3: 8, 1: 24}


def test_jobs_that_came_first_are_first() -> None:
    trace = trace_of((0, 4, 10), (1, 4, 5), (2, 4, 6), machines=1)
    for name in (*job_policies.MAKE, DOVETAIL):
        assert starts(name, trace) == {0: 0, 1: 10, 2: 15}


def test_best_fit_keeps_machines_whole_and_one_by_one_does_not() -> None:
    trace = trace_of((0, 2, 10), (1, 1, 10), (2, 4, 10))
    assert starts("best-fit", trace)[2] == 2
    assert starts("kube-scheduler", trace)[2] == 10


def test_one_by_one_starts_a_job_with_its_last_pod() -> None:
    trace = trace_of((0, 4, 10), (1, 8, 5), (2, 1, 1))
    # The gang holds the second machine from 1 on, so that the small job waits, too.
    assert starts("kube-scheduler", trace) == {0: 0, 1: 10, 2: 15}
    assert starts("first-fit", trace) == {0: 0, 2: 2, 1: 10}


def test_jobs_of_which_each_holds_a_part_of_what_the_other_needs_are_stuck() -> None:
    trace = trace_of((0, 4, 10), (1, 2, 20), (2, 8, 5), (3, 6, 5))
    outcome = simulate(trace, made("kube-scheduler", trace))
    assert outcome.starts == {0: 0, 1: 1}
    run = figures(trace, "kube-scheduler", outcome)
    assert (run.stuck, run.too_large) == (2, 0)


def test_dovetail_places_a_gang_whole_and_as_many_pods_as_fit() -> None:
    trace = trace_of((0, 4, 10), (1, 8, 5), (2, 3, 6), (3, 1, 20))
    # At 3 the last GPU is free; at 10 and 23 the gang lacks a machine and then has both.
    assert starts(DOVETAIL, trace) == {0: 0, 2: 2, 3: 3, 1: 23}


def test_dovetail_keeps_a_node_for_a_pod_that_starves() -> None:
    small = [(float(at), 2, 10.0) for at in range(0, 100, 5)]
    trace = trace_of(*small, (1, 4, 5), machines=1)
    # Jobs of two GPUs come so often that one of four waits for the last of them, unless its machine is kept.
    (large,) = (job for job in trace.jobs if job.gpus == 4)
    assert starts(DOVETAIL, trace)[large.number] == 105
    assert starts(DOVETAIL, trace, 20.0)[large.number] < 50


def test_who_waits_for_a_reserved_node_is_decided_when_it_is_reserved_no_longer() -> None:
    trace = trace_of((0, 2, 1000), (0, 2, 30), (0, 4, 60), (1, 4, 10), (25, 2, 8), (40, 2, 5))
    # From 38 on job 3 starves, with the first machine reserved. It gets the second one at 60, and job 5 the first.
    assert starts(DOVETAIL, trace, 5.0) == {0: 0, 1: 0, 2: 0, 4: 30, 3: 60, 5: 60}
    assert starts(DOVETAIL, trace)[5] == 40


def test_large_queues_are_split_into_batches_between_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Limits:
        max_pods = 2

    monkeypatch.setattr("e2e.traces.queues.job_batches.BatchLimits", Limits)
    trace = trace_of((0, 1, 5), (0, 8, 5), (0, 1, 5), (0, 1, 5))
    outcome = simulate(trace, made(DOVETAIL, trace))
    check(trace, outcome)
    # The first batch ends with the gang, whose two pods are more than one. In one batch the three small jobs are more.
    assert outcome.starts == {1: 0, 0: 5, 2: 5, 3: 5}


class Greedy:
    """Takes the same GPU for everything."""

    def place(self, waiting: Sequence[JobPod], _: Sequence[Sequence[int]], __: float) -> Sequence[Placed]:
        return [Placed(pod, ((0, 0),)) for pod in waiting]

    def end(self, job: Job) -> None:
        """Remember nothing."""


def test_a_policy_that_takes_what_is_not_free_is_found_out() -> None:
    with pytest.raises(TraceError, match="pod 0 of job 1 cannot have"):
        simulate(trace_of((0, 1, 10), (1, 1, 5)), Greedy())


def test_figures_are_those_of_a_hand_example() -> None:
    trace = trace_of((0, 4, 10), (2, 4, 10), (4, 1, 10), (20, 8, 5), machines=1, gpus=4)
    run = figures(trace, "first-fit", simulate(trace, made("first-fit", trace)))
    assert (run.jobs, run.too_large, run.stuck) == (4, 1, 0)
    # The second job runs from 10 to 20, the third from 20 to 30: after the last arrival.
    assert {name: (waits.jobs, waits.mean) for name, waits in run.waits.items()} == {"1": (1, 16), "2-4": (2, 4)}
    assert run.waits["2-4"].p95 == pytest.approx(7.6)
    assert (run.used, run.makespan) == (1.0, 30)
    assert run.load == pytest.approx((40 + 40 + 10 + 40) / 80)


def test_a_load_makes_the_smallest_cluster_that_has_it() -> None:
    trace = trace_of((0, 1, 10), (5, 3, 30), (10, 2, 10), machines=9)
    # 120 GPU-seconds in 10 seconds: 12 GPUs are busy, so three machines at 100 % and four at 90 %.
    assert [trace.at(load).machines for load in (1.0, 0.9, 100.0)] == [3, 4, 1]
    assert trace_of((0, 9, 1), (100, 1, 1)).at(0.9).machines == 3  # room for the largest job


def with_moves(trace: JobTrace, most: int, starvation: float = math.inf) -> Outcome:
    ours = DovetailQueue(trace, starvation, Policy())
    return simulate(trace, ours, ours, most)


SCATTERED = trace_of((0.0, 3, 10.0), (0.0, 3, 10.0), (1.0, 1, 9000.0), (1.0, 1, 9000.0), (11.0, 4, 5.0))
"""Two small jobs run on for long, one on each machine, when a job for a whole machine comes."""


def test_a_move_lets_a_job_in_and_costs_the_moved_one_a_minute() -> None:
    without, moved = with_moves(SCATTERED, 0), with_moves(SCATTERED, 10)

    assert without.starts[4] == 9001.0
    assert moved.starts[4] == 11.0
    assert (moved.moves, sorted(moved.delays.values())) == (1, [60.0])
    assert figures(SCATTERED, "dovetail", moved).makespan == 9061.0


def test_no_more_moves_are_made_than_an_hour_may_have() -> None:
    """The second large job would need a move, too, and the hour is not over."""
    again = trace_of(
        *((job.arrival, job.gpus, job.seconds) for job in SCATTERED.jobs), (700.0, 1, 9000.0), (1400.0, 4, 5.0)
    )
    assert with_moves(again, 1).moves == 1
    assert with_moves(again, 10).moves >= 1


@settings(max_examples=30, deadline=None)
@given(trace=traces, most=st.integers(1, 5))
def test_moves_lose_no_job_and_give_no_gpu_twice(trace: JobTrace, most: int) -> None:
    outcome = with_moves(trace, most)

    too_large = {job.number for job in trace.jobs if len(pods_of(job, trace.gpus)) > trace.machines}
    assert outcome.starts.keys() == {job.number for job in trace.jobs} - too_large
    assert all(outcome.starts[job.number] >= job.arrival for job in trace.jobs if job.number not in too_large)


def test_a_mover_that_takes_what_is_not_free_or_breaks_a_gang_is_found_out() -> None:
    trace = trace_of((0.0, 4, 10.0), (0.0, 4, 10.0), (1.0, 1, 10.0))

    class Greedy:
        def moves(self, waiting: Sequence[JobPod], free: Sequence[Sequence[int]], now: float, most: int) -> Moves:
            del waiting, free, now, most
            pod = pods_of(trace.jobs[0], trace.gpus)[0]
            return Moves([Placed(pod, tuple((1, gpu) for gpu in range(4)))])

    with pytest.raises(TraceError, match="cannot move to"):
        simulate(trace, made("first-fit", trace), Greedy(), 1)


@settings(deadline=None)
@given(trace=traces)
def test_no_policy_has_more_gpus_in_use_than_the_bound(trace: JobTrace) -> None:
    most = most_used(trace)
    assert (most is None) is (trace.window == 0)
    for name in ("first-fit", "best-fit", "kube-scheduler"):
        used = figures(trace, name, simulate(trace, made(name, trace))).used
        assert used is None or (most is not None and used <= most + 1e-9)


def test_the_bound_is_met_where_machines_are_full_or_jobs_are_few() -> None:
    full = trace_of((0, 4, 50), (0, 4, 50), (0, 4, 50), (100, 1, 1), machines=1)
    assert most_used(full) == 1.0
    few = trace_of((0, 2, 50), (100, 1, 1), machines=1)
    assert most_used(few) == pytest.approx(0.25)
    late = trace_of((0, 2, 50), (90, 4, 50), (90, 4, 50), (100, 1, 1), machines=1)  # from 90 on the machine is full
    assert most_used(late) == pytest.approx((2 * 50 + 4 * 10) / 400)


def test_with_devices_counted_a_large_job_goes_before_two_small_ones() -> None:
    trace = trace_of((0, 4, 10), (1, 1, 10), (2, 1, 10), (3, 4, 10), machines=1)
    assert starts(DOVETAIL, trace) == {0: 0, 1: 10, 2: 10, 3: 20}
    policy = DovetailQueue(trace, math.inf, Policy(counts_devices=True))
    assert simulate(trace, policy).starts == {0: 0, 3: 10, 1: 20, 2: 20}
