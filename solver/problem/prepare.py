"""
Make a problem of a snapshot and a batch.

`prepare` reads top to bottom: leave out pods that cost more than the budget has, describe the rest (`requests`), form
equivalence classes (`pod_classes`), count what devices and nodes have left, and add rule after rule. Every step takes a
frozen `Problem` and gives a new one.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from solver.domain import Batch, Budget, ClaimId, PodId, Policy, Reason, Snapshot
from solver.problem import batch_selectors, charging, expected_room, gangs, pod_classes, reservations, skipped_pods
from solver.problem.batch_requests import BatchRequests
from solver.problem.batch_selectors import ClaimContext
from solver.problem.costs import preferences
from solver.problem.devices.inventory import Inventory
from solver.problem.inter_pod import InterPodRuleBuilder
from solver.problem.problem import Available, DeviceRequests, OptionCache, Problem, SharedClaim
from solver.problem.quotas import batch_quotas
from solver.problem.requests import enumeration, widened_requests
from solver.problem.requests.extended_resources import ExtendedResourceModes
from solver.problem.requests.spared_devices import SpareDevices
from solver.problem.solver_cache import SolverCache
from solver.rules.forms.inter_pod import InterPodRules
from solver.rules.verdicts import NodeVerdicts
from solver.rules.volumes import batch as volume_limits
from solver.rules.volumes import shared_claims
from solver.rules.volumes.batch import VolumeDemand

_WALL_SHARE: Final = 0.7
"""Until this share of the wall time pods are described."""


def prepare(
    snapshot: Snapshot,
    batch: Batch,
    policy: Policy,
    cache: SolverCache,
    budget: Budget | None = None,
    *,
    every_limit: bool = False,
    contended: bool = False,
) -> Problem:
    """
    Build the dense form; pods that nothing can place are in `rejected` with their reasons.

    So are pods that the time or the allowance of the budget does not reach. Where the budget may leave pods, these are
    no part of the problem. Without a budget all pods are prepared. With `every_limit` the problem has the limits of
    quotas that leave enough for the batch, too. `contended` says that not all pods fit, so that guarantees and shares
    of quotas count.
    """
    with gc_paused():
        inventory, classes = cache.inventory(snapshot, policy.owned), {each.name: each for each in snapshot.classes}
        claims = cache.claims(inventory, snapshot).by_id
        stored = {each.id: each for each in snapshot.volume_claims} if any(pod.volumes for pod in batch.pods) else {}
        context = ClaimContext(claims, classes, ExtendedResourceModes(inventory.nodes, classes), policy, stored)
        own = budget or Budget.unbounded()
        modes = {"every_limit": every_limit, "contended": contended}
        case = _Preparation(snapshot, policy, cache, own, inventory, context, **modes)
        return case.problem(batch)


@contextmanager
def gc_paused() -> Iterator[None]:
    """
    Disable the cyclic garbage collector inside the block.

    The dense form of a large cluster is hundreds of thousands of values without reference cycles that all stay. Each
    time their number grows by a quarter, the collector would traverse all of them and the snapshot. Reference counting
    frees the rest at once as ever.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, slots=True, eq=False)
