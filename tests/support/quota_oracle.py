"""Quotas for the brute force: what allocations count for, by the checker's reading; and small random trees of them."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import strategies as st
from msgspec.structs import replace

from solver.domain import (
    Batch,
    Claim,
    ClaimId,
    DeviceQuota,
    DeviceResult,
    LabelRequirement,
    LabelSelector,
    Namespace,
    Pod,
    PodId,
    QuotaResource,
    QuotaShape,
    Snapshot,
)
from solver.domain.quantity import NANO
from solver.verify.plan_context import PlanContext
from solver.verify.quotas.quota_limits import QuotaMeter, QuotaTotal, quota_and_above, quotas_of_namespaces
from tests.support.strategies import Situation

Counts = tuple[tuple[int, frozenset[str]], ...]
"""By limit: units, and names of nodes."""


class QuotaOracle:
    """The limits of a snapshot's quotas: what is counted at the start, and with further claims."""

    def __init__(self, picture: PlanContext) -> None:
        snapshot = picture.snapshot
        self._by_name = {each.name: each for each in snapshot.quotas}
        self._quota_of = quotas_of_namespaces(snapshot.quotas, snapshot.namespaces) if snapshot.quotas else {}
        self.limits: list[tuple[str, QuotaResource]] = [
            (quota.name, each) for quota in snapshot.quotas for each in quota.resources if each.limit is not None
        ]
        self._meters = [QuotaMeter(each.key, picture) for _, each in self.limits]

    def start(self, claims: Sequence[Claim]) -> Counts:
        """Count what is held."""
        counts: Counts = tuple((0, frozenset()) for _ in self.limits)
        for claim in claims:
            if claim.allocation is not None:
                counts = self._added(counts, claim, claim.allocation.results)
        return counts

    def after(self, counts: Counts, claim: Claim, results: Sequence[DeviceResult]) -> Counts | None:
        """Count a new allocation; None where it adds to what is beyond a limit then."""
        found = self._added(counts, claim, results)
        for (_, limit), before, now in zip(self.limits, counts, found, strict=True):
            amount = now[0] + len(now[1])
            if amount > before[0] + len(before[1]) and amount > (limit.limit or 0):
                return None
        return found

    def _added(self, counts: Counts, claim: Claim, results: Sequence[DeviceResult]) -> Counts:
        line = quota_and_above(self._by_name, self._quota_of.get(claim.id.namespace, ""))
        found = []
        for (name, _), meter, (units, nodes) in zip(self.limits, self._meters, counts, strict=True):
            total = QuotaTotal(units, set(nodes))
            if name in line:
                meter.count(total, claim, results)
            found.append((total.units, frozenset(total.nodes)))
        return tuple(found)


_TEAMS = ("red", "blue", "green")


def team(name: str) -> LabelSelector:
    """Select the namespaces of a team."""
    return LabelSelector(requirements=(LabelRequirement(key="team", operator="In", values=(name,)),))


@st.composite
def with_quotas(draw: st.DrawFn, situations: st.SearchStrategy[Situation], *, guarantees: bool = False) -> Situation:
    """Spread the pods of a situation over namespaces, and put a tree of quotas of up to three levels over these."""
    situation = draw(situations)
    snapshot, batch = _spread(draw, situation)
    quotas = [
        _quota(draw, name, draw(st.sampled_from(("", "root", "middle"))), guarantees=guarantees) for name in _TEAMS
    ]
    inner = [
        replace(_quota(draw, name, above, guarantees=guarantees), selector=None)
        for name, above in (("middle", "root"), ("root", ""))
    ]
    kept = [each for each in quotas if draw(st.integers(0, 4))]
    return Situation(replace(snapshot, quotas=tuple(sorted((*kept, *inner), key=lambda each: each.name))), batch)


def _quota(draw: st.DrawFn, name: str, parent: str, *, guarantees: bool) -> DeviceQuota:
    keys = draw(
        st.lists(
            st.sampled_from(
                (
                    ("gpu", "", QuotaShape.DEVICES),
                    ("gpu", "", QuotaShape.DEVICES),
                    ("any", "", QuotaShape.DEVICES),
                    ("model-a", "", QuotaShape.DEVICES),
                    ("any", "memory", QuotaShape.DEVICES),
                    ("gpu", "", QuotaShape.WHOLE_NODES),
                )
            ),
            unique=True,
            max_size=2,
        )
    )
    resources = tuple(
        QuotaResource(
            device_class=each,
            capacity=capacity,
            shape=shape.value,
            limit=draw(st.integers(0, 4)) * (NANO if capacity else 1),
            guarantee=draw(st.integers(0, 3)) * (NANO if capacity else 1) if guarantees else 0,
            weight=draw(st.integers(1, 3)),
        )
        for each, capacity, shape in keys
    )
    return DeviceQuota(name=name, uid=f"uid-{name}", parent=parent, selector=team(name), resources=resources)


def _spread(draw: st.DrawFn, situation: Situation) -> tuple[Snapshot, Batch]:
    """Move pods to namespaces, pods with a claim in common together, and claims in use anywhere."""
    snapshot, batch = situation
    users = Counter(claim for pod in batch.pods for claim in pod.claim_ids)
    home = draw(st.sampled_from(_TEAMS))
    names: dict[str, str] = {}
    for pod in batch.pods:
        is_shared = any(users[each] > 1 for each in pod.claim_ids)
        names[pod.id.name] = home if is_shared else draw(st.sampled_from(_TEAMS))
    owner = {claim: names[pod.id.name] for pod in batch.pods for claim in pod.claim_ids}
    claims = tuple(
        replace(each, id=ClaimId(owner.get(each.id) or draw(st.sampled_from(_TEAMS)), each.id.name))
        for each in snapshot.claims
    )
    pods = tuple(_moved(pod, names[pod.id.name]) for pod in batch.pods)
    namespaces = tuple(Namespace(name=each, labels=(("team", each),)) for each in sorted(_TEAMS))
    classes = tuple(
        sorted(
            (*snapshot.classes, replace(snapshot.classes[0], name="model-a", selectors=(_MODEL_A,))),
            key=lambda each: each.name,
        )
    )
    claims = tuple(sorted(claims, key=lambda each: each.id))
    return replace(snapshot, claims=claims, namespaces=namespaces, classes=classes), replace(batch, pods=pods)


_MODEL_A = "device.attributes['gpu.example.com'].?model.orValue('B') == 'A'"


def _moved(pod: Pod, namespace: str) -> Pod:
    claims = tuple(
        replace(each, claim=ClaimId(namespace, each.claim.name)) if each.claim is not None else each
        for each in pod.claims
    )
    return replace(pod, id=PodId(namespace, pod.id.name), claims=claims)
