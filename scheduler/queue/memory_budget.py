"""
The memory budget of the queue: which pending pods and unallocated claims are kept in memory (load shedding).

Objects that use something (bound pods, allocated claims, nodes, slices) are always kept, since they count as usage.
Pending pods and claims without an allocation use nothing, and a tenant can create any number of them. So both have a
budget of bytes that namespaces share by dynamic thresholds (Choudhury and Hahne, "Dynamic queue length thresholds for
shared-memory packet switches", 1998): a namespace may have as many bytes as are left free. One namespace gets half of
the budget at most, two get a third each, and there is always room for another one.

A pod pays for the claims that it uses, so that a pod in memory never lacks its claims; a claim pays for itself only
what it has beyond the usual size, such as parameters for its driver. Of an object that is left out only the key is
kept; it is read again (`commit.readmission`) when there is room.

Pods that are not in the queue, because they have a node or another scheduler, count with what they use and forbid. They
are kept without the terms of their own scheduling: their number and size have no limit.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from msgspec import structs
from msgspec.structs import replace

from scheduler.change import Change, Kind
from scheduler.cluster.interning import Interner, size_of
from solver.domain import Claim, Pod

_MOST_BYTES: Final = 16 * 1024
"""Of scheduling terms of a bound pod. `dovetail defrag` places pods with larger ones as if they fit any node."""
_WITHOUT_TERMS: Final[dict[str, object]] = {
    "node_selector": (),
    "required_affinity": None,
    "preferred_node_affinity": (),
    "spread": (),
    "images": (),
    "tolerations": (),
    "containers": (),
    "level_slack": (),
}


def _stripped(pod: Pod, scheduler_names: Collection[str]) -> Pod:
    """Return a pod as it is kept; a pending pod of one of these schedulers is kept whole."""
    if pod.scheduler_name in scheduler_names and not pod.node_name:
        return pod
    terms = [part for name in _WITHOUT_TERMS if (part := getattr(pod, name))]
    if not terms or (pod.scheduler_name in scheduler_names and sum(map(size_of, terms)) <= _MOST_BYTES):
        return pod
    return replace(pod, **_WITHOUT_TERMS)


POD_BYTES: Final = 6 * 1024
"""What a pending pod takes in both processes beside parts that it shares with none (`make bench ARGS=--memory`)."""
CLAIM_BYTES: Final = 3 * 1024
"""The same for a claim."""
_PROCESSES: Final = 2
_MOST_LOOKED_AT: Final = 1000
"""Objects of one namespace that one call looks at for what fits now."""


class ObjectKey(NamedTuple):
    """A pod or a claim; `name` is `namespace/name`."""

    kind: Kind
    name: str

    @property
    def namespace(self) -> str:
        """The namespace that pays for it."""
        return self.name.partition("/")[0]


_NO_POD: Final = ObjectKey(Kind.PODS, "")


class _AdmittedObject(NamedTuple):
    """An object in memory: the uid of the pod that it is, or that owns it; its bytes; the claims that it uses."""

    uid: str
    cost: int
    uses: tuple[ObjectKey, ...] = ()


class _LeftOut(NamedTuple):
    """An object that was left out; `seen` counts how often the watch has shown it since."""

    uid: str
    cost: int
    seen: int = 0


@dataclass(slots=True, eq=False)
class _Share:
    """What one namespace has of a budget, and what was left out of it, in the order of arrival."""

    bytes: int = 0
    left: dict[ObjectKey, None] = field(default_factory=dict)


class _Pool:
    """The budget of one kind of objects, and what each namespace has of it."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes: Final = budget_bytes
        self.shares: Final[defaultdict[str, _Share]] = defaultdict(_Share)
        self.bytes = 0

    def fits(self, namespace: str, cost: int) -> bool:
        """Whether the namespace then has no more than is left free."""
        held = self.shares[namespace].bytes if namespace in self.shares else 0
        return held + cost <= self.budget_bytes - self.bytes - cost

    def add(self, namespace: str, cost: int) -> None:
        """Count bytes of a namespace; negative ones are given back."""
        self.bytes += cost
        self.shares[namespace].bytes += cost

    def prune(self, namespace: str) -> None:
        """Forget a namespace without objects."""
        share = self.shares[namespace]
        if not share.bytes and not share.left:
            del self.shares[namespace]