class _Preparation:
    """What the steps read: one snapshot with its devices, the policy, the cache and the budget."""

    snapshot: Snapshot
    policy: Policy
    cache: SolverCache
    budget: Budget
    inventory: Inventory
    context: ClaimContext
    every_limit: bool = False
    contended: bool = False

    def problem(self, batch: Batch) -> Problem:
        """Leave out the pods that are too costly, or that the earlier decision left out, and prepare the others."""
        left = self.budget.work.next_left_out()
        if left is not None:
            problem = self._without(batch, left)
        else:
            left = self._without_answers(batch)
            problem = self._without(batch, left)
            more = enumeration.without_options(problem, self.cache, self.budget)
            if more:
                left |= skipped_pods.with_whole_gangs(problem.batch, more)
                problem = self._without(batch, left)
        self.budget.work.leave_out(left)
        return problem

    def _without_answers(self, batch: Batch) -> skipped_pods.Reasons:
        """Evaluate selectors, then answer demands; return the pods for which this costs too much."""
        asked = (self.context, self.cache, self.budget)
        left = skipped_pods.with_whole_gangs(batch, batch_selectors.unfinished(self.inventory, batch, *asked))
        rest = batch.without(left)
        return left | skipped_pods.with_whole_gangs(rest, charging.unpaid(self.inventory, rest, *asked))

    def _without(self, batch: Batch, left: Mapping[PodId, Reason]) -> Problem:
        """Build the problem of all pods but some, which it has as rejected unless the budget may leave them."""
        gone = {key: why for key, why in left.items() if self.budget.may_defer and why.code in skipped_pods.CODES}
        rest = batch.without(gone)
        rejected: dict[int, tuple[Reason, ...]] = {
            position: (left[pod.id],) for position, pod in enumerate(rest.pods) if pod.id in left
        }
        return self._built(rest, rejected)

    def _built(self, batch: Batch, rejected: dict[int, tuple[Reason, ...]]) -> Problem:
        """Build the problem, one step after the other; the order of limits is the order of rows in the model."""
        requests = self._outline(batch, rejected)
        problem = self._dense(requests, batch)
        if requests.node_takes is not None:
            problem = widened_requests.widen(problem, requests.node_takes)
        problem = problem.with_limits(requests.places(problem))
        problem = _with_volume_limits(problem)
        problem = _with_inter_pod_rules(problem, requests.interpod)
        problem = _with_gang_rules(problem)
        problem = _with_shared_volumes(problem)
        problem = reservations.apply(batch_quotas.with_quotas(problem, requests.quotas))
        return preferences.with_costs(expected_room.weighted(problem), self.cache)

    def _outline(self, batch: Batch, rejected: dict[int, tuple[Reason, ...]]) -> BatchRequests:
        """Describe what the batch asks for, and reject the pods that no node can help."""
        running = self.cache.inter_pod(self.inventory, self.snapshot.pods)
        requests = BatchRequests(
            claims=self.context.claims,
            device_classes=self.context.classes,
            modes=self.context.modes,
            cost_keys=preferences.CostKeys.of(self.policy, batch, running),
            overdue=frozenset(batch.overdue),
            policy=self.policy,
            interpod=InterPodRuleBuilder.of(batch, self.snapshot.namespaces, running, self.budget),
            budget=self.budget.until(_WALL_SHARE).at("preparation"),
            rejected=rejected,
        )
        requests.expect(self.cache.expected.of(self.policy, self.snapshot.classes))
        requests.index(self.snapshot, batch, self.cache, self.inventory)
        requests.quotas = batch_quotas.BatchQuotas.of(
            self.snapshot,
            batch,
            requests.claims,
            self.cache.quotas,
            every_limit=self.every_limit,
            contended=self.contended,
        )
        requests.find_shared(batch)
        for claim_id in requests.shared_ids:
            requests.components_of(claim_id)
        return requests

    def _dense(self, requests: BatchRequests, batch: Batch) -> Problem:
        """Form classes of pods and groups of nodes, and count what is left of nodes and devices; no rules yet."""
        snapshot, inventory = self.snapshot, self.inventory
        classes = pod_classes.classes(requests, batch, inventory, self.cache)
        ledger, room = self.cache.claims(inventory, snapshot).ledger, self.cache.room(inventory, snapshot.pods)
        spare = None
        if inventory.takes_node_resources:
            spare = SpareDevices(inventory, ledger, room, requests.device_needs(classes, batch))
        charged = requests.quotas.charged(requests.demands, self.context.classes)
        layout, answers = self.cache.layout(inventory, tuple(requests.demands), requests.compared(), spare, charged)
        available = Available.of(ledger, room, self.cache.states(layout, inventory, snapshot))
        return Problem(
            snapshot=snapshot,
            batch=batch,
            policy=self.policy,
            inventory=inventory,
            layout=layout,
            requests=DeviceRequests(
                claims=requests.claims,
                device_classes=requests.device_classes,
                demands=tuple(requests.demands),
                answers=answers,
                components=list(requests.components),
                expected=requests.expected,
            ),
            available=available,
            option_cache=OptionCache(available),
            classes=classes,
            shared=[_shared_claim(requests, index, claim_id) for index, claim_id in enumerate(requests.shared_ids)],
            rejected=requests.rejected,
            volume_index=requests.volume_index,
            params=self.budget.params,
        )


