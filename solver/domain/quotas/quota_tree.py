"""The tree that quotas form, and what contradicts in it: findings, which stop nothing else."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from solver.domain.node import Namespace
from solver.domain.quotas.device_quota import DeviceQuota, QuotaKey


class QuotaFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong with a quota: `reason` is that of its condition, `message` says what to write instead."""

    quota: str
    reason: str
    message: str


UNKNOWN_PARENT: Final = "ParentUnknown"
PARENT_CYCLE: Final = "ParentCycle"
INNER_SELECTOR: Final = "ParentSelectsNamespaces"
SEVERAL_QUOTAS: Final = "SeveralQuotas"
UNREADABLE: Final = "Unreadable"
GUARANTEES_ABOVE_PARENT: Final = "GuaranteesAboveParent"
"""The reasons of findings."""


@dataclass(frozen=True, slots=True, eq=False)
class QuotaTree:
    """
    All quotas with their parents, and the quota of each namespace.

    `parents` are positions in `quotas`, -1 for a root. A namespace has the oldest leaf that selects it. A quota whose
    parent does not exist, or that is its own ancestor, is a root. The selector of a quota with children does not count.
    Where `selects` says that some leaf selects namespaces, any of them may have one that is not `known` yet.
    """

    quotas: tuple[DeviceQuota, ...] = ()
    parents: tuple[int, ...] = ()
    leaf_of: Mapping[str, int] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    selects: bool = False
    findings: tuple[QuotaFinding, ...] = ()
    chains: tuple[tuple[int, ...], ...] = ()
    """For each quota itself and its ancestors, the root last."""
    below: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The positions of the children of each quota that has some, and of the roots by -1."""
    parents_first: tuple[int, ...] = ()
    """All positions, each after that of its parent and before those of its next sibling."""
    guarantees: Mapping[tuple[int, QuotaKey], int] = field(default_factory=dict)
    """What a quota guarantees where that is something."""

    @classmethod
    def of(cls, quotas: Sequence[DeviceQuota], namespaces: Iterable[Namespace]) -> "QuotaTree":
        """Connect quotas, and find the quota of each namespace."""
        if not quotas:
            return cls()
        found = tuple(sorted(quotas, key=lambda each: each.name))
        position = {each.name: index for index, each in enumerate(found)}
        findings: list[QuotaFinding] = []
        parents = [position.get(each.parent, -1) if each.parent else -1 for each in found]
        for index, each in enumerate(found):
            if each.parent and parents[index] < 0:
                message = (
                    f"spec.parent: there is no DeviceQuota {each.parent}; it counts without a parent until there is"
                )
                findings.append(QuotaFinding(quota=each.name, reason=UNKNOWN_PARENT, message=message))
            if each.refusal:
                message = f"spec: {each.refusal.removeprefix(f'DeviceQuota {each.name}: ')}"
                findings.append(QuotaFinding(quota=each.name, reason=UNREADABLE, message=message))
        findings += _cut_cycles(found, parents)
        inner = {parent for parent in parents if parent >= 0}
        for index in sorted(inner):
            if found[index].selector is not None:
                message = "spec.namespaceSelector: a quota that others name as their parent selects no namespaces; "
                message += "make a quota of its own for them"
                findings.append(QuotaFinding(quota=found[index].name, reason=INNER_SELECTOR, message=message))
        leaves = [index for index in range(len(found)) if index not in inner and found[index].selector is not None]
        leaves.sort(key=lambda index: (found[index].created, found[index].name))
        namespaces = tuple(namespaces)
        leaf_of, several = _leaves(found, leaves, namespaces)
        findings += several
        chains = tuple(tuple(_chain(parents, index)) for index in range(len(found)))
        findings += _above_parents(found, parents)
        below: defaultdict[int, list[int]] = defaultdict(list)
        for index, parent in enumerate(parents):
            below[parent].append(index)
        children = {parent: tuple(indices) for parent, indices in below.items()}
        order = tuple(_parents_first(children))
        guarantees = _guarantees(found, parents, order)
        return cls(
            quotas=found,
            parents=tuple(parents),
            leaf_of=leaf_of,
            known=frozenset(each.name for each in namespaces),
            selects=bool(leaves),
            findings=tuple(findings),
            chains=chains,
            below=children,
            parents_first=order,
            guarantees=guarantees,
        )

    def chain(self, namespace: str) -> tuple[int, ...]:
        """Return the positions of a namespace's quota and its ancestors; none where it has no quota."""
        leaf = self.leaf_of.get(namespace, -1)
        return self.chains[leaf] if leaf >= 0 else ()

    def quota_of(self, namespace: str) -> str:
        """Return the name of a namespace's quota; empty where it has none."""
        leaf = self.leaf_of.get(namespace, -1)
        return self.quotas[leaf].name if leaf >= 0 else ""

    def is_unknown(self, namespace: str) -> bool:
        """Whether any quota may have a namespace: the API server has not shown its labels, or shows it no more."""
        # Room whose pods cannot be read is held in the namespace "" (`scheduler.kube.decode.device_holds`).
        return self.selects and bool(namespace) and namespace not in self.known

    def refusal(self, namespace: str) -> str:
        """Why a namespace gets no more devices, whatever is left: its quota or one above it cannot be read."""
        if self.is_unknown(namespace):
            why = f"the API server does not show namespace {namespace}, so its DeviceQuota is not known"
            return f"{why}; the pod is tried again when it does"
        return next((why for index in self.chain(namespace) if (why := self.quotas[index].refusal)), "")

    def children(self, parent: int) -> tuple[int, ...]:
        """Return the positions of the quotas below one; of -1 the roots."""
        return self.below.get(parent, ())

    def guarantee(self, index: int, key: QuotaKey) -> int:
        """Return what a quota guarantees: what it says, or the sum of its children where that is more."""
        return self.guarantees.get((index, key), 0)

    @property
    def keys(self) -> tuple[QuotaKey, ...]:
        """What some quota counts, each once."""
        return tuple(dict.fromkeys(each.key for quota in self.quotas for each in quota.resources))


