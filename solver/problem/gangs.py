"""
Gangs of a batch in dense form: which classes belong to one, how many of its pods at least, in which domains.

A domain is a value of a node label, or of an attribute of the devices that the members use. A level of a gang divides
the nodes into domains. A level of devices does not bind pods whose requests match no device with the attribute, unless
it would bind no pod at all. `gang_domains` says which value a node has.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solver.arrays import Mask
from solver.domain import INCURABLE, Batch, Claim, ClaimId, Gang, GangId, GangLevel, Pod, Reason, ReasonCode, Snapshot
from solver.feasibility.device_attributes import AttributeName
from solver.problem.devices.inventory import Inventory
from solver.problem.gang_domains import DeviceDomains, value_of
from solver.problem.requests.component import Component
from solver.problem.requests.demand import Answers, DemandKey
from solver.rules.forms.domains import NO_DOMAIN, Domains
from solver.rules.forms.gang_rules import GangRule, TopologyLevel
from solver.rules.verdicts import ExcludedNodes, NodeVerdicts


def running(snapshot: Snapshot) -> dict[GangId, list[Pod]]:
    """Return the members that hold a node and are not being deleted, by gang."""
    found: defaultdict[GangId, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        if pod.gang is not None and not pod.is_deleting:
            found[pod.gang].append(pod)
    return found


def objections(snapshot: Snapshot, batch: Batch) -> dict[int, tuple[Reason, ...]]:
    """Return the reasons of pods whose gang is invalid or incomplete, by position in the batch."""
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


def waiting_for_members(
    snapshot: Snapshot, batch: Batch, rejected: Mapping[int, tuple[Reason, ...]]
) -> dict[int, tuple[Reason, ...]]:
    """
    Return by batch position the reasons of pods whose gang misses its minimum: other members are rejected.

    They wait for the same things as the rejected members, and have the same codes.
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
        reasons: dict[ReasonCode, Reason] = {}
        for name, why in ((batch.pods[position].id.name, why) for position in late for why in rejected[position]):
            claims = "claims of " if why.code is ReasonCode.CLAIM_MISSING else ""
            lead = f"gang {gang.id.name} waits for {claims}{len(late)} of its pods"
            message = f"{lead}: pod {name} cannot be placed: {why.message}"
            reasons.setdefault(why.code, Reason(code=why.code, message=message))
        found.update(dict.fromkeys(ready, tuple(reasons.values())))
        lost = [position for position in late if any(why.code in INCURABLE for why in rejected[position])]
        if lost and len(own) - len(lost) + len(there.get(gang.id, ())) < gang.min_count:
            why = next(each for each in rejected[lost[0]] if each.code in INCURABLE)
            told = blocked_gang(gang, batch.pods[lost[0]].id.name, why.message)
            found |= {position: (told, *found.get(position, rejected.get(position, ()))) for position in own}
    return found


def blocked_gang(gang: Gang, pod_name: str, why: str) -> Reason:
    """Return the reason of all members of a gang that cannot start because one of them can start on no node."""
    message = f"gang {gang.id.name} cannot start, whatever nodes come: pod {pod_name}: {why}"
    return Reason(code=ReasonCode.GANG_BLOCKED, message=message)


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
class GangClass:
    """A class of pods as gang rules read it; `pod` is its first pod."""

    index: int
    pod: Pod
    size: int
    components: tuple[Component, ...]
    is_first: bool
    """Whether it is the first of its family; the others have the same pods."""