def _shared_claim(requests: BatchRequests, index: int, claim_id: ClaimId) -> SharedClaim:
    parts, sources = requests.parts((claim_id,))
    return SharedClaim(index, requests.claims[claim_id], parts, sources)


def _with_volume_limits(problem: Problem) -> Problem:
    """Limit what pods take of volumes and attachments from each other."""
    if problem.volume_index is None:
        return problem
    asking = [
        VolumeDemand(each.index, problem.pod(each.members[0]).id.namespace, each.size, each.volumes)
        for each in problem.classes
        if each.volumes is not None and each.verdicts.allowed.any()
    ]
    return problem.with_limits(volume_limits.limits(problem.volume_index, asking))


def _with_inter_pod_rules(problem: Problem, interpod: InterPodRuleBuilder) -> Problem:
    """Add host ports, pod affinity, anti-affinity and topology spread between pods of the batch."""
    pods = {each.index: problem.pod(each.members[0]) for each in problem.classes}
    keys = {index: interpod.key(pod) for index, pod in pods.items()}
    built = interpod.built(keys, pods, {each.index: each.size for each in problem.classes})
    verdicts: dict[int, NodeVerdicts] = {}
    for index, refusal in built.refused:
        before = verdicts.get(index, problem.classes[index].verdicts)
        verdicts[index] = before.without((refusal,))
    ruled = problem.with_limits(built.limits).with_verdicts(verdicts)
    return replace(ruled, rules=replace(ruled.rules, inter_pod=built.inter_pod))


def _with_gang_rules(problem: Problem) -> Problem:
    """Add the rules of gangs, and take away the nodes on which a member has no domain that its gang may use."""
    if not problem.batch.gangs:
        return problem
    views = [
        gangs.GangClass(
            index=each.index,
            pod=problem.pod(each.members[0]),
            size=each.size,
            components=tuple(
                dict.fromkeys(problem.requests.components[part.component] for part in problem.parts_of(each))
            ),
            is_first=each.index == each.family,
        )
        for each in problem.classes
    ]
    known = gangs.GangRules(
        problem.inventory, problem.snapshot, problem.requests.claims, problem.requests.demands, problem.requests.answers
    )
    rules = known.rules(problem.batch.gangs, views)
    verdicts: dict[int, NodeVerdicts] = {}
    for rule in rules:
        for level in rule.levels:
            level.may_name_domains = problem.policy.tells_inventory
        own = {index: problem.classes[index].verdicts for index in rule.classes}
        verdicts |= gangs.narrowed(rule, own, {index: problem.classes[index].family for index in rule.classes})
    return replace(problem, rules=replace(problem.rules, gangs=rules)).with_verdicts(verdicts)


def _with_shared_volumes(problem: Problem) -> Problem:
    """Keep pods together that share a volume which is still to be chosen."""
    sharers = [
        shared_claims.VolumeSharer(
            each.index, each.family, each.size, problem.pod(each.members[0]).gang, each.volumes.shared
        )
        for each in problem.classes
        if each.volumes is not None and each.volumes.shared
    ]
    if problem.volume_index is None or not sharers:
        return problem
    tied = shared_claims.with_shared_claims(problem.rules.gangs, sharers, problem.volume_index)
    inter_pod = problem.rules.inter_pod
    if pairs := shared_claims.exclusive_users(tied, sharers, problem.node_count):
        inter_pod = InterPodRules.of((*inter_pod.anti_affinity, *pairs), inter_pod.affinity, inter_pod.spread)
    return replace(problem, rules=replace(problem.rules, gangs=tied, inter_pod=inter_pod))
