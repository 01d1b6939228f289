"""
The optimum of a small case by trying everything: every pod on every node or nowhere, every device for every request.

Knows the rules by the checker's reading of pools, selectors, taints and policies (`solver.verify`), never by the
solver's. Remembers what it has seen by the state of devices and nodes that it leads to, which keeps three nodes, eight
devices and four pods within milliseconds to a second.

A claim that several pods share is allocated for the node of the first of them that is placed, so requests for all
devices should not stand in shared claims here.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, count
from typing import NamedTuple

from msgspec.structs import replace

from solver.domain import (
    MAX_RESERVED_FOR,
    OPTIONAL_NODE_OPERATIONS,
    Allocation,
    AllocationMode,
    Batch,
    Claim,
    ClaimAllocation,
    ClaimId,
    Constraint,
    ConstraintKind,
    CounterId,
    DeviceId,
    DeviceResult,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Placement,
    Plan,
    Pod,
    PodClaim,
    PodId,
    Policy,
    PoolId,
    Quantity,
    Request,
    Snapshot,
    SubRequest,
    Unplaced,
)
from solver.domain.quantity import format_nano
from solver.verify import claims, devices, inter_pod, matching, node_fit, requests
from solver.verify.devices import consumption
from solver.verify.plan_context import PlanContext, new_allocation
from solver.verify.pools import Published
from solver.verify.requests import SelectionError, attribute_values, covers, selects
from tests.support import builders as b
from tests.support.quota_oracle import QuotaOracle

Consumption = tuple[tuple[str, int], ...]
DEFAULT_POLICY = Policy()
_NEVER = -(10**6)
"""Added up with any number of pods it stays below none."""


class Best(NamedTuple):
    """
    The best that can be done: pods placed by priority, the highest first, and then the least sum of ranks.

    A request served by its first alternative has rank 0, by its second 1 and so on; a shared claim counts once.
    `plan` is one way to get there.
    """

    counts: tuple[int, ...]
    rank: int
    plan: Plan


def best(snapshot: Snapshot, batch: Batch, policy: Policy = DEFAULT_POLICY) -> Best:
    """Find the most pods that can be placed, strictly by priority, and then the least sum of ranks."""
    search = _Search(snapshot, batch, policy)
    (counts, rank), placed = search.from_here(0, search.start())
    return Best(counts, -rank, _plan(search, placed))


def fits_alone(snapshot: Snapshot, pod: Pod, policy: Policy = DEFAULT_POLICY) -> bool:
    """Whether the pod could be placed if it were the only one."""
    return best(snapshot, Batch(pods=(pod,)), policy).counts == (1,)


class _Given(NamedTuple):
    """A device given to a request."""

    main: str
    request: str
    published: Published
    wanted: SubRequest
    consumed: Consumption

    @property
    def is_admin(self) -> bool:
        return self.wanted.admin_access

    @property
    def id(self) -> DeviceId:
        return self.published.id

    @property
    def is_share(self) -> bool:
        return self.published.device.allow_multiple_allocations


class _State(NamedTuple):
    """
    What is taken: devices held alone, one entry per share, what nodes have left.

    `homes` says where claims that were allocated on the way and have more consumers to come can be used; `room`
    counts the consumers that a nearly full claim can still take. `seats` say which pod is where as soon as any pod
    has rules about its neighbours: these are judged when every pod has a place.
    """

    alone: frozenset[DeviceId]
    shares: tuple[tuple[DeviceId, Consumption], ...]
    free: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    homes: tuple[tuple[ClaimId, frozenset[str]], ...]
    room: tuple[tuple[ClaimId, int], ...]
    seats: tuple[tuple[PodId, str], ...] = ()
    counts: tuple[tuple[int, frozenset[str]], ...] = ()


_Grants = tuple[tuple[ClaimId, tuple[_Given, ...]], ...]
_Step = tuple[Pod, Node, _Grants]
_Outcome = tuple[tuple[tuple[int, ...], int], tuple[_Step, ...]]
_Moves = Iterator[tuple[int, _State, _Grants]]
"""Sum of ranks, the state afterwards, and what was allocated on the way."""


class _Search:
    """Over pods in the batch's order."""

    def __init__(self, snapshot: Snapshot, batch: Batch, policy: Policy) -> None:
        self.picture = PlanContext.of(snapshot, batch, policy)
        self.pods = batch.pods
        self.priorities = sorted({pod.priority for pod in batch.pods}, reverse=True)
        self.users = Counter(claim for pod in batch.pods for claim in pod.claim_ids)
        self.ways = _Ways(self.picture)
        self.quotas = QuotaOracle(self.picture)
        self.seen: dict[tuple[int, _State], _Outcome] = {}
        all_pods = (*batch.pods, *snapshot.pods)
        self.has_neighbours = any(pod.host_ports or pod.affinity or pod.anti_affinity or pod.spread for pod in all_pods)

    def start(self) -> _State:
        results = [
            result
            for claim in self.picture.snapshot.claims
            if claim.allocation is not None
            for result in claim.allocation.results
            if not result.admin_access
        ]
        shares = [
            (result.device, tuple((name, amount.nano) for name, amount in result.consumed_capacity))
            for result in results
            if result.share_id
        ]
        rooms = {
            claim.id: MAX_RESERVED_FOR - len(claim.reserved_for)
            for claim in self.picture.snapshot.claims
            if self.users[claim.id] > MAX_RESERVED_FOR - len(claim.reserved_for)
        }
        return _State(
            alone=frozenset(result.device for result in results if not result.share_id),
            shares=tuple(sorted(shares)),
            free=tuple((node.name, self._left(node)) for node in self.picture.snapshot.nodes),
            homes=(),
            room=tuple(sorted(rooms.items())),
            counts=self.quotas.start(self.picture.snapshot.claims),
        )

    def _left(self, node: Node) -> tuple[tuple[str, int], ...]:
        left = Counter(dict(node.allocatable))
        for pod in self.picture.snapshot.pods:
            if pod.node_name == node.name:
                left.subtract({**dict(pod.requests), "pods": 1})
        return tuple(sorted(left.items()))

    def from_here(self, index: int, state: _State) -> _Outcome:
        """Give the best of the pods from `index` on."""
        if index == len(self.pods):
            return ((0 if self._may_sit(state) else _NEVER,) * len(self.priorities), 0), ()
        if (index, state) not in self.seen:
            self.seen[index, state] = self._tried(index, state)
        return self.seen[index, state]

    def _may_sit(self, state: _State) -> bool:
        """Whether the rules between pods are kept at the end."""
        seats = (b.placement(self.picture.pods[pod], node) for pod, node in state.seats)
        return not state.seats or not any(inter_pod.violations(b.plan(*seats), self.picture))

    def _tried(self, index: int, state: _State) -> _Outcome:
        pod = self.pods[index]
        found = self.from_here(index + 1, state)
        tier = self.priorities.index(pod.priority)
        for node in self.picture.snapshot.nodes:
            for rank, after, grants in _once(self._placed(pod, node, state)):
                (counts, ranks), placed = self.from_here(index + 1, after)
                more = (*counts[:tier], counts[tier] + 1, *counts[tier + 1 :])
                if (more, ranks - rank) > found[0]:
                    found = (more, ranks - rank), ((pod, node, grants), *placed)
        return found

    def _placed(self, pod: Pod, node: Node, state: _State) -> _Moves:
        """Every way to place a pod on a node."""
        if pod.invalid or pod.scheduling_gates or pod.is_deleting or pod.is_terminal or pod.node_name:
            return
        if any(node_fit.suits(pod, node)) or not all(self._may_use(pod, entry) for entry in pod.claims):
            return
        left = dict(dict(state.free)[node.name])
        takes = {**{name: amount for name, amount in pod.requests if amount > 0}, "pods": 1}
        if any(left.get(name, 0) < amount for name, amount in takes.items()):
            return
        left.update({name: left[name] - amount for name, amount in takes.items()})
        free = {**dict(state.free), node.name: tuple(sorted(left.items()))}
        state = state._replace(free=tuple(sorted(free.items())))
        if self.has_neighbours:
            state = state._replace(seats=(*state.seats, (pod.id, node.name)))
        yield from self._with_claims((pod, node), pod.claim_ids, state)

    def _may_use(self, pod: Pod, entry: PodClaim) -> bool:
        if entry.is_skipped:
            return True
        claim = self.picture.claims.get(entry.claim) if entry.claim is not None else None
        if claim is None or claim.is_deleting or claim.invalid:
            return False
        return not entry.template or claims.is_owned(pod, claim, self.picture)

    def _with_claims(self, place: tuple[Pod, Node], claim_ids: tuple[ClaimId, ...], state: _State) -> _Moves:
        if not claim_ids:
            yield 0, state, ()
            return
        for rank, after, grant in _once(self._with_claim(place, self.picture.claims[claim_ids[0]], state)):
            for ranks, last, grants in self._with_claims(place, claim_ids[1:], after):
                yield rank + ranks, last, grant + grants

    def _with_claim(self, place: tuple[Pod, Node], claim: Claim, state: _State) -> _Moves:
        pod, node = place
        is_new = not claims.is_reserved(claim, pod, self.picture)
        room = dict(state.room)
        if is_new and room.get(claim.id) == 0:
            return
        if is_new and claim.id in room:
            room[claim.id] -= 1
            state = state._replace(room=tuple(sorted(room.items())))
        homes = dict(state.homes)
        if claim.allocation is not None:
            selector = claim.allocation.node_selector
            is_here = selector is None or matching.selects(selector, node)
            is_here = is_here and _declares(claim.allocation.skips_node_operations, node)
            if is_here and not (is_new and self._is_tainted(claim)):
                yield 0, state, ()
        elif claim.id in homes:
            if node.name in homes[claim.id]:
                yield 0, state, ()
        else:
            for rank, given in self.ways.allocations(claim, node, state):
                results = [_result(claim, each, number) for number, each in enumerate(given)]
                counts = self.quotas.after(state.counts, claim, results)
                if counts is not None:
                    after = self._after(claim, node, given, state)._replace(counts=counts)
                    yield rank, after, ((claim.id, given),)

    def _is_tainted(self, claim: Claim) -> bool:
        return any(
            any(matching.untolerated(self.picture.pools.taints(result.device), result.tolerations))
            for result in (claim.allocation.results if claim.allocation is not None else ())
        )

    def _after(self, claim: Claim, node: Node, given: tuple[_Given, ...], state: _State) -> _State:
        used = [each for each in given if not each.is_admin]
        shares = (*state.shares, *((each.id, each.consumed) for each in used if each.is_share))
        homes = dict(state.homes)
        if self.users[claim.id] > 1:
            binds = any(each.published.device.binds_to_node for each in given)
            homes[claim.id] = frozenset(
                other.name
                for other in self.picture.snapshot.nodes
                if all(matching.reaches(each.published.scope, other) for each in given)
                and all(_declares(bool(each.published.skipped), other) for each in given)
                and (not binds or other.name == node.name)
            )
        return state._replace(
            alone=state.alone | {each.id for each in used if not each.is_share},
            shares=tuple(sorted(shares)),
            homes=tuple(sorted(homes.items(), key=lambda pair: pair[0])),
        )


