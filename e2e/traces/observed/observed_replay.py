"""
One policy over an observed cluster: nodes, devices and pods come and go as they did, the policy says where pods run.

Pods run as long as they really ran, which no policy knows; those that ran on when the record ended, run on here. It is
the counterfactual cluster of `dovetail observe`, and `RECORDED` is what the cluster's own scheduler did.
"""

import time
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Final

import numpy as np

from e2e.traces.observed import observed_policies
from e2e.traces.observed.observed_trace import ObservedTrace, moments
from e2e.traces.queues.job_figures import SIZES, QueueRun, Waits
from scheduler.change import Change, Kind
from scheduler.counterfactual.counterfactual_cluster import CounterfactualCluster
from scheduler.counterfactual.pod_life import PodLife
from solver.domain import Batch, Plan

RECORDED: Final = "recorded"
_STAYS: Final = frozenset({Kind.SLICES, Kind.CLASSES, Kind.POD_GROUPS, Kind.COSCHEDULING_GROUPS})
"""Objects of these kinds stay when they go: pods that the replay places later may need them."""


def replay(trace: ObservedTrace, policy: observed_policies.ObservedPolicy, name: str) -> QueueRun:
    """Let a policy decide about the observed pods."""
    began = time.process_time()
    state = _State(trace, policy)
    for change in trace.initial:
        state.cluster.apply(change, trace.started)
    state.cluster.begin(trace.started)
    state.decide(trace.started)
    for at, changes in moments(trace):
        state.run_until(at)
        state.see(changes, at)
    state.run_until(trace.ended)
    placed = {uid: life.first_placed_at for uid, life in state.lives.items()}
    return _figures(trace, name, placed, state.used, time.process_time() - began)


def recorded(trace: ObservedTrace) -> QueueRun:
    """Return what the cluster's own scheduler did."""
    placed = {uid: life.bound_at for uid, life in trace.lives.items()}
    spans = [
        (life.bound_at, trace.ended if life.ended_at is None else life.ended_at, trace.size_of(life.pod))
        for life in trace.lives.values()
        if life.bound_at is not None
    ]
    used = sum(devices * max(0.0, min(end, trace.ended) - begin) for begin, end, devices in spans)
    return _figures(trace, RECORDED, placed, used, 0.0)


class _State:
    """The replay at one moment; `used` are device-seconds, `lives` all pods that came."""

    def __init__(self, trace: ObservedTrace, policy: observed_policies.ObservedPolicy) -> None:
        self._policy: Final = policy
        self.lives: Final[dict[str, PodLife]] = {}
        self.used = 0.0
        self.cluster: Final = CounterfactualCluster(trace.schedulers, self._closed, trace.lengths)
        self._now = trace.started

    def see(self, changes: Sequence[Change], at: float) -> None:
        """Take what the watches showed, and decide."""
        for change in changes:
            if change.value is not None or change.kind not in _STAYS:
                self.cluster.apply(change, at)
        self.decide(at)

    def run_until(self, at: float) -> None:
        """Let pods leave that have run as long as they really did, and decide each time."""
        while (leaving := self.cluster.next_leaving) is not None and leaving <= at:
            self._pass(max(leaving, self._now))
            self.cluster.advance(self._now)
            self.decide(self._now)
        self._pass(at)

    def decide(self, now: float) -> None:
        """Let the policy place pods that wait."""
        waiting = self.cluster.waiting()
        if waiting:
            self._policy.place(self.cluster.cluster, waiting, now, lambda plan, batch: self._take(plan, batch, now))
        self.lives.update((life.pod.uid, life) for life in self.cluster.lives)

    def _take(self, plan: Plan, batch: Batch, now: float) -> None:
        self.cluster.take(plan, batch, now)

    def _closed(self, life: PodLife, _: float) -> None:
        self.lives[life.pod.uid] = life

    def _pass(self, at: float) -> None:
        """Count the devices in use until a time."""
        if at > self._now:
            claims = self.cluster.cluster.snapshot().claims
            held = sum(len(each.allocation.results) for each in claims if each.allocation is not None)
            self.used += held * (at - self._now)
            self._now = at


def _figures(trace: ObservedTrace, name: str, placed: dict[str, float | None], used: float, seconds: float) -> QueueRun:
    """Measure waits of the observed pods that came and were not bound at the start; who waits at the end, waits on."""
    asked = [each for each in trace.lives.values() if _is_asked(trace, each)]
    waits: dict[str, list[float]] = {}
    waiting = 0
    for life in asked:
        at = placed.get(life.pod.uid)
        left = trace.ended if life.ended_at is None or life.bound_at is not None else life.ended_at
        waiting += at is None and left >= trace.ended
        size = trace.size_of(life.pod)
        of_size = next((each for each, sizes in SIZES.items() if size in sizes), "0")
        waits.setdefault(of_size, []).append((left if at is None else at) - life.seen_at)
    window = trace.ended - trace.started
    return QueueRun(
        trace=trace.name,
        policy=name,
        machines=sum(each.kind is Kind.NODES for each in trace.initial),
        gpus=trace.devices,
        load=None,
        jobs=len(asked),
        too_large=0,
        stuck=waiting,
        waits={each: _waits(found) for each, found in sorted(waits.items())},
        used=used / (trace.devices * window) if trace.devices and window else None,
        makespan=window,
        seconds=round(seconds, 3),
    )


def _is_asked(trace: ObservedTrace, life: PodLife) -> bool:
    """Whether a pod is compared: it is of an observed scheduler, and waited when it was first seen."""
    was_bound = life.bound_at is not None and life.bound_at <= life.seen_at and life.seen_at <= trace.started
    return life.pod.scheduler_name in trace.schedulers and not was_bound


def _waits(found: Iterable[float]) -> Waits:
    seconds = list(found)
    return Waits(jobs=len(seconds), mean=fmean(seconds), p95=float(np.percentile(seconds, 95)))
