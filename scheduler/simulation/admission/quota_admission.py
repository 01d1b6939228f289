"""
ResourceQuotas: which of the new pods and claims the API server would refuse, in the order in which they are made.

What is used is status.used, as the quota controller has counted it; else the objects of the manifests that exist are
counted. Quotas of other objects (services, volume claims) refuse nothing here; a warning says so.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from scheduler.change import Kind
from scheduler.resource_quotas import Quota, Usage, amounts, claim_usage
from scheduler.simulation.admission.admission_chain import exists
from scheduler.simulation.admission.pod_totals import containers, summed
from scheduler.simulation.manifests.decoding import claim_of, decoded
from scheduler.simulation.manifests.documents import Document
from scheduler.simulation.manifests.fields import Body, entries, mapping, metadata, spec, text
from scheduler.simulation.workloads.pod_templates import Owner, has_ended, key_of_workload, owner_of
from solver.domain import Claim, DeviceClass, Pod, PodId
from solver.domain.quantity import NANO, format_nano, unit_of

_EXPLICIT: Final = {
    f"{prefix}{name}": (which, name)
    for name in ("cpu", "memory")
    for prefix, which in (("", "requests"), ("requests.", "requests"), ("limits.", "limits"))
}
"""Resources that each container must name where a quota limits them: requests or limits, and of what."""
_PODS: Final = ("pods", "count/pods")
_OF_VOLUME_CLAIMS: Final = ("requests.storage", "persistentvolumeclaims", "count/persistentvolumeclaims")


def pod_usage(pod: Body) -> Usage:
    """Return what a pod uses (podComputeUsageHelper); one that has ended is only counted as an object."""
    if has_ended(pod):
        return {"count/pods": NANO}
    usage = dict.fromkeys(_PODS, NANO)
    for name, nano in summed(pod, "requests", with_overhead=True).items():
        usage[f"requests.{name}"] = nano
        if "/" not in name:
            usage[name] = nano
    limits = summed(pod, "limits", with_overhead=True)
    return usage | {f"limits.{name}": nano for name, nano in limits.items() if "/" not in name}


def usage_of_running(pod: Pod) -> Usage:
    """Return what is known to be used by a pod of a cluster: no limits, which decide nothing elsewhere."""
    usage = dict.fromkeys(_PODS, NANO)
    for name, units in pod.requests:
        usage[f"requests.{name}"] = units * unit_of(name)
        if "/" not in name:
            usage[name] = units * unit_of(name)
    return usage


class CopyLimit(NamedTuple):
    """How many copies of some pods the quotas admit, and why they refuse one more."""

    most: int
    refusal: str


class QuotaLedger:
    """
    The quotas of all namespaces, with what new objects add.

    `gone` are pods and claims of the cluster that leave it. Where the objects are those of a cluster (not `admits`),
    they are counted, and none is refused. The ledger keeps what each pod of the manifests uses, with the claims that
    are made for it or for its PodGroup.
    """

    def __init__(
        self, quotas: Iterable[Document], classes: Iterable[DeviceClass], *, gone: Iterable[Pod | Claim], admits: bool
    ) -> None:
        """Read the quotas."""
        self._extended = {each.name: each.extended_resource_name for each in classes if each.extended_resource_name}
        self._admits = admits
        self._of = defaultdict[str, list[_Counted]](list)
        """The quotas by namespace."""
        for counted in (_Counted(each.body) for each in quotas):
            self._of[counted.namespace].append(counted)
        self._charges = defaultdict[Owner, list[_Charge]](list)
        self._unnamed: dict[Owner, str] = {}
        for each in gone:
            usage = usage_of_running(each) if isinstance(each, Pod) else self._usage_of(each)
            for counted in self._of.get(each.id.namespace, ()):
                counted.give_back(usage)

    def add_pod(self, pod: Body) -> str:
        """Count a pod; say why the API server refuses it, if it is new, and count nothing then."""
        quotas = [each for each in self._of.get(text(metadata(pod).get("namespace")), ()) if each.covers(pod)]
        if not quotas:
            return ""
        owner, usage = key_of_workload(pod), pod_usage(pod)
        if exists(pod) or not self._admits:
            self._charges[owner] += _count(quotas, usage)
            return ""
        if unnamed := next((found for each in quotas if (found := each.unnamed(pod))), ""):
            self._unnamed[owner] = unnamed
            return unnamed
        refusal, charges = _charged(quotas, usage)
        self._charges[owner] += charges
        return refusal

    def add_claim(self, document: Document, *, is_new: bool = False, owner: Body | None = None) -> str:
        """Count a claim, as `add_pod`; one that cannot be read is not counted. One that is made for `owner` is new."""
        quotas = [each for each in self._of.get(text(metadata(document.body).get("namespace")), ()) if not each.scopes]
        if not quotas:
            return ""
        change, _ = decoded(Kind.CLAIMS, document)
        claim = change.value if change is not None else None
        if not isinstance(claim, Claim):
            return ""
        usage, refusal = self._usage_of(claim), ""
        is_new |= owner is not None
        is_new |= "creationTimestamp" not in metadata(document.body) and claim.allocation is None
        if is_new and self._admits:
            refusal, charges = _charged(quotas, usage)
        else:
            charges = _count(quotas, usage)
        if (maker := owner_of(document.body) if owner is None else key_of_workload(owner)) is not None:
            self._charges[maker] += charges
        return refusal

    def copies(self, own: Iterable[Pod], unit: Iterable[Pod]) -> CopyLimit | None:
        """
        Return how many copies of `unit` are admitted instead of the pods `own` of the manifests; None is any number.

        A copy has the claims that are made for its pods and PodGroups; claims that pods name are there once.
        """
        owners = _owners(unit)
        if unnamed := next((self._unnamed[each] for each in owners if each in self._unnamed), ""):
            return CopyLimit(0, unnamed)
        back, asked = defaultdict[_Counted, Counter[str]](Counter), defaultdict[_Counted, Counter[str]](Counter)
        for each in (each for owner in _owners(own) for each in self._charges.get(owner, ()) if each.is_counted):
            back[each.quota].subtract(each.usage)
        for each in (each for owner in owners for each in self._charges.get(owner, ())):
            asked[each.quota].update(each.usage)
        limits = (_limit(counted.quota.with_usage(back[counted]), usage) for counted, usage in asked.items())
        return min((each for each in limits if each is not None), key=lambda each: each.most, default=None)

    def warnings(self, volume_claims: Iterable[Body]) -> Iterator[str]:
        """Name the quotas that may refuse volume claims, which are not counted."""
        for namespace in sorted({text(metadata(each).get("namespace")) for each in volume_claims}):
            for each in self._of.get(namespace, ()):
                found = sorted(name for name in each.quota.hard if name.endswith(_OF_VOLUME_CLAIMS))
                if found:
                    yield f"ResourceQuota {namespace}/{each.quota.name}: {', '.join(found)}: is not counted"

    def write_used(self) -> None:
        """Write what is used into the status of the quotas."""
        for each in itertools.chain(*self._of.values()):
            used = {name: format_nano(each.quota.used.get(name, 0)) for name in each.quota.hard}
            each.body["status"] = {**mapping(each.body.get("status")), "used": used}

    def _usage_of(self, claim: Claim) -> Usage:
        return claim_usage(claim.requests, self._extended)


def refused_claims(
    pods: Iterable[Pod], templates: Mapping[tuple[str, str], Document], quotas: QuotaLedger
) -> dict[tuple[PodId, str], str]:
    """Say why claims of the pods of a cluster do not exist; those for which there is room count from then on."""
    refusals = {}
    for pod in pods:
        for each in pod.claims:
            template = templates.get((pod.id.namespace, each.template))
            if each.claim is None and template is not None and not each.is_skipped:
                refusals[pod.id, each.entry] = quotas.add_claim(claim_of(template), is_new=True)
    return {key: refusal for key, refusal in refusals.items() if refusal}


class _Counted:
    """A quota as its object has it, and what is counted in it."""

    def __init__(self, body: Body) -> None:
        status = mapping(body.get("status"))
        self.body: Final = body
        self.namespace: Final = text(metadata(body).get("namespace"))
        self.scopes: Final = _scopes(body)
        self.has_status: Final = "used" in status
        self.quota = Quota(
            name=text(metadata(body).get("name")),
            hard=amounts(status.get("hard") or spec(body).get("hard")),
            used=amounts(status.get("used")),
        )

    def covers(self, pod: Body) -> bool:
        """Whether the quota's scopes select a pod."""
        return all(_matches(each, pod) for each in self.scopes)

    def give_back(self, usage: Usage) -> None:
        less = {name: -min(nano, self.quota.used.get(name, 0)) for name, nano in usage.items()}
        self.quota = self.quota.with_usage(less)

    def unnamed(self, pod: Body) -> str:
        """Say which amount a container does not name although the quota limits it; pod-level resources do as well."""
        for name in sorted(set(self.quota.hard) & set(_EXPLICIT)) if not spec(pod).get("resources") else ():
            which, resource = _EXPLICIT[name]
            for part in containers(pod):
                if resource not in mapping(mapping(part.body.get("resources")).get(which)):
                    where = f"{part.at}.resources.{which}[{resource}]"
                    return f"quota {self.quota.name} of the namespace limits {name}, and {where} is missing"
        return ""