def _declares(skips: bool, node: Node) -> bool:  # noqa: FBT001 - private
    return not skips or OPTIONAL_NODE_OPERATIONS in node.declared_features


def _once(moves: _Moves) -> _Moves:
    """Of several ways to the same state keep one."""
    seen: dict[tuple[int, _State], _Grants] = {}
    for rank, after, grants in moves:
        seen.setdefault((rank, after), grants)
    yield from ((rank, after, grants) for (rank, after), grants in seen.items())


def _plan(search: "_Search", placed: tuple[_Step, ...]) -> Plan:
    """Write the steps down as a plan, with everything that an allocation has to carry."""
    steps = {pod.id: (pod, node) for pod, node, _ in placed}
    parts: list[Placement | ClaimAllocation | Unplaced] = []
    for pod in search.pods:
        if pod.id in steps:
            parts.append(b.placement(pod, steps[pod.id][1].name))
        else:
            parts.append(b.unplaced(pod))
    numbers = count(1)
    for _, node, grants in placed:
        for claim_id, given in grants:
            claim = search.picture.claims[claim_id]
            drafted = ClaimAllocation(
                claim=claim.id,
                claim_uid=claim.uid,
                allocation=Allocation(results=tuple(_result(claim, each, next(numbers)) for each in given)),
            )
            parts.append(completed(search.picture, drafted, node))
    return b.plan(*parts)