def _parents_first(below: Mapping[int, tuple[int, ...]]) -> Iterator[int]:
    """Walk the tree; chains of quotas may be longer than the stack of the interpreter."""
    left = list(reversed(below.get(-1, ())))
    while left:
        yield (index := left.pop())
        left += reversed(below.get(index, ()))


def _guarantees(
    quotas: Sequence[DeviceQuota], parents: Sequence[int], order: Sequence[int]
) -> dict[tuple[int, QuotaKey], int]:
    """Find what each quota guarantees, from the leaves up."""
    found: dict[tuple[int, QuotaKey], int] = {}
    of_children: defaultdict[int, Counter[QuotaKey]] = defaultdict(Counter)
    for index in reversed(order):
        own = Counter[QuotaKey]()
        for each in quotas[index].resources:
            own[each.key] += each.guarantee
        most = own | of_children.pop(index, Counter())
        found |= {(index, key): amount for key, amount in most.items()}
        of_children[parents[index]] += most
    return found


def _chain(parents: Sequence[int], index: int) -> Iterator[int]:
    while index >= 0:
        yield index
        index = parents[index]


def _cut_cycles(quotas: Sequence[DeviceQuota], parents: list[int]) -> Iterator[QuotaFinding]:
    """Make every quota of a cycle a root; quotas below stay where they are."""
    cyclic, passed = list[int](), set[int]()
    for index in range(len(quotas)):
        at, way = index, dict[int, None]()
        while at >= 0 and at not in passed and at not in way:
            way[at] = None
            at = parents[at]
        if at in way:
            walked = list(way)
            cyclic += walked[walked.index(at) :]
        passed.update(way)
    cyclic.sort()
    for index in cyclic:
        message = f"spec.parent: {quotas[index].parent} has this quota among its own parents; remove one of them"
        yield QuotaFinding(quota=quotas[index].name, reason=PARENT_CYCLE, message=message)
    for index in cyclic:
        parents[index] = -1


_SHOWN: Final = 3


def _leaves(
    quotas: Sequence[DeviceQuota], leaves: Sequence[int], namespaces: Iterable[Namespace]
) -> tuple[dict[str, int], list[QuotaFinding]]:
    """Give each namespace to the first leaf that selects it, and say which others select it too."""
    leaf_of: dict[str, int] = {}
    shared: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    # Every namespace has labels of its own, such as its name: those count that some selector reads.
    read = {each.key for index in leaves if (own := quotas[index].selector) is not None for each in own.requirements}
    known: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for namespace in namespaces:
        labels = tuple(each for each in namespace.labels if each[0] in read)
        if labels not in known:
            selecting = ((index, quotas[index].selector) for index in leaves)
            known[labels] = [index for index, each in selecting if each is not None and each.matches(dict(labels))]
        found = known[labels]
        if found:
            leaf_of[namespace.name] = found[0]
        for other in found[1:]:
            shared[other, found[0]].append(namespace.name)
    findings = []
    for (other, first), names in sorted(shared.items()):
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        named = f"{', '.join(sorted(names)[:_SHOWN])}{more}"
        it, is_counted = ("it", "is counted") if len(names) == 1 else ("them", "are counted")
        message = f"spec.namespaceSelector: {named} {is_counted} by the older DeviceQuota {quotas[first].name}, "
        message += f"and this one does not bind {it}; change one of the two selectors"
        findings.append(QuotaFinding(quota=quotas[other].name, reason=SEVERAL_QUOTAS, message=message))
    return leaf_of, findings


def _above_parents(quotas: Sequence[DeviceQuota], parents: Sequence[int]) -> Iterator[QuotaFinding]:
    """Find quotas whose children are guaranteed more than their own guarantee or limit."""
    sums: defaultdict[tuple[int, QuotaKey], int] = defaultdict(int)
    for index, parent in enumerate(parents):
        for each in quotas[index].resources if parent >= 0 else ():
            sums[parent, each.key] += each.guarantee
    for index, quota in enumerate(quotas):
        for each in quota.resources:
            given = sums[index, each.key]
            most = min(each.guarantee or given, given if each.limit is None else each.limit)
            if given > most:
                message = f"spec.resources: its children are guaranteed {each.key.amount(given)} {each.key}, "
                message += f"and it has {each.key.amount(most)}; raise its own guarantee or limit, or lower theirs"
                yield QuotaFinding(quota=quota.name, reason=GUARANTEES_ABOVE_PARENT, message=message)
