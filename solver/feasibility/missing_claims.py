"""
Reasons against a pod whose claims do not exist yet, or that does not wait for a node.

The scheduler gives them without a decision; nothing here needs the selectors, which take long to import.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from solver.domain import ClaimId, Pod, PodClaim, Reason, ReasonCode


def missing_claims(pod: Pod, is_made: Callable[[ClaimId], bool]) -> tuple[Reason, ...]:
    """
    Return the reasons of a pod of which no claim exists yet; they are known without a solve.

    Empty if there can be other reasons: for a pod with volumes or a gang, or with a claim that exists.
    """
    entries = [entry for entry in pod.claims if not entry.is_skipped]
    if pod.gang is not None or pod.volumes or pod.invalid or not_pending(pod):
        return ()
    if any(entry.claim is not None and is_made(entry.claim) for entry in entries):
        return ()
    return tuple(dict.fromkeys(late_claim(pod, entry) for entry in entries))


def with_missing_templates(pod: Pod, reasons: Sequence[Reason], templates: Collection[str]) -> tuple[Reason, ...]:
    """Name the templates that do not exist in the reasons of a pod whose claims do not exist yet."""
    there = {each.template for each in pod.claims}.difference(templates)
    late = {late_claim(pod, each): late_claim(pod, each.checked(there)) for each in pod.claims}
    return tuple(dict.fromkeys(late.get(each, each) for each in reasons))


def with_refused_claims(pod: Pod, reasons: Sequence[Reason], refusals: Mapping[str, str]) -> tuple[Reason, ...]:
    """Say in the reasons of a pod why the API server refuses the claims of templates, given the cause by template."""
    late = {
        late_claim(pod, each): late_claim(pod, replace(each, refusal=refusals[each.template]))
        for each in pod.claims
        if each.claim is None and each.template in refusals
    }
    return tuple(dict.fromkeys(late.get(each, each) for each in reasons))


def not_pending(pod: Pod) -> str:
    """Say why a pod does not wait for a node; empty if it waits."""
    if pod.node_name:
        return f"the pod is bound to node {pod.node_name}"
    if pod.scheduling_gates:
        return f"the pod is gated by {', '.join(pod.scheduling_gates)}"
    if pod.is_terminal or pod.is_deleting:
        return "the pod has ended" if pod.is_terminal else "the pod is being deleted"
    return ""


def late_claim(pod: Pod, entry: PodClaim) -> Reason:
    """Return the reason of a pod's entry whose claim, or its template, does not exist."""
    source = f"from ResourceClaimTemplate {entry.template}"
    what, status, field = f"the claim of entry {entry.entry}, {source}, does not exist yet", "", ""
    if entry.refusal:
        what = f"{entry.refusal}: the claim of entry {entry.entry}, {source}, is not created"
    if entry.lacks_template:
        what = f"ResourceClaimTemplate {entry.template} does not exist"
        field = "resourceClaimTemplateName"
    if entry.claim is not None:
        what, status = f"claim {entry.claim.name} does not exist yet", f'could not find ResourceClaim "{entry.claim}"'
        field = "" if entry.template else "resourceClaimName"
    source_of = (entry.claim, entry.template)
    index = next((at for at, each in enumerate(pod.claims) if (each.claim, each.template) == source_of), 0)
    where = f" (spec.resourceClaims[{index}].{field})" if field else ""
    return Reason(code=ReasonCode.CLAIM_MISSING, message=f"{what}; the pod waits for it{where}", status=status)