def _result(claim: Claim, given: _Given, number: int) -> DeviceResult:
    wanted = next(
        request.alternatives[i]
        for request in claim.requests
        for i in range(len(request.alternatives))
        if str(request.result_name(i)) == given.request
    )
    return drafted_result(given.request, wanted, given.published, number)


def drafted_result(name: str, wanted: SubRequest, published: Published, number: int) -> DeviceResult:
    """Describe a device that is given to a request, as an allocation has to; `number` makes the share's id."""
    device = published.device
    consumed = consumption(published, wanted.capacity_requests) or {}
    return DeviceResult(
        request=name,
        device=published.id,
        admin_access=wanted.admin_access,
        tolerations=wanted.tolerations,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        share_id=b.share_id(number) if device.allow_multiple_allocations else "",
        consumed_capacity=tuple(
            (name, Quantity(nano=amount, text=format_nano(amount))) for name, amount in sorted(consumed.items())
        ),
        skip_node_operations=published.skipped,
    )


def completed(picture: PlanContext, drafted: ClaimAllocation, node: Node) -> ClaimAllocation:
    """Add the node selector and the configuration, as the checker derives them."""
    grant = new_allocation(picture.claims[drafted.claim], drafted.allocation, (node,))
    allocation = replace(
        drafted.allocation,
        node_selector=_selector(claims.expected_terms(grant, picture)),
        config=claims.expected_config(grant, picture),
    )
    return replace(drafted, allocation=allocation)


