"""Load shedding: which waiting pods and claims are taken into memory.

Whatever holds something (bound pods, allocated claims, nodes, slices) is always taken: it counts as usage. Pods that
wait, and claims without an allocation, hold nothing. A tenant can create any number of them, so both have a budget of
bytes that namespaces share by dynamic thresholds (Choudhury and Hahne, "Dynamic queue length thresholds for
shared-memory packet switches", 1998): a namespace may hold at most as many bytes as are left free. One namespace gets
half of the budget at most, two a third each, and there is always room for one that comes later.

A pod pays for the claims that it uses, so that a pod that is taken never lacks its claims; only what a claim has of
its own beyond the usual, such as parameters for its driver, is paid for by itself. What is left out is known by key
only; it is read again (`Readmission`) when there is room.

Pods that are not to be placed here are kept without what says where they may run.

A pod of another scheduler, and one that has its node, count with what they hold and forbid. Its author may have
written a megabyte of tolerations and selectors, and nobody limits how many such pods there are.
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
"""Of pods of our own, which `dovetail defrag` places again: one that says more counts there as fit for any node."""
_NOTHING: Final[dict[str, object]] = {
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
    """Give a pod as it is kept; one that waits for one of these schedulers is kept whole."""
    if pod.scheduler_name in scheduler_names and not pod.node_name:
        return pod
    said = [part for name in _NOTHING if (part := getattr(pod, name))]
    if not said or (pod.scheduler_name in scheduler_names and sum(map(size_of, said)) <= _MOST_BYTES):
        return pod
    return replace(pod, **_NOTHING)


POD_BYTES: Final = 6 * 1024
"""What a waiting pod takes in both processes beside what is its own: see `make bench ARGS=--memory`."""
CLAIM_BYTES: Final = 3 * 1024
"""The same for a claim."""
_PROCESSES: Final = 2
_MOST_LOOKED_AT: Final = 1000
"""Objects of one namespace that are looked at in one go for what fits now."""


class Key(NamedTuple):
    """A pod or a claim; `name` is `namespace/name`."""

    kind: Kind
    name: str

    @property
    def namespace(self) -> str:
        """The namespace that pays for it."""
        return self.name.partition("/")[0]


_NO_POD: Final = Key(Kind.PODS, "")


@dataclass(frozen=True, slots=True)
class _Taken:
    """An object that was taken: the uid of the pod that it is, or that owns it, its bytes, the claims that it uses."""

    uid: str
    cost: int
    uses: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True)
class _Left:
    """An object that was left out; `seen` counts how often the watch has shown it since."""

    uid: str
    cost: int
    seen: int = 0


@dataclass(slots=True, eq=False)
class _Share:
    """What one namespace holds of a budget, and what of it was left out, in the order of arrival."""

    bytes: int = 0
    left: dict[Key, None] = field(default_factory=dict)


class _Pool:
    """The budget of one kind of objects, and what each namespace holds of it."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes: Final = budget_bytes
        self.shares: Final[defaultdict[str, _Share]] = defaultdict(_Share)
        self.bytes = 0

    def fits(self, namespace: str, cost: int) -> bool:
        """Whether the namespace then holds no more than is left free."""
        held = self.shares[namespace].bytes if namespace in self.shares else 0
        return held + cost <= self.budget_bytes - self.bytes - cost

    def add(self, namespace: str, cost: int) -> None:
        """Count bytes of a namespace; negative ones are given back."""
        self.bytes += cost
        self.shares[namespace].bytes += cost

    def prune(self, namespace: str) -> None:
        """Forget a namespace of which nothing is known any more."""
        share = self.shares[namespace]
        if not share.bytes and not share.left:
            del self.shares[namespace]


