"""
Gangs of a batch in dense form: which classes belong to one, how many of its pods at least, in which domains.

A domain is a value of a node label, or of an attribute of the devices that the members use; a level of a gang is a
partition of the nodes into domains. Pods whose requests no device with the attribute can serve are not bound by a level
of devices, unless that would leave nobody bound. A node is in a domain of devices if all devices that a pod could get
there and that publish the attribute agree on it, and some request can only be served by such devices; where one node
has several values, its pods are of a class for each of them (see `splits`).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import product
from typing import Final, Protocol

import numpy as np

from solver.domain import Batch, Claim, ClaimId, Gang, GangId, GangLevel, Pod, Reason, ReasonCode, Snapshot
from solver.feasibility.device_attributes import AttributeName
from solver.problem import fit
from solver.problem.devices.inventory import Inventory, Mask
from solver.problem.gangs.device_domains import DeviceDomains, value_of
from solver.problem.limits import NO_DOMAIN, Domains
from solver.problem.requests.component import Component
from solver.problem.requests.demand import Answers, DemandKey

Row = tuple[int, ...]
"""A domain per level, in the order of the levels."""
_MOST_ROWS: Final = 4096


class Scope(Protocol):
    """What pods share at a level, and whether they have to; as text it is how messages name it."""

    @property
    def is_required(self) -> bool:
        """Whether all pods have to be in one domain."""


@dataclass(slots=True, eq=False)
class Level:
    """
    One level of a gang.

    `domain_of[class][node]` is a domain or `NO_DOMAIN`, for the classes that the level binds; `names` are per domain.
    `held` are the domains of the members that run. `is_told` says whether messages may give the names, which are values
    that nodes and devices have.
    """

    level: Scope
    names: list[str] = field(default_factory=list)
    domain_of: dict[int, Domains] = field(default_factory=dict)
    held: frozenset[int] = frozenset()
    is_told: bool = True
    by_domain: dict[int, set[int]] = field(default_factory=dict)
    """The classes that have nodes in each domain."""

    @property
    def is_required(self) -> bool:
        """Whether all pods have to be in one domain."""
        return self.level.is_required

    def bind(self, domain_of: dict[int, Domains]) -> None:
        """Take the domains of the classes' nodes."""
        self.domain_of = domain_of
        arrays = {id(each): each for each in domain_of.values()}
        found = {key: np.unique(each).tolist() for key, each in arrays.items()}
        for index, domains in domain_of.items():
            for domain in found[id(domains)]:
                self.by_domain.setdefault(domain, set()).add(index)

    def classes_in(self, domain: int) -> AbstractSet[int]:
        """Give the classes that have nodes in a domain."""
        return self.by_domain.get(domain, frozenset())