class MemoryBudget:
    """
    The budgets of pods and claims, and what was kept or left out because of them.

    `admit` sees every change first. Pods of other schedulers are always kept.
    """

    def __init__(self, scheduler_names: Iterable[str], budget_bytes: int, interner: Interner) -> None:
        self._scheduler_names: Final = frozenset(scheduler_names)
        self._interner: Final = interner
        self._pools: Final = {kind: _Pool(budget_bytes // 2) for kind in (Kind.PODS, Kind.CLAIMS)}
        self._admitted_objects: Final[dict[ObjectKey, _AdmittedObject]] = {}
        self._left: Final[dict[ObjectKey, _LeftOut]] = {}
        self._counts: Final[Counter[Kind]] = Counter()
        self._pods: Final[dict[str, ObjectKey]] = {}
        """Pending pods by uid, kept or left out: claims that were made from their templates go with them."""
        self._uses: Final[Counter[ObjectKey]] = Counter()
        """How many of the pods in memory use a claim."""
        self._owned: Final[defaultdict[str, set[ObjectKey]]] = defaultdict(set)
        """Claims that were left out, by the uid of the pod that they were made for."""
        self._wanted: Final[dict[ObjectKey, None]] = {}
        """Claims that were left out, and that a pod in memory uses or has used."""
        self._taken: Final[dict[str, tuple[str, int]]] = {}
        """Namespace and bytes of pods that exist nowhere else, by the name under which they were taken."""
        self.is_closed = False
        """Whether nothing new is kept for now, because the process itself is short of memory."""

    @property
    def bytes(self) -> int:
        """Estimated bytes of the pending pods and unallocated claims in memory."""
        return sum(pool.bytes for pool in self._pools.values())

    def left(self, kind: Kind) -> int:
        """Count the objects of a kind that were left out."""
        return self._counts[kind]

    def largest(self) -> str:
        """Name the namespace of which most was left out; empty where nothing was."""
        counts: Counter[str] = Counter()
        for pool in self._pools.values():
            counts.update({name: len(share.left) for name, share in pool.shares.items()})
        return max(counts, key=lambda name: counts[name], default="") if self._left else ""

    def admit(self, changes: Sequence[Change]) -> list[Change]:
        """Return the changes of objects that are kept; one that is left out from now on comes as deleted."""
        return [found for change in changes if (found := self._admitted(change)) is not None]

    def take(self, name: str, namespace: str, cost: int) -> bool:
        """Keep pods that exist nowhere else, such as those that a Workload expects, if all of them have room."""
        self.give_up(name)
        if self.is_closed or not self._pools[Kind.PODS].fits(namespace, cost):
            return False
        self._taken[name] = namespace, cost
        self._pools[Kind.PODS].add(namespace, cost)
        return True

    def give_up(self, name: str) -> None:
        """Keep pods no longer for which `take` found room."""
        namespace, cost = self._taken.pop(name, ("", 0))
        if cost:
            self._pools[Kind.PODS].add(namespace, -cost)
            self._pools[Kind.PODS].prune(namespace)

    def candidates(self, most: int) -> tuple[tuple[ObjectKey, int], ...]:
        """
        Return what was left out and would be kept now, and how often the watch has shown it.

        Claims of pods in memory come first, then objects of the smallest namespaces.
        """
        return tuple((key, self._left[key].seen) for key in islice(self._candidates(), most))

    def readmit(self, key: ObjectKey, seen: int) -> bool:
        """
        Forget that an object was left out, because it was just read again and goes through `admit` next.

        False, where the watch has shown it again since `candidates`: what was read may be older than that.
        """
        known = self._left.get(key)
        if known is None or known.seen != seen:
            return False
        self._drop(key)
        return True

    def _candidates(self) -> Iterator[ObjectKey]:
        for key in self._wanted:
            left = self._left[key]
            if self._is_wanted(key, left.uid) and self._is_room_beyond(key, _beyond_usual(left.cost)):
                yield key
        for pool in self._pools.values() if not self.is_closed else ():
            for share in sorted(pool.shares.values(), key=lambda share: share.bytes):
                yield from self._fitting(pool, share)

    def _fitting(self, pool: _Pool, share: _Share) -> Iterator[ObjectKey]:
        """Return the first objects of a namespace for which there is room."""
        ahead = 0
        for key in islice(share.left, _MOST_LOOKED_AT):
            left = self._left[key]
            if self._is_wanted(key, left.uid) or self._goes_with_pod(key, left.uid):
                continue
            ahead += left.cost
            if not pool.fits(key.namespace, ahead):
                return
            yield key

    def _admitted(self, change: Change) -> Change | None:
        if change.kind not in self._pools:
            return change
        key, value = ObjectKey(change.kind, change.key), change.value
        known, before = self._left.get(key), self._admitted_objects.get(key)
        self._drop(key)
        if isinstance(value, Pod):
            value = _stripped(value, self._scheduler_names)
            change = change if value is change.value else structs.replace(change, value=value)
        if not isinstance(value, Pod | Claim) or not self._waits(value):
            return change
        uid = value.uid if isinstance(value, Pod) else value.owner_pod_uid
        is_wanted, cost = self._is_wanted(key, uid), self._cost(value)
        due = _beyond_usual(cost) if is_wanted else cost
        growth = due - (before.cost if before is not None and before.uid == uid else 0)
        is_room = self._is_room_beyond(key, due) if is_wanted else self._is_room(key, uid, cost)
        if known is None and (growth <= 0 or is_room):
            self._note_admitted(key, _AdmittedObject(uid, due, _uses(value)))
            return change
        if is_wanted:
            self._wanted[key] = None
        self._leave(key, _LeftOut(uid, cost, known.seen + 1 if known is not None else 0))
        # It may have been usage before, as an allocated claim: the cluster cache must forget that.
        return Change(kind=change.kind, key=change.key, value=None) if known is None else None

    def _is_wanted(self, key: ObjectKey, uid: str) -> bool:
        """Whether it is a claim of a pod in memory, which has paid for it."""
        return key.kind is Kind.CLAIMS and (key in self._uses or self._pods.get(uid, _NO_POD) in self._admitted_objects)

    def _goes_with_pod(self, key: ObjectKey, uid: str) -> bool:
        """Whether it is a claim made for a pod that is known: it comes when the pod does."""
        return key.kind is Kind.CLAIMS and uid in self._pods

    def _is_room(self, key: ObjectKey, uid: str, cost: int) -> bool:
        return (
            not self._goes_with_pod(key, uid) and not self.is_closed and self._pools[key.kind].fits(key.namespace, cost)
        )

    def _is_room_beyond(self, key: ObjectKey, cost: int) -> bool:
        """Whether there is room for what a claim has beyond what its pod has paid for."""
        return not cost or (not self.is_closed and self._pools[key.kind].fits(key.namespace, cost))

    def _waits(self, value: Pod | Claim) -> bool:
        """Whether an object uses nothing; a claim that cannot be read whole counts as usage."""
        if isinstance(value, Claim):
            return not value.invalid and value.allocation is None and not value.reserved_for
        holds = value.node_name or value.nominated_node_name or value.is_terminal
        return not holds and value.scheduler_name in self._scheduler_names

    def _cost(self, value: Pod | Claim) -> int:
        own = _PROCESSES * self._interner.own_bytes(value)
        if isinstance(value, Pod):
            return POD_BYTES + own + CLAIM_BYTES * len(value.claims)
        return CLAIM_BYTES + own

    def _note_admitted(self, key: ObjectKey, admitted: _AdmittedObject) -> None:
        if key.kind is Kind.PODS:
            self._pods[admitted.uid] = key
            self._uses.update(admitted.uses)
            lacking = (*(each for each in admitted.uses if each in self._left), *self._owned.get(admitted.uid, ()))
            self._wanted.update(dict.fromkeys(lacking))
        self._admitted_objects[key] = admitted
        self._pools[key.kind].add(key.namespace, admitted.cost)

    def _leave(self, key: ObjectKey, left: _LeftOut) -> None:
        if key.kind is Kind.PODS:
            self._pods[left.uid] = key
        elif left.uid:
            self._owned[left.uid].add(key)
        self._left[key] = left
        self._counts[key.kind] += 1
        self._pools[key.kind].shares[key.namespace].left[key] = None

    def _drop(self, key: ObjectKey) -> None:
        """Forget an object, kept or left out."""
        admitted, left = self._admitted_objects.pop(key, None), self._left.pop(key, None)
        known = admitted or left
        if known is None:
            return
        pool = self._pools[key.kind]
        if admitted is not None:
            pool.add(key.namespace, -admitted.cost)
            self._unuse(admitted)
        if left is not None:
            self._counts[key.kind] -= 1
            self._wanted.pop(key, None)
            del pool.shares[key.namespace].left[key]
        if key.kind is Kind.PODS:
            self._pods.pop(known.uid, None)
        elif known.uid in self._owned:
            self._owned[known.uid].discard(key)
            if not self._owned[known.uid]:
                del self._owned[known.uid]
        pool.prune(key.namespace)

    def _unuse(self, admitted: _AdmittedObject) -> None:
        for each in admitted.uses:
            self._uses[each] -= 1
            if not self._uses[each]:
                del self._uses[each]


def _beyond_usual(cost: int) -> int:
    """Return what a claim costs beyond twice the usual size, of which every claim has a part."""
    return cost - 2 * CLAIM_BYTES if cost > 2 * CLAIM_BYTES else 0


def _uses(value: Pod | Claim) -> tuple[ObjectKey, ...]:
    return tuple(ObjectKey(Kind.CLAIMS, str(each)) for each in value.claim_ids) if isinstance(value, Pod) else ()
