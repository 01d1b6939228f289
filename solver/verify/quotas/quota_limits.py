"""
Limits of DeviceQuotas: what the namespaces of a quota and of those below it would hold together.

Written from the definition, with a pass over all claims where a plan adds devices in a namespace with a limit. What
others hold beyond a limit is no violation; what a plan adds to it is. A namespace that the snapshot does not show may
be of any quota: what it holds counts for each limit, and it gets nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from solver.domain import (
    Claim,
    ClaimId,
    Device,
    DeviceId,
    DeviceQuota,
    DeviceResult,
    Namespace,
    QuotaKey,
    QuotaResource,
    Snapshot,
    Violation,
)
from solver.feasibility.selectors import SelectorError, compile_selector
from solver.verify.plan_context import NewAllocation, PlanContext
from solver.verify.violations import Rule, broken

_NODES = "wholeNodes"


@dataclass(slots=True, eq=False)
class QuotaTotal:
    """Units, or the names of nodes."""

    units: int = 0
    nodes: set[str] = field(default_factory=set)

    @property
    def amount(self) -> int:
        """What is counted."""
        return self.units + len(self.nodes)


def violations(made: tuple[NewAllocation, ...], context: PlanContext) -> Iterator[Violation]:
    """Check the limits of every quota that new allocations count for."""
    snapshot = context.snapshot
    if not snapshot.quotas or not made:
        return
    by_name = {each.name: each for each in snapshot.quotas}
    quota_of = quotas_of_namespaces(snapshot.quotas, snapshot.namespaces)
    new = {each.claim.id: each for each in made}
    unknown = _unknown_namespaces(snapshot, new)
    for namespace in sorted(unknown & {each.claim.id.namespace for each in made}):
        yield broken(Rule.QUOTA_LIMIT, f"namespace {namespace}", "its quota is not known, and it gets devices")
    adding = {name for each in made for name in quota_and_above(by_name, quota_of.get(each.claim.id.namespace, ""))}
    for name in sorted(adding):
        if by_name[name].invalid or by_name[name].unknown:
            yield broken(Rule.QUOTA_LIMIT, f"DeviceQuota {name}", "it cannot be read, and its namespaces get devices")
        limited = [each for each in by_name[name].resources if each.limit is not None]
        within = {namespace for namespace, leaf in quota_of.items() if name in quota_and_above(by_name, leaf)}
        for resource in limited:
            for each in (within, within | unknown) if unknown else (within,):
                yield from _check(name, resource, each, new, context)


def _unknown_namespaces(snapshot: Snapshot, new: Iterable[ClaimId]) -> set[str]:
    """Return the namespaces of claims that the snapshot does not show; none where no quota selects namespaces."""
    if not _leaves(snapshot.quotas):
        return set()
    with_claims = {claim.id.namespace for claim in snapshot.claims} | {claim.namespace for claim in new}
    return with_claims - {each.name for each in snapshot.namespaces} - {""}


def _check(
    name: str, resource: QuotaResource, within: set[str], new: Mapping[ClaimId, NewAllocation], context: PlanContext
) -> Iterator[Violation]:
    meter = QuotaMeter(resource.key, context)
    before, after = QuotaTotal(), QuotaTotal()
    for claim in context.snapshot.claims:
        if claim.id.namespace in within and claim.allocation is not None and claim.id not in new:
            for total in (before, after):
                meter.count(total, claim, claim.allocation.results)
    for each in new.values():
        if each.claim.id.namespace in within:
            meter.count(after, each.claim, each.allocation.results)
    most = resource.limit or 0
    if after.amount > most and after.amount > before.amount:
        held, added = before.amount, after.amount - before.amount
        message = f"it would hold {held} + {added} of {resource.key}, and its limit is {most}"
        yield broken(Rule.QUOTA_LIMIT, f"DeviceQuota {name}", message)


def quotas_of_namespaces(quotas: Iterable[DeviceQuota], namespaces: Iterable[Namespace]) -> dict[str, str]:
    """Return the oldest quota without children that selects each namespace."""
    leaves = _leaves(quotas)
    found: dict[str, str] = {}
    for namespace in namespaces:
        labels = dict(namespace.labels)
        selecting = [each for each in leaves if each.selector is not None and each.selector.matches(labels)]
        if selecting:
            found[namespace.name] = min(selecting, key=lambda each: (each.created, each.name)).name
    return found


def _leaves(quotas: Iterable[DeviceQuota]) -> list[DeviceQuota]:
    """Return the quotas without children that have a selector."""
    quotas = tuple(quotas)
    parents = {each.parent for each in quotas if each.parent} - _own_ancestors({each.name: each for each in quotas})
    return [each for each in quotas if each.name not in parents and each.selector is not None]


def _own_ancestors(by_name: Mapping[str, DeviceQuota]) -> set[str]:
    """Return the parents that count for nobody: those named only within cycles."""
    cyclic = {name for name in by_name if name in _ancestors(by_name, name)}
    named = {each.parent for each in by_name.values() if each.parent and each.name not in cyclic}
    return cyclic - named


def _ancestors(by_name: Mapping[str, DeviceQuota], name: str) -> set[str]:
    found: set[str] = set()
    at = by_name[name].parent
    while at in by_name and at not in found:
        found.add(at)
        at = by_name[at].parent
    return found


def quota_and_above(by_name: Mapping[str, DeviceQuota], name: str) -> tuple[str, ...]:
    """Return a quota and those above it, as far as they exist; a quota that is its own ancestor has none above it."""
    found: dict[str, None] = {}
    while name in by_name and name not in found:
        found[name] = None
        name = by_name[name].parent
    chain = tuple(found)
    return chain[: chain.index(name) + 1] if name in found else chain


class QuotaMeter:
    """Counts results for one key."""

    def __init__(self, key: QuotaKey, context: PlanContext) -> None:
        self._key, self._context = key, context
        self._class = context.classes.get(key.device_class)
        self._withdrawn = {each.id: each for each in context.snapshot.withdrawn}
        self._met: dict[DeviceId, bool] = {}

    def count(self, total: QuotaTotal, claim: Claim, results: Iterable[DeviceResult]) -> None:
        """Add what results of a claim count."""
        for result in results:
            if result.admin_access:
                continue
            device, node = self._published(result.device)
            if device is None:
                self._count_unknown(total, claim, result)
            elif self._meets(result.device, device):
                if self._key.shape == _NODES:
                    total.nodes |= {node} - {""}
                else:
                    total.units += self._amount(result, device) if self._key.capacity else 1

    def _count_unknown(self, total: QuotaTotal, claim: Claim, result: DeviceResult) -> None:
        """A device that no slice ever showed counts for the class that its request names."""
        named = {
            str(request.result_name(position)): alternative.device_class
            for request in claim.requests
            for position, alternative in enumerate(request.alternatives)
        }
        if named.get(result.request) == self._key.device_class and self._key.shape != _NODES:
            consumed = {name: amount.nano for name, amount in result.consumed_capacity}
            total.units += consumed.get(self._key.capacity, 0) if self._key.capacity else 1

    def _published(self, device: DeviceId) -> tuple[Device | None, str]:
        published = self._context.pools.find(device)
        if published is not None:
            return published.device, published.scope.node_name
        gone = self._withdrawn.get(device)
        return (None, "") if gone is None else (gone.device, gone.node)

    def _meets(self, key: DeviceId, device: Device) -> bool:
        if key not in self._met:
            known = self._class if self._class is not None and not self._class.invalid else None
            self._met[key] = known is not None and _selects(known.selectors, key, device)
        return self._met[key]

    def _amount(self, result: DeviceResult, device: Device) -> int:
        """Return the nano-units of the capacity: what a share consumes, or all that the device has."""
        driver, wanted = result.device.driver, self._key.capacity
        published = dict(device.capacities)
        bare = wanted.removeprefix(f"{driver}/")
        name = next((each for each in (wanted, bare, f"{driver}/{wanted}") if each in published), None)
        if name is None:
            return 0
        if result.share_id:
            return Counter({each: amount.nano for each, amount in result.consumed_capacity})[name]
        return published[name].value.nano


def _selects(texts: Iterable[str], key: DeviceId, device: Device) -> bool:
    try:
        return all(compile_selector(text).evaluate(key.driver, device) is True for text in texts)
    except SelectorError:
        return False
