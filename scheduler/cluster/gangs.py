"""
Index of gangs: PodGroups of both APIs, and pods by the gang that they name.

The requirements of a gang are composed from its PodGroup and its pods' annotations. If these disagree, or the PodGroup
is missing, the gang is invalid and none of its pods is placed.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.change import Kind, Object, Transition
from scheduler.cluster.gang_members import GangMembers
from solver.domain import COSCHEDULING_GROUP, MINIMUM_ANNOTATION, SCHEDULING_GROUP, Batch, Gang, GangId, Pod, PodGroup

KINDS: Final = frozenset({Kind.POD_GROUPS, Kind.COSCHEDULING_GROUPS})
"""The kinds in this index."""
_MOST_NAMED: Final = 3
"""The most disagreeing values that a message names; further ones are counted."""
_SOURCES: Final = {Kind.POD_GROUPS: SCHEDULING_GROUP, Kind.COSCHEDULING_GROUPS: COSCHEDULING_GROUP}


class GangProgress(NamedTuple):
    """How many members a gang lacks, and whether some of them run, but too few."""

    missing: int
    is_partial: bool


class GangIndex:
    """PodGroups, and the pods that name a gang (with assumptions applied, without ended pods)."""

    def __init__(self) -> None:
        self._groups: Final[dict[GangId, PodGroup]] = {}
        self._members: Final[dict[GangId, GangMembers]] = {}
        self._composed: Final[dict[GangId, Gang]] = {}
        self._placed: Final[set[GangId]] = set()
        self._in_use: tuple[Gang, ...] | None = ()

    def apply(self, kind: Kind, key: str, value: Object | None) -> tuple[Transition, ...]:
        """Apply a PodGroup from a watch; return its transition."""
        if value is not None and not isinstance(value, PodGroup):
            raise TypeError(f"a change of a PodGroup carries a {type(value).__name__}: decode it as its own kind")
        gang_id = _gang_id(kind, key)
        before = self._groups.get(gang_id)
        if before == value:
            return ()
        self._composed.pop(gang_id, None)
        self._in_use = None
        if value is None:
            del self._groups[gang_id]
        else:
            self._groups[gang_id] = value
        return (Transition(kind=kind, key=key, before=before, after=value),)

    def inherit(self, former: "GangIndex") -> None:
        """Take over the PodGroups of a previous index."""
        self._groups.update(former._groups)  # noqa: SLF001 - the same class

    def restore(self, kind: Kind, key: str, group: Object | None) -> None:
        """Restore a PodGroup, or remove it."""
        gang_id = _gang_id(kind, key)
        self._groups.pop(gang_id, None)
        if isinstance(group, PodGroup):
            self._groups[gang_id] = group

    def seen(self, kind: Kind, key: str) -> PodGroup | None:
        """Return a PodGroup by its kind and key."""
        return self._groups.get(_gang_id(kind, key))

    def replace_pod(self, before: Pod | None, after: Pod | None) -> None:
        """Replace a pod."""
        old = before if before is not None and before.gang is not None and not before.is_terminal else None
        new = after if after is not None and after.gang is not None and not after.is_terminal else None
        if old is not None and new is not None and old.gang == new.gang:
            self._replace(old.gang, old, new)
        else:
            self._replace(old.gang if old is not None else None, old, None)
            self._replace(new.gang if new is not None else None, None, new)

    def _replace(self, gang: GangId | None, before: Pod | None, after: Pod | None) -> None:
        if gang is None:
            return
        roster = self._members.get(gang)
        if roster is None:
            roster = self._members[gang] = GangMembers()
        if not roster.replace(before, after):
            return
        self._composed.pop(gang, None)
        self._in_use = None
        (self._placed.add if roster.placed else self._placed.discard)(gang)
        if not roster.pods:
            del self._members[gang]

    def group(self, gang: GangId) -> PodGroup | None:
        """Return the PodGroup of a gang."""
        return self._groups.get(gang)

    def group_uid(self, pod: Pod) -> str:
        """Return the uid of the PodGroup of scheduling.k8s.io that a pod names; empty where there is none."""
        if pod.gang is None or pod.gang.source != SCHEDULING_GROUP:
            return ""
        group = self._groups.get(pod.gang)
        return group.uid if group is not None else ""

    def with_gangs(self, batch: Batch) -> Batch:
        """Add to a batch the gangs of its pods, and to its pods the uids of their PodGroups."""
        uids = [self.group_uid(pod) for pod in batch.pods]
        pods = tuple(
            msgspec.structs.replace(pod, pod_group_uid=uid) if uid != pod.pod_group_uid else pod
            for pod, uid in zip(batch.pods, uids, strict=True)
        )
        return msgspec.structs.replace(batch, pods=pods, gangs=self.gangs(pods))

    def member_index(self, gang: GangId) -> GangMembers:
        """Return the members of a gang with their counts; empty if no pod names it."""
        return self._members.get(gang) or GangMembers()

    def members(self, gang: GangId) -> tuple[Pod, ...]:
        """Return the pods that name a gang, sorted by key. Too slow for every event."""
        found = self.member_index(gang).pods
        return tuple(found[key] for key in sorted(found))

    def progress(self, gang: GangId, scheduler_names: Collection[str]) -> GangProgress:
        """Return how many members are missing; running members, and those that wait for these schedulers, count."""
        composed = self.gang(gang)
        if composed.is_absent:
            return GangProgress(missing=1, is_partial=False)
        if not composed.min_count:
            return GangProgress(missing=0, is_partial=False)
        missing = composed.min_count - composed.running_count - self.member_index(gang).waiting(scheduler_names)
        return GangProgress(missing=max(0, missing), is_partial=composed.is_partial)

    def gangs(self, pods: Iterable[Pod]) -> tuple[Gang, ...]:
        """Return the gangs that pods name, each once, in the order of the pods."""
        return tuple(self.gang(each) for each in dict.fromkeys(pod.gang for pod in pods if pod.gang is not None))

    def in_use(self) -> tuple[Gang, ...]:
        """Return every gang with a placed pod, sorted by key; the same tuple until something changes."""
        if self._in_use is None:
            self._in_use = tuple(self.gang(key) for key in sorted(self._placed))
        return self._in_use

    def gang(self, gang: GangId) -> Gang:
        """Return a gang; it is composed again only after a change."""
        if gang not in self._members and gang not in self._groups:
            return _composed(gang, None, GangMembers())
        if gang not in self._composed:
            self._composed[gang] = _composed(gang, self._groups.get(gang), self.member_index(gang))
        return self._composed[gang]


def _gang_id(kind: Kind, key: str) -> GangId:
    namespace, _, name = key.partition("/")
    return GangId(namespace, name, _SOURCES[kind])


def _composed(gang: GangId, group: PodGroup | None, roster: GangMembers) -> Gang:
    """Compose a gang; the cost does not grow with its members."""
    minima = _minima(group, roster)
    levels = roster.levels.first()
    problem = _invalid(group, roster)
    is_absent = group is None and (gang.source == SCHEDULING_GROUP or not minima)
    return Gang(
        id=gang,
        uid=group.uid if group is not None else "",
        min_count=minima[0][0] if minima else 0,
        member_count=roster.existing,
        running_count=roster.running,
        levels=tuple(dict.fromkeys((*(group.levels if group is not None else ()), *(levels[0][0] if levels else ())))),
        claims=group.claims if group is not None else (),
        priority=group.priority if group is not None else None,
        creation=group.creation if group is not None else "",
        invalid=problem
        or _disagreement(gang, minima, roster)
        or _mismatch(group, roster)
        or (_absence(gang) if is_absent else ""),
        is_absent=is_absent and not problem,
        disruption=group.disruption if group is not None else "",
    )


def _minima(group: PodGroup | None, roster: GangMembers) -> list[tuple[int, str]]:
    """
    Return the first different minima with the object that states each; the PodGroup's comes first.

    A PodGroup of the basic policy states none. The Job controller makes one for every Job that asks for no policy
    (gate WorkloadWithJob), so its pods' annotation is the only thing that anybody wrote about a gang.
    """
    stated = [(count, f"pod {pod.name}") for count, pod in roster.minima.first(_MOST_NAMED + 1)]
    if group is None or not group.min_count:
        return stated
    return [(group.min_count, f"PodGroup {group.id.name}"), *(each for each in stated if each[0] != group.min_count)]


def _invalid(group: PodGroup | None, roster: GangMembers) -> str:
    """Return what cannot be read of the PodGroup and of the first invalid pod."""
    problems = [f"PodGroup {group.id.name}: {group.invalid}"] if group is not None and group.invalid else []
    for pod in roster.invalid.first():
        note = roster.pods[pod].gang_note
        more = f" (and {len(roster.invalid) - 1} more pods)" if len(roster.invalid) > 1 else ""
        problems.append(f"pod {pod.name}: {note.invalid if note is not None else ''}{more}")
    return "; ".join(problems)


def _disagreement(gang: GangId, minima: list[tuple[int, str]], roster: GangMembers) -> str:
    """Describe contradictions between the PodGroup and the pods; empty if all agree."""
    if len(minima) > 1:
        known = len(roster.minima) + (minima[0][0] not in roster.minima)
        said = _listed([f"{count} by {source}" for count, source in minima], known, "numbers")
        return f"the minimum of gang {gang.name} differs: {said}; write one number"
    if len(roster.levels) > 1:
        said = " and ".join(f"pod {pod.name}" for _, pod in roster.levels.first(2))
        return f"{said} say different things about the topology of gang {gang.name}: make them agree"
    if len(roster.schedulers) > 1:
        names = [name for name, _ in roster.schedulers.first(_MOST_NAMED)]
        said = _listed(names, len(roster.schedulers), "schedulers")
        return f"the pods of gang {gang.name} name several schedulers: {said}"
    return ""


def _mismatch(group: PodGroup | None, roster: GangMembers) -> str:
    """Name the first pod whose priority or preemption policy is not that of its PodGroup (kube-scheduler 1.37)."""
    if group is None:
        return ""
    name = group.id.name
    for priority, pod in roster.priorities.first(2):
        if group.priority is not None and priority != group.priority:
            said = f"has priority {priority} and PodGroup {name} has {group.priority}"
            return f"pod {pod.name} {said}: write the same priorityClassName in both"
    for policy, pod in roster.policies.first(2):
        if group.preemption_policy and policy != group.preemption_policy:
            said = f"has preemptionPolicy {policy} and PodGroup {name} has {group.preemption_policy}"
            return f"pod {pod.name} {said}: write the same preemptionPolicy in both"
    return ""


def _listed(said: Sequence[str], known: int, what: str) -> str:
    """List the first values, and count the others."""
    named = ", ".join(said[:_MOST_NAMED])
    return f"{named} and {known - _MOST_NAMED} other {what}" if known > _MOST_NAMED else named


def _absence(gang: GangId) -> str:
    if gang.source == SCHEDULING_GROUP:
        return f"gang {gang.name} waits for PodGroup {gang}, which does not exist"
    if gang.source == COSCHEDULING_GROUP:
        return (
            f"gang {gang.name} waits for PodGroup {gang} of {COSCHEDULING_GROUP}, which does not exist; "
            f"without one, annotate the pods with {MINIMUM_ANNOTATION}"
        )
    return f"gang {gang.name} waits for its minimum: annotate its pods with {MINIMUM_ANNOTATION}"