@dataclass(slots=True, eq=False)
class GangRules:
    """Builds the rules of the gangs of one batch."""

    inventory: Inventory
    snapshot: Snapshot
    claims: Mapping[ClaimId, Claim]
    demands: tuple[DemandKey, ...]
    answers: tuple[Answers, ...]

    def rules(self, gangs: Iterable[Gang], classes: Iterable[GangClass]) -> tuple[GangRule, ...]:
        """Return the rule of every gang with classes that has a minimum or levels."""
        members: defaultdict[GangId, list[GangClass]] = defaultdict(list)
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

    def _level(self, level: GangLevel, own: Sequence[GangClass], there: Sequence[Pod]) -> TopologyLevel:
        numbers: dict[str, int] = {}
        if level.node_label:
            labels = self.inventory.labels
            domains = np.array(
                [_number(numbers, labels[node].get(level.node_label)) for node in range(len(labels))], dtype=np.int64
            )
            domain_of = dict.fromkeys((each.index for each in own), domains)
            at = (self.inventory.node_index.get(pod.node_name, -1) for pod in there)
            held = {int(domains[node]) for node in at if node >= 0}
        else:
            attribute = AttributeName.parse(level.device_attribute)
            values = (value for pod in there for value in self.held_values(pod, attribute))
            held = {_number(numbers, value) for value in values}
            domain_of = self._device_domains(attribute, own, numbers)
            if not domain_of and not held:
                domain_of = dict.fromkeys((each.index for each in own), self._nowhere())
        return TopologyLevel(level, names=list(numbers), domain_of=domain_of, held=frozenset(held - {NO_DOMAIN}))

    def _device_domains(
        self, attribute: AttributeName, own: Sequence[GangClass], numbers: dict[str, int]
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
        """Return the domain of every node for some components, and whether a matching device has the attribute."""
        values = DeviceDomains(self.inventory, self.demands, self.answers.__getitem__).values(attribute, components)
        domains = self._nowhere()
        for node in np.flatnonzero(values.is_covered).tolist():
            value = values.at(node)
            if value:
                domains[node] = _number(numbers, value)
        return domains, values.is_published

    def held_values(self, pod: Pod, attribute: AttributeName) -> Iterator[str]:
        """Yield the values of an attribute over the devices that a pod's claims hold."""
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
    rule: GangRule, verdicts: Mapping[int, NodeVerdicts], families: Mapping[int, int]
) -> dict[int, NodeVerdicts]:
    """
    Take away nodes in no domain of a required level, or outside the domain of running members.

    The first class of a family has the reasons of nodes that its other classes lose.
    """
    found = {index: _narrowed(rule, index, each) for index, each in verdicts.items()}
    used: dict[int, Mask] = {}
    for index, family in families.items():
        used[family] = found[index].allowed | used.get(family, np.zeros_like(found[index].allowed))
    for index, family in families.items():
        lost = verdicts[index].allowed & ~found[index].allowed & ~used[family]
        if index != family and lost.any():
            used[family] |= lost
            others = _narrowed(rule, index, replace(found[family], allowed=lost))
            found[family] = replace(others, allowed=found[family].allowed)
    return found


def _narrowed(rule: GangRule, pod_class: int, verdicts: NodeVerdicts) -> NodeVerdicts:
    for level in rule.required:
        domains = level.domain_of.get(pod_class)
        if domains is None:
            continue
        outside = [ExcludedNodes(verdicts.allowed & (domains == NO_DOMAIN), _no_domain(rule, level))]
        if level.held:
            wrong = ~np.isin(domains, list(level.held)) & (domains != NO_DOMAIN)
            outside.append(ExcludedNodes(verdicts.allowed & wrong, _not_held(rule, level)))
        verdicts = verdicts.without(outside)
    return verdicts


def _no_domain(rule: GangRule, level: TopologyLevel) -> Reason:
    message = f"node(s) without {level.level} that gang {rule.gang.id.name} has to share"
    return Reason(code=ReasonCode.GANG_TOPOLOGY, message=message)


def _not_held(rule: GangRule, level: TopologyLevel) -> Reason:
    names = ", ".join(sorted(level.names[each] for each in level.held)) if level.may_name_domains else "of the nodes"
    message = f"node(s) outside of {level.level} {names}, where members of gang {rule.gang.id.name} run"
    return Reason(code=ReasonCode.GANG_TOPOLOGY, message=message)