class _Charge(NamedTuple):
    """What an object uses of a quota, and whether it is counted there."""

    quota: _Counted
    usage: Usage
    is_counted: bool


def _count(quotas: Iterable[_Counted], usage: Usage) -> list[_Charge]:
    """Count an object that exists, in the quotas whose status does not count it."""
    charges = [_Charge(each, usage, not each.has_status) for each in quotas]
    for each in charges:
        if each.is_counted:
            each.quota.quota = each.quota.quota.with_usage(usage)
    return charges


def _charged(quotas: Iterable[_Counted], usage: Usage) -> tuple[str, list[_Charge]]:
    """Count a new object in all of the quotas, or say which one refuses it."""
    found = list(quotas)
    refusal = next((refusal for each in found if (refusal := each.quota.refusal(usage))), "")
    for each in found if not refusal else ():
        each.quota = each.quota.with_usage(usage)
    return refusal, [_Charge(each, usage, not refusal) for each in found]


def _owners(pods: Iterable[Pod]) -> frozenset[Owner]:
    """Return pods and their PodGroups, which claims are made for."""
    found = list(pods)
    groups = {("PodGroup", pod.id.namespace, pod.pod_group) for pod in found if pod.pod_group}
    return frozenset({("Pod", *pod.id) for pod in found} | groups)