@dataclass(slots=True, eq=False)
class GangRule:
    """
    Of the pods of `classes` (all of them one gang's) at least `need` are placed, or none.

    `size` is how many there are, `running` how many members run. Required levels are in what the classes' verdicts
    allow: a node without a domain is out, and so is every domain but those held.
    """

    gang: Gang
    classes: tuple[int, ...]
    size: int
    running: int
    levels: tuple[Level, ...]

    @property
    def need(self) -> int:
        """How many have to be placed together; 0 where enough run already."""
        return max(0, self.gang.min_count - self.running)

    @property
    def required(self) -> tuple[Level, ...]:
        """Levels that have to be kept."""
        return tuple(each for each in self.levels if each.is_required)

    @property
    def preferred(self) -> tuple[Level, ...]:
        """Levels that cost."""
        return tuple(each for each in self.levels if not each.is_required)

    def rows(self, levels: Sequence[Level], open_nodes: Mapping[int, Mask]) -> list[Row]:
        """
        Give the domains that the gang can be in, one per level, those with the fewest open nodes first.

        `open_nodes` are per class; domains without any of them are left out.
        """
        counts: Counter[Row] = Counter()
        for index in self._telling(levels):
            columns = np.stack([each.domain_of[index] for each in levels])
            found, times = np.unique(columns[:, open_nodes[index]], axis=1, return_counts=True)
            for column, count in zip(found.T.tolist(), times.tolist(), strict=True):
                counts[tuple(column)] += count
        if not counts:
            counts = self._combined(levels, open_nodes)
        rows = [row for row in counts if NO_DOMAIN not in row and _agrees(row, levels)]
        return sorted(rows, key=lambda row: (counts[row], row))

    def inside(self, levels: Sequence[Level], row: Row) -> dict[int, Mask | None]:
        """
        Give the classes that have nodes inside of the domains of a row, each with these; None where no level binds it.

        A gang that shares a value of its devices has a class for each value: one of hundreds is inside.
        """
        binding = tuple(zip(levels, row, strict=True))
        masks = {
            index: self.mask(index, levels, row)
            for index in self.classes
            if all(index not in each.domain_of or index in each.classes_in(domain) for each, domain in binding)
        }
        return {index: mask for index, mask in masks.items() if mask is None or mask.any()}

    def mask(self, pod_class: int, levels: Sequence[Level], row: Row) -> Mask | None:
        """Nodes of a class inside of the domains of a row; None where no level binds it."""
        found: Mask | None = None
        for level, domain in zip(levels, row, strict=True):
            if pod_class in level.domain_of:
                inside: Mask = level.domain_of[pod_class] == domain
                found = inside if found is None else found & inside
        return found

    def sums(self, pod_class: int, levels: Sequence[Level], amounts: fit.Amounts) -> dict[Row, int] | None:
        """Sum up amounts per node over the domains of levels; None where one of these does not bind a class."""
        if not levels or any(pod_class not in level.domain_of for level in levels):
            return None
        nodes = np.flatnonzero(amounts)
        columns = np.stack([each.domain_of[pod_class][nodes] for each in levels])
        found, places = np.unique(columns, axis=1, return_inverse=True)
        totals = np.bincount(places.reshape(-1), weights=amounts[nodes], minlength=found.shape[1])
        return {tuple(column): int(total) for column, total in zip(found.T.tolist(), totals.tolist(), strict=True)}

    def _telling(self, levels: Sequence[Level]) -> list[int]:
        """Classes that all the levels bind."""
        return [each for each in self.classes if all(each in level.domain_of for level in levels)]

    def _combined(self, levels: Sequence[Level], open_nodes: Mapping[int, Mask]) -> Counter[Row]:
        """Combine the domains of levels that bind different classes."""
        per_level: list[Counter[int]] = []
        for level in levels:
            found = Counter[int]()
            for index, domains in level.domain_of.items():
                found.update(domains[open_nodes[index]].tolist())
            per_level.append(found)
        rows: Counter[Row] = Counter()
        for row in product(*(sorted(each) for each in per_level)):
            if len(rows) >= _MOST_ROWS:
                break
            rows[row] = sum(each[domain] for each, domain in zip(per_level, row, strict=True))
        return rows


def _agrees(row: Row, levels: Sequence[Level]) -> bool:
    return all(
        not (level.is_required and level.held) or domain in level.held
        for level, domain in zip(levels, row, strict=True)
    )


