"""
What namespaces hold of what quotas count, in the shell, which evaluates no selectors.

The worker says what each claim counts (`ClaimCharge`), for its own plans before they are written. A claim that it has
not seen yet counts as its requests name classes, until it has.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator
from itertools import product
from typing import Final, NamedTuple

from scheduler.cluster.table import add
from solver.domain import (
    Allocation,
    Claim,
    ClaimId,
    DeviceClass,
    DeviceId,
    DeviceQuota,
    Namespace,
    QuotaCharges,
    QuotaKey,
    QuotaShape,
    QuotaTree,
)

_Counts = tuple[tuple[QuotaKey, int, str], ...]
_UNKNOWN: Final = -1
"""Stands for the position of a quota where claims are in namespaces that are not known."""
_UNSAID: Final = 0
"""The number of the keys of a claim of which the worker has not spoken: none."""


class _Said(NamedTuple):
    """What the worker said last of a claim, while it has these devices; `keys` is a number of `QuotaUsage._keys`."""

    devices: tuple[DeviceId, ...]
    counts: _Counts
    keys: int


class _Counted(NamedTuple):
    """A claim as it counts."""

    claim: Claim
    counts: _Counts
    keys: int


class QuotaUsage:
    """
    Charges by claim, and their sums by quota.

    The tree of quotas, and with it the sums, are made anew where a quota changed. A limit counts what claims may hold
    besides of which the worker has not spoken yet: it is never exceeded, and a plan may be refused in vain once. Claims
    in namespaces that are not known count for every limit.
    """

    def __init__(self) -> None:
        self._charges: Final[dict[ClaimId, _Said]] = {}
        self._unused: set[ClaimId] = set()
        """Claims that were not there when it was last looked, though the worker had spoken of them."""
        self._counted: Final[dict[ClaimId, _Counted]] = {}
        self._by_namespace: Final[dict[str, dict[ClaimId, None]]] = {}
        """The claims that are counted."""
        self._units: Counter[tuple[int, QuotaKey]] = Counter()
        """What is held below a quota, by position in the tree."""
        self._nodes: defaultdict[tuple[int, QuotaKey], Counter[str]] = defaultdict(Counter)
        """How many claims below a quota have devices of a node."""
        self._keys: Final[list[frozenset[QuotaKey]]] = [frozenset()]
        """The keys that the worker has looked at, once for each tree of quotas."""
        self._claims_with: Counter[tuple[int, int]] = Counter()
        """How many claims below a quota are counted by the keys with a number."""
        self._tree = QuotaTree()
        self._quotas: tuple[DeviceQuota, ...] = ()
        self._namespaces: tuple[Namespace, ...] = ()
        self._below: dict[int, list[str]] = {}
        self.classes: tuple[DeviceClass, ...] = ()
        """The DeviceClasses, which say for what pods wait."""

    @property
    def tree(self) -> QuotaTree:
        """The tree of quotas."""
        return self._tree

    def follow(
        self, quotas: tuple[DeviceQuota, ...], namespaces: tuple[Namespace, ...], classes: tuple[DeviceClass, ...] = ()
    ) -> None:
        """Make the tree anew where a quota or a namespace changed, and sum up what namespaces hold that moved."""
        self.classes = classes
        if quotas is self._quotas and namespaces is self._namespaces:
            return
        tree = QuotaTree.of(quotas, namespaces)
        if quotas is self._quotas:
            moved = [each for each in self._by_namespace if self._chain(each) != _chain_of(tree, each)]
            self._add_namespaces(moved, -1)
        else:
            moved = [*self._by_namespace]
            self._units, self._nodes, self._claims_with = Counter(), defaultdict(Counter), Counter()
        self._quotas, self._namespaces, self._tree = quotas, namespaces, tree
        self._below = {}
        for namespace, leaf in tree.leaf_of.items():
            for index in tree.chains[leaf]:
                self._below.setdefault(index, []).append(namespace)
        self._add_namespaces(moved, 1)

    def learn(self, charges: QuotaCharges) -> None:
        """Take what the worker says of claims."""
        keys = frozenset(charges.keys)
        if keys not in self._keys:
            self._keys.append(keys)
        number = self._keys.index(keys)
        for each in charges.claims:
            self._charges[each.claim] = _Said(each.devices, each.counts, number)
            if each.claim in self._counted:
                self.replace(each.claim, self._counted[each.claim].claim)

    def learn_unknown(self, charges: QuotaCharges) -> None:
        """
        Take what the worker says of claims that are only estimated.

        What it said of others is newer, and those that are not counted have been deleted or hold nothing any more.
        """
        present = frozenset(self._tree.keys)
        counted = ((each, self._counted.get(each.claim)) for each in charges.claims)
        open_claims = (each for each, found in counted if found is not None and not present <= self._keys[found.keys])
        self.learn(QuotaCharges(keys=charges.keys, claims=tuple(open_claims)))

    def forget_unused(self, claims: Container[ClaimId]) -> None:
        """
        Forget what the worker said of claims that are not there, and were not when this was called last.

        It speaks of a claim before the claim is made (KEP-5004), and of one that is deleted meanwhile.
        """
        unused = {each for each in self._charges if each not in claims}
        for each in unused & self._unused:
            del self._charges[each]
        self._unused = unused - self._unused

    def replace(self, key: ClaimId, claim: Claim | None) -> None:
        """Count a claim as it is now."""
        if (before := self._counted.pop(key, None)) is not None:
            self._add(key.namespace, before, -1)
            own = self._by_namespace[key.namespace]
            del own[key]
            if not own:
                del self._by_namespace[key.namespace]
        if claim is None or claim.allocation is None:
            if claim is None:
                self._charges.pop(key, None)
            return
        said, devices = self._charges.get(key), tuple(each.device for each in claim.allocation.results)
        counts, number = (said.counts, said.keys) if said is not None and said.devices == devices else ((), _UNSAID)
        known = self._keys[number]
        counts += tuple(each for each in _estimated(claim, claim.allocation) if each[0] not in known)
        self._counted[key] = counted = _Counted(claim, counts, number)
        self._by_namespace.setdefault(key.namespace, {})[key] = None
        self._add(key.namespace, counted, 1)

    def forget_missing(self, claims: Container[ClaimId]) -> None:
        """Forget claims that do not exist any more; nothing was said of them while there was no quota."""
        for key in [*self._counted, *self._charges]:
            if key not in claims:
                self.replace(key, None)

    def held(self, quota: int, key: QuotaKey) -> int:
        """Return what the namespaces of a quota, by position in the tree, hold of a key."""
        if key.shape == QuotaShape.WHOLE_NODES:
            return len(self._nodes.get((quota, key), ()))
        return self._units[quota, key]

    def _limited(self, quota: int, key: QuotaKey) -> int:
        """Return what counts for a limit: what a quota holds, and namespaces that are not known."""
        unknown = self._nodes.get((_UNKNOWN, key))
        if key.shape == QuotaShape.WHOLE_NODES and unknown:
            return len(unknown.keys() | self._nodes.get((quota, key), {}).keys())
        return self.held(quota, key) + self._units[_UNKNOWN, key]

    def exceeded(self, claims: Iterable[ClaimId]) -> Iterator[str]:
        """Say which limits are exceeded, or may be, that claims, which are counted already, count for."""
        claims = tuple(claims)
        yield from filter(None, {self._tree.refusal(claim.namespace): None for claim in claims})
        limits: dict[tuple[int, QuotaKey], int] = {}
        for claim in claims:
            counted = self._counted.get(claim)
            counts, keys = (counted.counts, counted.keys) if counted is not None else ((), _UNSAID)
            known = self._keys[keys]
            concerned = {key for key, _, _ in counts}
            chain = self._tree.chain(claim.namespace)
            limited = ((index, each) for index in chain for each in self._tree.quotas[index].resources)
            limits |= {
                (index, each.key): each.limit
                for index, each in limited
                if each.limit is not None and (each.key in concerned or each.key not in known)
            }
        for (index, key), limit in limits.items():
            name, held = f"DeviceQuota {self._tree.quotas[index].name}", self._limited(index, key)
            if held > limit:
                if self._may_add(index, key, claims):
                    yield f"{name}: {key.amount(held)} {key} would be held, its limit is {key.amount(limit)}"
            elif (more := self._unsaid(index, key)) is None or held + more > limit:
                yield f"{name}: what claims count that were allocated a moment ago is not known yet for {key}"

    def _may_add(self, index: int, key: QuotaKey, claims: Iterable[ClaimId]) -> bool:
        """Whether a quota may hold more of a key with some claims than without: it does if they count devices."""
        counted = [self._counted[claim] for claim in claims if claim in self._counted]
        if key.shape != QuotaShape.WHOLE_NODES or any(key not in self._keys[each.keys] for each in counted):
            return True
        own = Counter(node for each in counted for known, _, node in each.counts if known == key)
        users = self._nodes[index, key]
        return any(users[node] <= count for node, count in own.items())

    def _unsaid(self, index: int, key: QuotaKey) -> int | None:
        """Return what is held at most besides of a key, by claims of which nothing was said; None is any amount."""
        silent = {
            number
            for number, keys in enumerate(self._keys)
            if key not in keys and (self._claims_with[index, number] or self._claims_with[_UNKNOWN, number])
        }
        if not silent:
            return 0
        if key.capacity:
            return None
        found, unknown = 0, (each for each in self._by_namespace if self._tree.is_unknown(each))
        for namespace in (*self._below.get(index, ()), *unknown):
            for claim in self._by_namespace.get(namespace, ()):
                counted = self._counted[claim]
                if counted.keys in silent and counted.claim.allocation is not None:
                    found += sum(not each.admin_access for each in counted.claim.allocation.results)
                    found -= sum(amount for known, amount, _ in counted.counts if known == key)
        return found

    def sharing(self, namespace: str) -> tuple[str, ...]:
        """Return the namespaces that share a quota with one, itself included; none where it has no quota."""
        if self._tree.is_unknown(namespace):
            return tuple(self._tree.leaf_of)
        chain = self._tree.chain(namespace)
        return tuple(self._below.get(chain[-1], ())) if chain else ()

    def quota_of(self, namespace: str) -> str:
        """Return the name of a namespace's quota; empty where it has none, its own where it is not known."""
        if self._tree.is_unknown(namespace):
            return f"{namespace}/"  # which no quota has
        return self._tree.quota_of(namespace)

    def _chain(self, namespace: str) -> tuple[int, ...]:
        return _chain_of(self._tree, namespace)

    def _add_namespaces(self, namespaces: Iterable[str], sign: int) -> None:
        for namespace in namespaces:
            for claim in self._by_namespace.get(namespace, ()):
                self._add(namespace, self._counted[claim], sign)

    def _add(self, namespace: str, counted: _Counted, sign: int) -> None:
        chain = self._chain(namespace)
        for index in chain:
            add(self._claims_with, (index, counted.keys), sign)
        for index, (key, amount, node) in product(chain, counted.counts):
            if node:
                users = self._nodes[index, key]
                add(users, node, sign)
                if not users:
                    del self._nodes[index, key]
            else:
                add(self._units, (index, key), sign * amount)


def _chain_of(tree: QuotaTree, namespace: str) -> tuple[int, ...]:
    """Return for which quotas the claims of a namespace count."""
    return (_UNKNOWN,) if tree.is_unknown(namespace) else tree.chain(namespace)


def _estimated(claim: Claim, allocation: Allocation) -> Iterator[tuple[QuotaKey, int, str]]:
    """Count the devices of a claim for the classes that its requests name."""
    named = {
        str(request.result_name(position)): alternative.device_class
        for request in claim.requests
        for position, alternative in enumerate(request.alternatives)
    }
    counts = Counter(
        named[each.request] for each in allocation.results if not each.admin_access and each.request in named
    )
    for device_class, count in counts.items():
        yield QuotaKey(device_class), count, ""
