"""
The counterfactual cluster: nodes and devices as they really are, pods where Dovetail would have placed them.

    apply      a change that the watch of the real cluster shows
    begin      what runs now runs in both clusters; from here on they diverge
    waiting    the pods that the solver is asked about, in the order of the queue
    take       what the solver decided about them
    advance    pods leave whose time is over

Nothing is written to the real cluster. Where reality does not tell what would have happened, the counterfactual cluster
has less room, not more (docs/observe.md).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from scheduler.change import Change, Kind, split_key
from scheduler.cluster import Cluster, Intake, split_plan
from scheduler.counterfactual.counterfactual_claims import CounterfactualClaims
from scheduler.counterfactual.pod_life import PodLife, as_waiting
from scheduler.queue import in_queue_order
from solver import missing_claims
from solver.domain import Batch, Claim, ClaimId, Placement, Plan, Pod, PodId, with_node_allocatable

MOST_LATE_PODS: Final = 5_000
"""Pods that have really ended and still wait or run here; beyond it the one that ended first is given up."""

Closed = Callable[[PodLife, float], None]
"""Takes a pod that has left both clusters, and the time."""


class CounterfactualCluster:
    """
    A cluster cache in which Dovetail's decisions count as written.

    Pods of `scheduler_names` are decided as soon as they wait. Pods of other schedulers are decided when their own
    scheduler has bound them, so that they take room in both clusters. Times are in seconds since the epoch.
    """

    def __init__(
        self, scheduler_names: Collection[str], closed: Closed, lengths: Mapping[str, float] | None = None
    ) -> None:
        """`lengths` are the seconds for which pods run, by uid, as far as they are known beforehand: in a replay."""
        self.cluster: Final = Cluster()
        self.scheduler_names: Final = frozenset(scheduler_names)
        self.evictions = 0
        """Pods that Dovetail would have evicted for others."""
        self.real_evictions = 0
        """Observed pods that a scheduler has really evicted for others."""
        self.given_up = 0
        """Pods that were forgotten because too many had really ended and waited or ran here."""
        self._closed: Final = closed
        self._intake: Final = Intake(self.cluster)
        self._claims: Final = CounterfactualClaims(self._take, self._is_needed)
        self._lives: Final[dict[str, PodLife]] = {}
        self._current: Final[dict[PodId, str]] = {}
        self._shown: Final[dict[PodId, str]] = {}
        self._successors: Final[defaultdict[PodId, list[str]]] = defaultdict(list)
        self._users: Final[defaultdict[ClaimId, set[str]]] = defaultdict(set)
        self._late: Final[dict[str, None]] = {}
        self._lengths: Final = lengths or {}
        self._timed: Final[dict[str, None]] = {}
        """Pods of which it is known how long they run."""
        self._has_begun = False

    @property
    def next_leaving(self) -> float | None:
        """When the first pod leaves of which that is known."""
        times = (self._lives[uid].leaves_at for uid in (*self._timed, *self._late))
        return min((each for each in times if each is not None), default=None)

    @property
    def lives(self) -> Collection[PodLife]:
        """The pods of either cluster."""
        return self._lives.values()

    def apply(self, change: Change, now: float) -> None:
        """Take a change of the real cluster."""
        match change.kind:
            case Kind.PODS:
                self._see_pod(
                    PodId(*split_key(change.key)), change.value if isinstance(change.value, Pod) else None, now
                )
            case Kind.CLAIMS:
                claim = change.value if isinstance(change.value, Claim) else None
                self._claims.see(ClaimId(*split_key(change.key)), claim)
            case _:
                self._take(change)
        if change.kind is Kind.NODES and change.value is None:
            self._lose_node(change.key, now)

    def begin(self, now: float) -> None:
        """Let everything run where it really runs; call it once, when every kind has been listed."""
        self._has_begun = True
        running = [life for life in self._lives.values() if life.bound_at is not None]
        held = self._claims.begin(life.pod for life in running)
        for life in running:
            life.is_given, life.bound_at = True, now
            life.claims = tuple(held.get(life.pod.uid, ()))
            self._place(life, life.real_node, now)

    def waiting(self) -> list[Pod]:
        """Return the pods to decide, in the order of the queue; those whose claims do not exist yet are left out."""
        found = (life.pod for life in self._lives.values() if self._waits(life))
        return in_queue_order(pod for pod in found if not missing_claims(pod, self._has_claim))

    def take(self, plan: Plan, batch: Batch, now: float) -> None:
        """Place what a plan places, and evict what it evicts; pods and claims that have changed since are left out."""
        for unit in split_plan(plan, batch):
            lives = {each.pod_uid: self._lives.get(each.pod_uid) for each in unit.placements}
            is_current = all(life is not None and self._waits(life) for life in lives.values())
            has_nodes = all(self.cluster.node(each.node) is not None for each in unit.placements)
            if not (is_current and has_nodes and self._claims.can_allocate(unit)):
                continue
            self._claims.allocate(unit)
            for placement in unit.placements:
                if (life := lives[placement.pod_uid]) is not None:
                    self._take_placement(life, placement, now)
        for victim in (each for preemption in plan.preemptions for each in preemption.victims):
            evicted = self._lives.get(victim.pod_uid)
            if evicted is not None and evicted.placed_at is not None:
                self.evictions += 1
                self._start_over(evicted)

    def advance(self, now: float) -> None:
        """Let pods leave that have run here as long as they really ran."""
        for uid in (*self._timed, *(each for each in self._late if each not in self._timed)):
            leaves_at = self._lives[uid].leaves_at
            if leaves_at is not None and leaves_at <= now:
                self._leave(self._lives[uid], now)
        while len(self._late) > MOST_LATE_PODS:
            self.given_up += 1
            self._leave(self._lives[next(iter(self._late))], now)

    def _see_pod(self, key: PodId, pod: Pod | None, now: float) -> None:
        uid = self._current.get(key)
        if uid is not None and (pod is None or pod.uid != uid):
            del self._current[key]
            if (last := self._lives.get(uid)) is not None:
                self._end(last, now)
        if pod is None:
            return
        life = self._lives.get(pod.uid)
        if life is None:
            if not pod.is_terminal and uid != pod.uid:
                self._current[key] = pod.uid
                self._add(PodLife.of(pod, now), now)
            return
        before = life.pod
        life.see(pod, now)
        if pod.is_preempted and not life.is_evicted:
            life.is_evicted = True
            self.real_evictions += pod.scheduler_name in self.scheduler_names
        self._note_users(life, before.claim_ids)
        if pod.is_terminal or (pod.is_deleting and life.bound_at is None):
            self._end(life, now)
        elif life.placed_at is None and life.pod != before:
            self._show(life)

    def _add(self, life: PodLife, now: float) -> None:
        self._lives[life.pod.uid] = life
        if life.pod.uid in self._lengths:
            life.known_seconds = self._lengths[life.pod.uid]
            self._timed[life.pod.uid] = None
        self._note_users(life, ())
        if self._has_begun and life.bound_at is not None and life.is_static:
            life.is_given = True
            self._place(life, life.real_node, now)
        else:
            self._show(life)

    def _end(self, life: PodLife, now: float) -> None:
        """Note that a pod has really ended; it leaves at once, or when its time here is over."""
        if life.ended_at is None:
            life.ended_at = now
            self._late[life.pod.uid] = None
            if not self._has_begun or (life.leaves_at is not None and life.leaves_at <= now):
                self._leave(life, now)

    def _leave(self, life: PodLife, now: float) -> None:
        """Remove a pod that has left both clusters; one of the same name takes its place."""
        uid, key = life.pod.uid, life.pod.id
        del self._lives[uid]
        self._late.pop(uid, None)
        self._timed.pop(uid, None)
        for claim in life.pod.claim_ids:
            self._users[claim].discard(uid)
            if not self._users[claim]:
                del self._users[claim]
        if self._shown.get(key) == uid:
            del self._shown[key]
            self._take(Change(kind=Kind.PODS, key=str(key), value=None))
        self._claims.release(uid, life.claims)
        for claim in life.pod.claim_ids:
            self._claims.refresh(claim)
        if self._has_begun:
            self._closed(life, now)
        for successor in self._successors.pop(key, ()):
            if successor in self._lives:
                self._show(self._lives[successor])

    def _lose_node(self, node: str, now: float) -> None:
        """End the pods of a node that is gone; those that really run elsewhere wait again."""
        for life in [each for each in self._lives.values() if each.node == node]:
            if life.real_node == node:
                life.ended_at = now if life.ended_at is None else life.ended_at
                self._leave(life, now)
            else:
                self._start_over(life)

    def _waits(self, life: PodLife) -> bool:
        is_asked_for = life.pod.scheduler_name in self.scheduler_names or life.bound_at is not None
        is_gated = bool(life.pod.scheduling_gates)
        return is_asked_for and life.placed_at is None and not is_gated and self._shown.get(life.pod.id) == life.pod.uid

    def _take_placement(self, life: PodLife, placement: Placement, now: float) -> None:
        requests = tuple(each for each in life.pod.requests if each[0] not in placement.dra_resources)
        life.claims = placement.claims
        self._place(life, placement.node, now)
        pod = msgspec.structs.replace(self._running(life), requests=requests)
        self._show_as(life, with_node_allocatable(pod, placement.node_allocatable))

    def _place(self, life: PodLife, node: str, now: float) -> None:
        life.node, life.placed_at = node, now
        life.first_placed_at = now if life.first_placed_at is None else life.first_placed_at
        self._show_as(life, self._running(life))

    def _running(self, life: PodLife) -> Pod:
        return msgspec.structs.replace(life.pod, node_name=life.node, started=int(life.placed_at or 0))

    def _start_over(self, life: PodLife) -> None:
        """Let a pod wait again, as the one that its controller makes in its place would."""
        life.node, life.placed_at, claims = "", None, life.claims
        life.claims = ()
        self._show(life)
        self._claims.release(life.pod.uid, claims)

    def _show(self, life: PodLife) -> None:
        """Show a pod that waits; where one of the same name is still here, it waits for that one's end."""
        key, uid = life.pod.id, life.pod.uid
        if self._shown.get(key, uid) != uid:
            if uid not in self._successors[key]:
                self._successors[key].append(uid)
            return
        self._show_as(life, as_waiting(life.pod))

    def _show_as(self, life: PodLife, pod: Pod) -> None:
        self._shown[life.pod.id] = life.pod.uid
        self._take(Change(kind=Kind.PODS, key=str(life.pod.id), value=pod))

    def _take(self, change: Change) -> None:
        self._intake.take(change)

    def _note_users(self, life: PodLife, before: Iterable[ClaimId]) -> None:
        for claim in set(before).difference(life.pod.claim_ids):
            self._users[claim].discard(life.pod.uid)
        for claim in life.pod.claim_ids:
            self._users[claim].add(life.pod.uid)

    def _is_needed(self, claim: ClaimId) -> bool:
        """Whether a pod that has really run, and with it a claim that is really gone, is still here."""
        users = (self._lives.get(uid) for uid in self._users.get(claim, ()))
        return any(life is not None and life.bound_at is not None for life in users)

    def _has_claim(self, claim: ClaimId) -> bool:
        return self.cluster.claim(claim) is not None