def _limit(quota: Quota, usage: Usage) -> CopyLimit | None:
    """Return how often a quota admits some usage, and why not once more."""
    most = quota.room_for(usage)
    if most is None:
        return None
    full = quota.with_usage({name: most * nano for name, nano in usage.items()})
    return CopyLimit(most, full.refusal(usage))


def _scopes(quota: Body) -> list[Body]:
    """Return the scopes of a quota as selectors."""
    found = [{"scopeName": each, "operator": "Exists"} for each in spec(quota).get("scopes") or ()]
    return found + [each for _, each in entries(mapping(spec(quota).get("scopeSelector")).get("matchExpressions"))]


def _matches(scope: Body, pod: Body) -> bool:
    terms = spec(pod)
    match scope.get("scopeName"):
        case "Terminating":
            return terms.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return terms.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return _is_best_effort(pod)
        case "NotBestEffort":
            return not _is_best_effort(pod)
        case "PriorityClass":
            return _selects(scope, text(terms.get("priorityClassName")))
        case "CrossNamespacePodAffinity":
            return any("namespaces" in each or "namespaceSelector" in each for each in _affinity_terms(terms))
    return False


def _selects(scope: Body, name: str) -> bool:
    values = scope.get("values") or ()
    match scope.get("operator"):
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return name in values
    return name not in values


def _is_best_effort(pod: Body) -> bool:
    held = [mapping(part.body.get("resources")) for part in containers(pod)] + [mapping(spec(pod).get("resources"))]
    found = [amounts(each.get(which)) for each in held for which in ("requests", "limits")]
    return not any(each.get(name) for each in found for name in ("cpu", "memory"))


def _affinity_terms(pod: Body) -> Iterator[Body]:
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = mapping(mapping(pod.get("affinity")).get(kind))
        yield from (each for _, each in entries(rules.get("requiredDuringSchedulingIgnoredDuringExecution")))
        for _, each in entries(rules.get("preferredDuringSchedulingIgnoredDuringExecution")):
            yield mapping(each.get("podAffinityTerm"))