class MemoryBudget:
    """
    The budgets, and what was taken or left out because of them.

    `admit` is asked for every change before anything else is. Pods of other schedulers are not ours to leave out.
    """

    def __init__(self, scheduler_names: Iterable[str], budget_bytes: int, interner: Interner) -> None:
        self._scheduler_names: Final = frozenset(scheduler_names)
        self._interner: Final = interner
        self._pools: Final = {kind: _Pool(budget_bytes // 2) for kind in (Kind.PODS, Kind.CLAIMS)}
        self._taken: Final[dict[Key, _Taken]] = {}
        self._left: Final[dict[Key, _Left]] = {}
        self._counts: Final[Counter[Kind]] = Counter()
        self._pods: Final[dict[str, Key]] = {}
        """Waiting pods by uid, taken or left out: the claims that were made for them go with them."""
        self._uses: Final[Counter[Key]] = Counter()
        """How many of the pods that were taken use a claim."""
        self._owned: Final[defaultdict[str, set[Key]]] = defaultdict(set)
        """Claims that were left out, by the uid of the pod that they were made for."""
        self._wanted: Final[dict[Key, None]] = {}
        """Claims that were left out before a pod that uses them was taken."""
        self.is_closed = False
        """Whether nothing new is taken for now, because the process itself is short of memory."""

    @property
    def bytes(self) -> int:
        """Estimated bytes of the waiting pods and claims that were taken."""
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
        """Give the changes that are taken; an object that is left out from now on comes as gone."""
        return [found for change in changes if (found := self._admitted(change)) is not None]

    def candidates(self, most: int) -> tuple[tuple[Key, int], ...]:
        """
        Give what was left out and would be taken now, and how often it was seen.

        Claims that pods wait for come first, then those of the smallest namespaces.
        """
        return tuple((key, self._left[key].seen) for key in islice(self._candidates(), most))

    def readmit(self, key: Key, seen: int) -> bool:
        """
        Forget that an object was left out, because it was just read again and goes through `admit` next.

        False, where the watch has shown it again since `candidates`: what was read may be older than that.
        """
        known = self._left.get(key)
        if known is None or known.seen != seen:
            return False
        self._drop(key)
        return True

    def _candidates(self) -> Iterator[Key]:
        for key in self._wanted:
            left = self._left[key]
            if self._is_wanted(key, left.uid) and self._is_room_beyond(key, _beyond_usual(left.cost)):
                yield key
        for pool in self._pools.values() if not self.is_closed else ():
            for share in sorted(pool.shares.values(), key=lambda share: share.bytes):
                yield from self._fitting(pool, share)

    def _fitting(self, pool: _Pool, share: _Share) -> Iterator[Key]:
        """Give the first objects of a namespace for which there is room."""
        ahead = 0
        for key in islice(share.left, _MOST_LOOKED_AT):
            left = self._left[key]
            if key in self._wanted or (key.kind is Kind.CLAIMS and left.uid in self._pods):
                continue  # it goes with its pod
            ahead += left.cost
            if not pool.fits(key.namespace, ahead):
                return
            yield key

    def _admitted(self, change: Change) -> Change | None:
        if change.kind not in self._pools:
            return change
        key, value = Key(change.kind, change.key), change.value
        known, before = self._left.get(key), self._taken.get(key)
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
            self._take(key, _Taken(uid, due, _uses(value)))
            return change
        if is_wanted:
            self._wanted[key] = None
        self._leave(key, _Left(uid, cost, known.seen + 1 if known is not None else 0))
        # It may have been usage before, as an allocated claim was: the mirror must not go on believing that.
        return Change(kind=change.kind, key=change.key, value=None) if known is None else None

    def _is_wanted(self, key: Key, uid: str) -> bool:
        """Whether it is a claim of a pod that was taken, which has paid for it."""
        return key.kind is Kind.CLAIMS and (key in self._uses or self._owner(uid) in self._taken)

    def _owner(self, uid: str) -> Key:
        return self._pods.get(uid, _NO_POD)

    def _is_room(self, key: Key, uid: str, cost: int) -> bool:
        goes_with_pod = key.kind is Kind.CLAIMS and uid in self._pods
        return not goes_with_pod and not self.is_closed and self._pools[key.kind].fits(key.namespace, cost)

    def _is_room_beyond(self, key: Key, cost: int) -> bool:
        """Whether there is room for what a claim has of its own, beyond what its pod has paid for."""
        return not cost or (not self.is_closed and self._pools[key.kind].fits(key.namespace, cost))

    def _waits(self, value: Pod | Claim) -> bool:
        """Whether it holds nothing; a claim that cannot be read whole counts as holding something."""
        if isinstance(value, Claim):
            return not value.invalid and value.allocation is None and not value.reserved_for
        holds = value.node_name or value.nominated_node_name or value.is_terminal
        return not holds and value.scheduler_name in self._scheduler_names

    def _cost(self, value: Pod | Claim) -> int:
        own = _PROCESSES * self._interner.own_bytes(value)
        if isinstance(value, Pod):
            return POD_BYTES + own + CLAIM_BYTES * len(value.claims)
        return CLAIM_BYTES + own

    def _take(self, key: Key, taken: _Taken) -> None:
        if key.kind is Kind.PODS:
            self._pods[taken.uid] = key
            self._uses.update(taken.uses)
            lacking = (*(each for each in taken.uses if each in self._left), *self._owned.get(taken.uid, ()))
            self._wanted.update(dict.fromkeys(lacking))
        self._taken[key] = taken
        self._pools[key.kind].add(key.namespace, taken.cost)

    def _leave(self, key: Key, left: _Left) -> None:
        if key.kind is Kind.PODS:
            self._pods[left.uid] = key
        elif left.uid:
            self._owned[left.uid].add(key)
        self._left[key] = left
        self._counts[key.kind] += 1
        self._pools[key.kind].shares[key.namespace].left[key] = None

    def _drop(self, key: Key) -> None:
        """Forget an object, taken or left out."""
        pool = self._pools[key.kind]
        taken, left = self._taken.pop(key, None), self._left.pop(key, None)
        if taken is not None:
            pool.add(key.namespace, -taken.cost)
            self._unuse(taken)
        if left is not None:
            self._counts[key.kind] -= 1
            self._wanted.pop(key, None)
            del pool.shares[key.namespace].left[key]
        known = taken or left
        if known is not None and key.kind is Kind.PODS:
            self._pods.pop(known.uid, None)
        elif known is not None and known.uid in self._owned:
            self._owned[known.uid].discard(key)
            if not self._owned[known.uid]:
                del self._owned[known.uid]
        pool.prune(key.namespace)

    def _unuse(self, taken: _Taken) -> None:
        for each in taken.uses:
            self._uses[each] -= 1
            if not self._uses[each]:
                del self._uses[each]


def _beyond_usual(cost: int) -> int:
    """Give what a claim costs beyond the usual, of which a part comes with every claim."""
    return cost - 2 * CLAIM_BYTES if cost > 2 * CLAIM_BYTES else 0


def _uses(value: Pod | Claim) -> tuple[Key, ...]:
    return tuple(Key(Kind.CLAIMS, str(each)) for each in value.claim_ids) if isinstance(value, Pod) else ()
