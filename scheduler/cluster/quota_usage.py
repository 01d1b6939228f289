"""
What namespaces hold of what quotas count, in the shell, which evaluates no selectors.

The worker says what each claim counts (`ClaimCharge`), for its own plans before they are written. A claim that it has
not seen yet counts as its requests name classes, until it has.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator
from itertools import product
from typing import Final

from scheduler.cluster.table import add
from solver.domain import (
    Allocation,
    Claim,
    ClaimCharge,
    ClaimId,
    DeviceClass,
    DeviceId,
    DeviceQuota,
    Namespace,
    QuotaKey,
    QuotaShape,
    QuotaTree,
)

_Counts = tuple[tuple[QuotaKey, int, str], ...]
_Known = tuple[tuple[DeviceId, ...], _Counts]


class QuotaUsage:
    """
    Charges by claim, and their sums by quota.

    The tree of quotas, and with it the sums, are made anew where a quota or a namespace changed.
    """

    def __init__(self) -> None:
        self._charges: Final[dict[ClaimId, _Known]] = {}
        """What the worker said last of a claim, with the devices for which it holds."""
        self._unused: set[ClaimId] = set()
        """Claims that were not there when it was last looked, though the worker had spoken of them."""
        self._counted: Final[dict[ClaimId, tuple[Claim, _Counts]]] = {}
        self._by_namespace: Final[dict[str, dict[ClaimId, None]]] = {}
        """The claims that are counted."""
        self._units: Counter[tuple[int, QuotaKey]] = Counter()
        """What is held below a quota, by position in the tree."""
        self._nodes: defaultdict[tuple[int, QuotaKey], Counter[str]] = defaultdict(Counter)
        """How many claims below a quota have devices of a node."""
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
        """Make the tree anew where a quota or a namespace changed."""
        self.classes = classes
        if quotas is not self._quotas or namespaces is not self._namespaces:
            self._quotas, self._namespaces = quotas, namespaces
            self._tree = QuotaTree.of(quotas, namespaces)
            self._below = {}
            for namespace, leaf in self._tree.leaf_of.items():
                for index in self._tree.chains[leaf]:
                    self._below.setdefault(index, []).append(namespace)
            self._units, self._nodes = Counter(), defaultdict(Counter)
            for namespace in self._tree.leaf_of:
                for claim in self._by_namespace.get(namespace, ()):
                    self._add(namespace, self._counted[claim][1], 1)

    def learn(self, charges: Iterable[ClaimCharge]) -> None:
        """Take what the worker says of claims."""
        for each in charges:
            self._charges[each.claim] = (each.devices, each.counts)
            if each.claim in self._counted:
                self.replace(each.claim, self._counted[each.claim][0])

    def learn_unknown(self, charges: Iterable[ClaimCharge]) -> None:
        """
        Take what the worker says of claims that are only estimated.

        What it said of others is newer, and those that are not counted have been deleted or hold nothing any more.
        """
        counted = ((each, self._counted.get(each.claim)) for each in charges)
        self.learn(each for each, found in counted if found is not None and self._said(found[0]) is None)

    def forget_unused(self, claims: Container[ClaimId]) -> None:
        """
        Forget what the worker said of claims that are not there, and were not when this was called last.

        It speaks of a claim before the claim is made (KEP-5004), and of one that is deleted meanwhile.
        """
        unused = {each for each in self._charges if each not in claims}
        for each in unused & self._unused:
            del self._charges[each]
        self._unused = unused - self._unused

    def _said(self, claim: Claim) -> _Counts | None:
        """Return what the worker has said of a claim with its present devices, None where it has not."""
        known, allocation = self._charges.get(claim.id), claim.allocation
        if known is None or allocation is None or known[0] != tuple(each.device for each in allocation.results):
            return None
        return known[1]

    def replace(self, key: ClaimId, claim: Claim | None) -> None:
        """Count a claim as it is now."""
        if (before := self._counted.pop(key, None)) is not None:
            self._add(key.namespace, before[1], -1)
            own = self._by_namespace[key.namespace]
            del own[key]
            if not own:
                del self._by_namespace[key.namespace]
        if claim is None or claim.allocation is None:
            if claim is None:
                self._charges.pop(key, None)
            return
        said = self._said(claim)
        counts = tuple(_estimated(claim, claim.allocation)) if said is None else said
        self._counted[key] = (claim, counts)
        self._by_namespace.setdefault(key.namespace, {})[key] = None
        self._add(key.namespace, counts, 1)

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

    def counts(self, claim: ClaimId) -> _Counts:
        """Return what a claim counts now."""
        counted = self._counted.get(claim)
        return () if counted is None else counted[1]

    def exceeded(self, claims: Iterable[ClaimId]) -> Iterator[str]:
        """Say which limits are exceeded that claims, which are counted already, count for."""
        claims = tuple(claims)
        yield from filter(None, {self._tree.refusal(claim.namespace): None for claim in claims})
        counted = {
            (index, key): None
            for claim in claims
            for index in self._tree.chain(claim.namespace)
            for key, _, _ in self.counts(claim)
        }
        for index, key in counted:
            quota = self._tree.quotas[index]
            limit = next((each.limit for each in quota.resources if each.key == key), None)
            if limit is not None and (held := self.held(index, key)) > limit:
                amounts = f"{key.amount(held)} {key} would be held, its limit is {key.amount(limit)}"
                yield f"DeviceQuota {quota.name}: {amounts}"

    def sharing(self, namespace: str) -> tuple[str, ...]:
        """Return the namespaces that share a quota with one, itself included; none where it has no quota."""
        chain = self._tree.chain(namespace)
        return tuple(self._below.get(chain[-1], ())) if chain else ()

    def quota_of(self, namespace: str) -> str:
        """Return the name of a namespace's quota; empty where it has none."""
        return self._tree.quota_of(namespace)

    def _add(self, namespace: str, counts: _Counts, sign: int) -> None:
        for index, (key, amount, node) in product(self._tree.chain(namespace), counts):
            if node:
                users = self._nodes[index, key]
                add(users, node, sign)
                if not users:
                    del self._nodes[index, key]
            else:
                add(self._units, (index, key), sign * amount)


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