def running(snapshot: Snapshot) -> dict[GangId, list[Pod]]:
    """Give the members that hold a node and are not being deleted, by gang."""
    found: defaultdict[GangId, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        if pod.gang is not None and not pod.is_deleting:
            found[pod.gang].append(pod)
    return found


def objections(snapshot: Snapshot, batch: Batch) -> dict[int, tuple[Reason, ...]]:
    """Say why pods cannot be decided for their gangs' sake, by position in the batch."""
    gangs = {each.id: each for each in batch.gangs}
    if not gangs:
        return {}
    present = Counter(pod.gang for pod in batch.pods if pod.gang is not None)
    there = running(snapshot)
    reasons = {key: _objection(gang, present[key] + len(there.get(key, ()))) for key, gang in gangs.items()}
    return {
        position: (reason,)
        for position, pod in enumerate(batch.pods)
        if pod.gang is not None and (reason := reasons.get(pod.gang)) is not None
    }


def held_up(
    snapshot: Snapshot, batch: Batch, rejected: Mapping[int, tuple[Reason, ...]]
) -> dict[int, tuple[Reason, ...]]:
    """
    Set pods aside whose gang is too few without members that no node can help, by position in the batch.

    They wait for what these wait for, and say so by the same codes: no node would let them in.
    """
    found: dict[int, tuple[Reason, ...]] = {}
    short = {pod.gang for pod in map(batch.pods.__getitem__, rejected) if pod.gang is not None}
    members: defaultdict[GangId | None, list[int]] = defaultdict(list)
    for position, pod in enumerate(batch.pods) if short else ():
        members[pod.gang].append(position)
    there = running(snapshot) if short else {}
    for gang in (each for each in batch.gangs if each.id in short):
        own = members[gang.id]
        ready = [position for position in own if position not in rejected]
        late = [position for position in own if position in rejected]
        if len(ready) + len(there.get(gang.id, ())) >= gang.min_count:
            continue
        told: dict[ReasonCode, Reason] = {}
        for name, why in ((batch.pods[position].id.name, why) for position in late for why in rejected[position]):
            lead = f"gang {gang.id.name} waits for {_what(why.code)}{len(late)} of its pods"
            message = f"{lead}: pod {name} cannot be placed: {why.message}"
            told.setdefault(why.code, Reason(code=why.code, message=message))
        found.update(dict.fromkeys(ready, tuple(told.values())))
    return found


def _what(code: ReasonCode) -> str:
    return "claims of " if code is ReasonCode.CLAIM_MISSING else ""


def _objection(gang: Gang, present: int) -> Reason | None:
    if gang.invalid:
        code = ReasonCode.GANG_INCOMPLETE if gang.is_absent else ReasonCode.GANG_INVALID
        return Reason(code=code, message=gang.invalid)
    if present >= gang.min_count:
        return None
    exist = max(present, gang.member_count)
    if exist < gang.min_count:
        message = f"gang {gang.id.name} waits for members: {exist} of {gang.min_count} exist"
    else:
        message = (
            f"gang {gang.id.name} waits for members: {exist} exist, and {present} of the {gang.min_count} that have to "
            "run together can be decided now"
        )
    return Reason(code=ReasonCode.GANG_INCOMPLETE, message=message)


@dataclass(frozen=True, slots=True, eq=False)
class ClassView:
    """What this part of the problem has to know of a class of pods: its gang, its components, its first pod."""

    index: int
    pod: Pod
    size: int
    components: tuple[Component, ...]
    is_first: bool
    """Whether it is the first of its family: others stand for the same pods."""


@dataclass(slots=True, eq=False)
class Gangs:
    """Works out the rules of the gangs of one batch."""

    inventory: Inventory
    snapshot: Snapshot
    claims: Mapping[ClaimId, Claim]
    demands: tuple[DemandKey, ...]
    answers: tuple[Answers, ...]

    def rules(self, gangs: Iterable[Gang], classes: Iterable[ClassView]) -> tuple[GangRule, ...]:
        """Give the rule of every gang that has classes and ties its pods in some way."""
        members: defaultdict[GangId, list[ClassView]] = defaultdict(list)
        for each in classes:
            if each.pod.gang is not None:
                members[each.pod.gang].append(each)
        there = running(self.snapshot) if members else {}
        found = []
        for gang in gangs:
            own = members.get(gang.id, [])
            if not own or not (gang.min_count or gang.levels):
                continue
            rule = GangRule(
                gang=gang,
                classes=tuple(each.index for each in own),
                size=sum(each.size for each in own if each.is_first),
                running=len(there.get(gang.id, ())),
                levels=tuple(self._level(level, own, there.get(gang.id, ())) for level in gang.levels),
            )
            if rule.need or rule.levels:
                found.append(rule)
        return tuple(found)

    def _level(self, level: GangLevel, own: Sequence[ClassView], there: Sequence[Pod]) -> Level:
        made = Level(level)
        numbers: dict[str, int] = {}
        if level.node_label:
            labels = self.inventory.labels
            domains = np.array(
                [_number(numbers, labels[node].get(level.node_label)) for node in range(len(labels))], dtype=np.int64
            )
            made.bind(dict.fromkeys((each.index for each in own), domains))
            at = (self.inventory.node_index.get(pod.node_name, -1) for pod in there)
            held = {int(domains[node]) for node in at if node >= 0}
        else:
            attribute = AttributeName.parse(level.device_attribute)
            values = (value for pod in there for value in self.held_values(pod, attribute))
            held = {_number(numbers, value) for value in values}
            domain_of = self._device_domains(attribute, own, numbers)
            if not domain_of and not held:
                domain_of = dict.fromkeys((each.index for each in own), self._nowhere())
            made.bind(domain_of)
        made.held = frozenset(held - {NO_DOMAIN})
        made.names = list(numbers)
        return made

    def _device_domains(
        self, attribute: AttributeName, own: Sequence[ClassView], numbers: dict[str, int]
    ) -> dict[int, Domains]:
        found: dict[int, Domains] = {}
        known: dict[tuple[Component, ...], tuple[Domains, bool]] = {}
        for each in own:
            if each.components not in known:
                known[each.components] = self._domains(attribute, each.components, numbers)
            domains, is_published = known[each.components]
            fixed = set(self.held_values(each.pod, attribute))
            if fixed:
                number = _number(numbers, min(fixed)) if len(fixed) == 1 else NO_DOMAIN
                agrees = (domains == number) if is_published else np.ones(len(domains), dtype=np.bool_)
                domains = np.where(agrees, number, NO_DOMAIN)
            if is_published or fixed:
                found[each.index] = domains
        return found

    def _nowhere(self) -> Domains:
        return np.full(len(self.inventory.nodes), NO_DOMAIN, dtype=np.int64)

    def _domains(
        self, attribute: AttributeName, components: tuple[Component, ...], numbers: dict[str, int]
    ) -> tuple[Domains, bool]:
        """Domain of every node for pods that need these components, and whether any device they match publishes it."""
        values = DeviceDomains(self.inventory, self.demands, self.answers.__getitem__).values(attribute, components)
        domains = self._nowhere()
        for node in np.flatnonzero(values.is_covered).tolist():
            value = values.at(node)
            if value:
                domains[node] = _number(numbers, value)
        return domains, values.is_published

    def held_values(self, pod: Pod, attribute: AttributeName) -> Iterator[str]:
        """Give the values of an attribute over the devices that a pod's claims hold today."""
        for claim_id in pod.claim_ids:
            claim = self.claims.get(claim_id)
            allocation = claim.allocation if claim is not None else None
            for result in allocation.results if allocation is not None else ():
                record = self.inventory.record_of.get(result.device)
                if record is None or result.admin_access:
                    continue
                value = value_of(self.inventory.records[record], attribute)
                if value:
                    yield value


def _number(numbers: dict[str, int], value: str | None) -> int:
    return NO_DOMAIN if value is None else numbers.setdefault(value, len(numbers))


def narrowed(
    rule: GangRule, verdicts: Mapping[int, fit.NodeVerdicts], families: Mapping[int, int]
) -> dict[int, fit.NodeVerdicts]:
    """
    Take nodes away from classes of a gang that are in no domain of a required level, or in one that is not held.

    The first of a family says why of the nodes that its others lost.
    """
    found = {index: _narrowed(rule, index, each) for index, each in verdicts.items()}
    used: dict[int, Mask] = {}
    for index, family in families.items():
        used[family] = found[index].allowed | used.get(family, np.zeros_like(found[index].allowed))
    for index, family in families.items():
        lost = verdicts[index].allowed & ~found[index].allowed & ~used[family]
        if index != family and lost.any():
            used[family] |= lost
            told = _narrowed(rule, index, fit.NodeVerdicts(lost, found[family].reasons))
            found[family] = fit.NodeVerdicts(found[family].allowed, told.reasons)
    return found


def _narrowed(rule: GangRule, pod_class: int, verdicts: fit.NodeVerdicts) -> fit.NodeVerdicts:
    for level in rule.required:
        domains = level.domain_of.get(pod_class)
        if domains is None:
            continue
        outside = {node: _no_domain(rule, level) for node in np.flatnonzero(domains == NO_DOMAIN).tolist()}
        if level.held:
            wrong = ~np.isin(domains, list(level.held)) & (domains != NO_DOMAIN)
            outside.update((node, _not_held(rule, level)) for node in np.flatnonzero(wrong).tolist())
        verdicts = fit.narrowed(verdicts, outside)
    return verdicts


def _no_domain(rule: GangRule, level: Level) -> Reason:
    message = f"node(s) without {level.level} that gang {rule.gang.id.name} has to share"
    return Reason(code=ReasonCode.GANG_TOPOLOGY, message=message)


def _not_held(rule: GangRule, level: Level) -> Reason:
    names = ", ".join(sorted(level.names[each] for each in level.held)) if level.is_told else "of the nodes"
    message = f"node(s) outside of {level.level} {names}, where members of gang {rule.gang.id.name} run"
    return Reason(code=ReasonCode.GANG_TOPOLOGY, message=message)