def _selector(terms: claims.Terms | None) -> NodeSelector | None:
    if terms is None:
        return None

    def of(term: frozenset[claims.Requirement], where: str) -> tuple[NodeSelectorRequirement, ...]:
        return tuple(
            NodeSelectorRequirement(key=key, operator=operator, values=tuple(sorted(values)))
            for place, key, operator, values in sorted(term, key=repr)
            if place == where
        )

    return NodeSelector(
        terms=tuple(
            NodeSelectorTerm(match_expressions=of(term, "labels"), match_fields=of(term, "fields")) for term in terms
        )
    )


class _Ways:
    """Every allocation of a claim on a node."""

    def __init__(self, picture: PlanContext) -> None:
        self.picture = picture
        pool_ids = sorted({each.pool_id for each in picture.snapshot.slices})
        self.views = {pool_id: picture.pools.view(pool_id) for pool_id in pool_ids}
        self.remembered = {device: dict(drawn) for device, drawn in picture.snapshot.draws}
        self.eligible: dict[tuple[SubRequest, str], tuple[Published, ...] | None] = {}

    def allocations(self, claim: Claim, node: Node, state: _State) -> Iterator[tuple[int, tuple[_Given, ...]]]:
        """Give them as the sum of ranks and the devices given."""
        if any(constraint.kind is ConstraintKind.UNKNOWN for constraint in claim.constraints):
            return
        yield from self._from_request(claim, claim.requests, (), (node, state))

    def _from_request(
        self, claim: Claim, left: tuple[Request, ...], given: tuple[_Given, ...], where: tuple[Node, _State]
    ) -> Iterator[tuple[int, tuple[_Given, ...]]]:
        if not left:
            if len(given) <= requests.MOST_RESULTS:
                yield 0, given
            return
        for rank in range(len(left[0].alternatives)):
            for more in self._sets(left[0], rank, where[0]):
                extended = (*given, *more)
                if not self._is_free(extended, where[1]) or not _holds(claim.constraints, extended):
                    continue
                for ranks, whole in self._from_request(claim, left[1:], extended, where):
                    yield rank + ranks, whole

    def _sets(self, request: Request, rank: int, node: Node) -> Iterator[tuple[_Given, ...]]:
        """Every set of devices for one alternative, whatever is in use."""
        wanted = request.alternatives[rank]
        if wanted.device_class not in self.picture.classes:
            return
        key = (wanted, node.name)
        if key not in self.eligible:
            self.eligible[key] = (
                self._all(wanted, node)
                if wanted.allocation_mode == AllocationMode.ALL
                else tuple(each for each in self._visible(node) if self._answers(wanted, each, node))
            )
        found = self.eligible[key]
        if not found or wanted.allocation_mode not in set(AllocationMode):
            return
        size = len(found) if wanted.allocation_mode == AllocationMode.ALL else wanted.count
        name = str(request.result_name(rank))
        for chosen in combinations(found, size):
            yield tuple(_Given(request.name, name, each, wanted, self._consumed(wanted, each)) for each in chosen)

    def _visible(self, node: Node) -> Iterator[Published]:
        for view in self.views.values():
            if not view.trouble:
                yield from (each for each in view.devices.values() if matching.reaches(each.scope, node))

    def _answers(self, wanted: SubRequest, published: Published, node: Node) -> bool:
        try:
            if not selects(self.picture.classes[wanted.device_class], wanted, published):
                return False
        except SelectionError:
            return False
        return self._may_take(wanted, published, node) and consumption(published, wanted.capacity_requests) is not None

    def _may_take(self, wanted: SubRequest, published: Published, node: Node) -> bool:
        taints = matching.untolerated(self.picture.pools.taints(published.id), wanted.tolerations)
        return (
            _declares(bool(published.skipped), node) and not any(taints) and devices.is_owned(published, self.picture)
        )

    def _all(self, wanted: SubRequest, node: Node) -> tuple[Published, ...] | None:
        """Every device that the request means, or None where one of them cannot be had or it is not clear."""
        if any(view.trouble for view in self.picture.pools.seen_from(node)):
            return None
        device_class = self.picture.classes[wanted.device_class]
        try:
            selected = [each for each in self._visible(node) if selects(device_class, wanted, each)]
        except SelectionError:
            return None
        meant = tuple(each for each in selected if consumption(each, wanted.capacity_requests) is not None)
        return meant if all(self._may_take(wanted, each, node) for each in meant) else None

    def _consumed(self, wanted: SubRequest, published: Published) -> Consumption:
        return tuple(sorted((consumption(published, wanted.capacity_requests) or {}).items()))

    def _is_free(self, given: tuple[_Given, ...], state: _State) -> bool:
        """Whether what is given to one claim so far is there to be given."""
        alone = Counter(each.id for each in given if not each.is_share)
        if any(times > 1 for times in alone.values()):
            return False
        shared = {device for device, _ in state.shares}
        used = [each for each in given if not each.is_admin]
        if any(each.id in state.alone or (not each.is_share and each.id in shared) for each in used):
            return False
        return all(self._has_capacity(each.published, used, state) for each in used if each.is_share) and all(
            self._has_counters(pool, used, state) and self._agrees(pool, used, state)
            for pool in {each.id.pool_id for each in used}
        )

    def _agrees(self, pool: PoolId, used: list[_Given], state: _State) -> bool:
        """Whether the devices of each counter set that one comes into use on have a compatibility group in common."""
        before = {*state.alone, *(device for device, _ in state.shares)}
        names = {device for device in (*before, *(each.id for each in used)) if device.pool_id == pool}
        of_set: dict[str, dict[DeviceId, frozenset[str]]] = {}
        for device in names & {each.id for each in self.views[pool].devices.values()}:
            for draws in self.views[pool].devices[device.device].device.consumes_counters:
                groups = frozenset(draws.compatibility_groups or ("none",))
                of_set.setdefault(draws.counter_set, {})[device] = groups
        return all(each.keys() <= before or frozenset.intersection(*each.values()) for each in of_set.values())

    def _has_capacity(self, published: Published, used: list[_Given], state: _State) -> bool:
        taken: Counter[str] = Counter()
        for device, consumed in (*state.shares, *((each.id, each.consumed) for each in used)):
            if device == published.id:
                taken.update(dict(consumed))
        return all(taken[name] <= capacity.value.nano for name, capacity in published.device.capacities)

    def _has_counters(self, pool: PoolId, used: list[_Given], state: _State) -> bool:
        """Whether the devices that come into use here find what they draw of the pool's counters."""
        before = {*state.alone, *(device for device, _ in state.shares)}
        names = {device for device in (*before, *(each.id for each in used)) if device.pool_id == pool}
        asked = {counter for device in names - before for counter in self._draws(device) or ()}
        remembered = {device: drawn for device, drawn in self.remembered.items() if device in before}
        draws = [remembered.get(device, self._draws(device)) for device in names]
        if not asked:
            return True
        drawn: Counter[CounterId] = Counter()
        for each in draws:
            if each is None:
                return False
            drawn.update(each)
        limits = self.views[pool].counters
        return all(drawn[counter] <= limits[counter.counter_set, counter.counter].nano for counter in asked)

    def _draws(self, device: DeviceId) -> dict[CounterId, int] | None:
        published = self.views[device.pool_id].devices.get(device.device)
        if published is None:
            return None
        return {
            CounterId(device.driver, device.pool, draws.counter_set, counter): amount.nano
            for draws in published.device.consumes_counters
            for counter, amount in draws.counters
            if amount.nano > 0
        }


def _holds(constraints: tuple[Constraint, ...], given: tuple[_Given, ...]) -> bool:
    """Whether the devices so far keep the constraints; what is broken once stays broken."""
    for constraint in constraints:
        values = [
            attribute_values(each.published, constraint.attribute, each.wanted)
            for each in given
            if covers(constraint, each.main, each.request)
        ]
        if not all(values):
            return False
        if constraint.kind is ConstraintKind.MATCH and values and not frozenset.intersection(*values):
            return False
        if constraint.kind is ConstraintKind.DISTINCT and any(one & other for one, other in combinations(values, 2)):
            return False
    return True
