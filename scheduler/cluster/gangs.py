"""
Gangs as they are believed to be: PodGroups of both sorts, and members by the gang that they name.

What a gang demands is composed here, of its object and of what its pods' annotations say; where these disagree, or the
object is missing, the gang says so and none of its pods is placed.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from scheduler.change import Kind, Object
from scheduler.cluster.transition import Transition
from solver.domain import Gang, GangId, GangLevel, Pod, PodGroup, PodId

KINDS: Final = frozenset({Kind.POD_GROUPS, Kind.COSCHEDULING_GROUPS})
"""The kinds that this part of the mirror holds."""
SCHEDULING_GROUP: Final = "scheduling.k8s.io"
COSCHEDULING_GROUP: Final = "scheduling.x-k8s.io"
MINIMUM_ANNOTATION: Final = "dovetail.dev/gang-minimum"
_SOURCES: Final = {Kind.POD_GROUPS: SCHEDULING_GROUP, Kind.COSCHEDULING_GROUPS: COSCHEDULING_GROUP}


class Standing(NamedTuple):
    """How many members are missing until enough exist, and whether some run but not enough."""

    missing: int
    is_partial: bool


class Gangs:
    """PodGroups, and the pods (as believed, those that ended apart) that name a gang."""

    def __init__(self) -> None:
        self._groups: Final[dict[GangId, PodGroup]] = {}
        self._members: Final[dict[GangId, dict[PodId, Pod]]] = {}
        self._composed: Final[dict[GangId, Gang]] = {}
        self._in_use: tuple[Gang, ...] | None = ()

    def apply(self, kind: Kind, key: str, value: Object | None) -> tuple[Transition, ...]:
        """Take a PodGroup as a watch gave it; give what changed."""
        if value is not None and not isinstance(value, PodGroup):
            raise TypeError(f"a change of a PodGroup carries a {type(value).__name__}: decode it as its own kind")
        namespace, _, name = key.partition("/")
        gang_id = GangId(namespace, name, _SOURCES[kind])
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

    def recall(self, former: "Gangs") -> None:
        """Take over the PodGroups of another that is indexed anew."""
        self._groups.update(former._groups)  # noqa: SLF001 - one of its own kind

    def put_back(self, kind: Kind, key: str, group: Object | None) -> None:
        """Have a PodGroup again as it was, or none."""
        namespace, _, name = key.partition("/")
        gang_id = GangId(namespace, name, _SOURCES[kind])
        self._groups.pop(gang_id, None)
        if isinstance(group, PodGroup):
            self._groups[gang_id] = group

    def seen(self, kind: Kind, key: str) -> PodGroup | None:
        """Give a PodGroup by its kind and key."""
        namespace, _, name = key.partition("/")
        return self._groups.get(GangId(namespace, name, _SOURCES[kind]))

    def believe(self, before: Pod | None, after: Pod | None) -> None:
        """Take a pod as it is believed to be now."""
        for each in (before, after):
            if each is not None and each.gang is not None:
                self._composed.pop(each.gang, None)
                self._in_use = None
        if before is not None and before.gang is not None:
            members = self._members.get(before.gang, {})
            members.pop(before.id, None)
            if not members:
                self._members.pop(before.gang, None)
        if after is not None and after.gang is not None and not after.is_terminal:
            self._members.setdefault(after.gang, {})[after.id] = after

    def group(self, gang: GangId) -> PodGroup | None:
        """Give the object that describes a gang."""
        return self._groups.get(gang)

    def members(self, gang: GangId) -> tuple[Pod, ...]:
        """Give the pods that name a gang, sorted by key."""
        found = self._members.get(gang, {})
        return tuple(found[key] for key in sorted(found))

    def running(self, gang: GangId) -> tuple[Pod, ...]:
        """Give the members that hold a node and are not being deleted."""
        return tuple(pod for pod in self._members.get(gang, {}).values() if pod.node_name and not pod.is_deleting)

    def standing(self, gang: GangId, scheduler_names: Collection[str]) -> Standing:
        """Say how far a gang is from being decidable: members that run, or wait for one of these schedulers, count."""
        composed = self.gang(gang)
        if composed.is_absent:
            return Standing(missing=1, is_partial=False)
        if not composed.min_count:
            return Standing(missing=0, is_partial=False)
        waiting = sum(_is_waiting(pod, scheduler_names) for pod in self._members.get(gang, {}).values())
        missing = composed.min_count - composed.running_count - waiting
        return Standing(missing=max(0, missing), is_partial=composed.is_partial)

    def gangs(self, pods: Iterable[Pod]) -> tuple[Gang, ...]:
        """Compose the gangs that pods name, each once, in the order of the pods."""
        return tuple(self.gang(each) for each in dict.fromkeys(pod.gang for pod in pods if pod.gang is not None))

    def in_use(self) -> tuple[Gang, ...]:
        """Give every gang of which pods hold a node, sorted by key; the same tuple while nothing has changed."""
        if self._in_use is None:
            held = sorted(key for key, pods in self._members.items() if any(pod.node_name for pod in pods.values()))
            self._in_use = tuple(self.gang(key) for key in held)
        return self._in_use

    def gang(self, gang: GangId) -> Gang:
        """Give a gang; it is composed when something of it changed since the last time."""
        if gang not in self._members and gang not in self._groups:
            return self._compose(gang)
        if gang not in self._composed:
            self._composed[gang] = self._compose(gang)
        return self._composed[gang]

    def _compose(self, gang: GangId) -> Gang:
        group, members = self._groups.get(gang), self.members(gang)
        notes = [(pod, pod.gang_note) for pod in members if pod.gang_note is not None]
        minima: dict[int, str] = {} if group is None else {group.min_count: f"PodGroup {group.id.name}"}
        levels = group.levels if group is not None else ()
        told: dict[tuple[GangLevel, ...], str] = {}
        wrong = [f"PodGroup {group.id.name}: {group.invalid}"] if group is not None and group.invalid else []
        for pod, note in notes:
            if note.invalid:
                wrong.append(f"pod {pod.id.name}: {note.invalid}")
            if note.min_count:
                minima.setdefault(note.min_count, f"pod {pod.id.name}")
            if note.levels:
                told.setdefault(note.levels, f"pod {pod.id.name}")
        is_absent = group is None and (gang.source == SCHEDULING_GROUP or not minima)
        invalid = (
            "; ".join(wrong) or _disagreement(gang, minima, told, members) or (_absence(gang) if is_absent else "")
        )
        return Gang(
            id=gang,
            uid=group.uid if group is not None else "",
            min_count=next(iter(minima), 0),
            member_count=sum(not pod.is_deleting for pod in members),
            running_count=len(self.running(gang)),
            levels=tuple(dict.fromkeys((*levels, *next(iter(told), ())))),
            claims=group.claims if group is not None else (),
            priority=max((pod.priority for pod in members), default=0),
            creation=group.creation if group is not None else "",
            invalid=invalid,
            is_absent=is_absent and not wrong,
            disruption=group.disruption if group is not None else "",
        )


def _is_waiting(pod: Pod, scheduler_names: Collection[str]) -> bool:
    is_open = not (pod.node_name or pod.is_deleting or pod.scheduling_gates)
    return is_open and pod.scheduler_name in scheduler_names


def _disagreement(
    gang: GangId, minima: dict[int, str], told: dict[tuple[GangLevel, ...], str], members: tuple[Pod, ...]
) -> str:
    """Say what is said of a gang in different ways; empty where all agree."""
    if len(minima) > 1:
        said = ", ".join(f"{count} by {who}" for count, who in sorted(minima.items()))
        return f"the minimum of gang {gang.name} is said to be {said}: make them agree"
    if len(told) > 1:
        said = " and ".join(sorted(told.values()))
        return f"{said} say different things about the topology of gang {gang.name}: make them agree"
    names = sorted({pod.scheduler_name for pod in _unplaced(members)})
    if len(names) > 1:
        return f"the pods of gang {gang.name} name several schedulers: {', '.join(names)}"
    return ""


def _unplaced(members: tuple[Pod, ...]) -> Iterator[Pod]:
    return (pod for pod in members if not (pod.node_name or pod.is_deleting))


def _absence(gang: GangId) -> str:
    if gang.source == SCHEDULING_GROUP:
        return f"gang {gang.name} waits for PodGroup {gang}, which does not exist"
    if gang.source == COSCHEDULING_GROUP:
        return (
            f"gang {gang.name} waits for PodGroup {gang} of {COSCHEDULING_GROUP}, which does not exist; "
            f"without one, annotate the pods with {MINIMUM_ANNOTATION}"
        )
    return f"gang {gang.name} waits for its minimum: annotate its pods with {MINIMUM_ANNOTATION}"
