"""Why running pods of a lower priority are not evicted, in words, for a preemptor that finds no victims."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from solver.domain import FINALIZER, Pod, PodId, PreemptionRules, Reason, ReasonCode, Snapshot, wording
from solver.preemption.pdb_index import PdbIndex
from solver.preemption.victims import holders_of_devices, ran_seconds, victim_priority

_SHOWN: Final = 2


def no_victims(node_count: int, causes: str = "") -> Reason:
    """Say in kube-scheduler's words that no evictions help, and then why pods of a lower priority are kept."""
    message = (
        f"preemption: 0/{node_count} nodes are available: {node_count} No preemption victims found for incoming pod"
    )
    return Reason(code=ReasonCode.NO_VICTIMS, message=f"{message} ({causes})" if causes else message)


def causes(snapshot: Snapshot, preemptor: Pod, rules: PreemptionRules, pdbs: PdbIndex) -> str:
    """
    Say by cause which pods of a lower priority are kept; pods of other namespaces are counted.

    Empty if there are none of a lower priority.
    """
    found: defaultdict[str, list[PodId]] = defaultdict(list)
    for pod, cause in _kept(snapshot, preemptor, rules, pdbs):
        found[cause].append(pod.id)
    reader = preemptor.id.namespace
    parts = [f"{wording.several(pods, reader, _SHOWN)} {cause}" for cause, pods in found.items()]
    return "; ".join(parts)


def _kept(snapshot: Snapshot, preemptor: Pod, rules: PreemptionRules, pdbs: PdbIndex) -> Iterator[tuple[Pod, str]]:
    gangs = {each.id: each for each in snapshot.gangs}
    holders = holders_of_devices(snapshot)
    protection = rules.binding(preemptor.priority)
    unfreed = {
        each.uid
        for claim in snapshot.claims
        if claim.allocation is not None and FINALIZER not in claim.finalizers
        for each in claim.reserved_for
    }
    for pod in snapshot.pods:
        is_leaving = pod.is_deleting or pod.is_terminal or not pod.node_name
        if is_leaving or victim_priority(pod, gangs) >= preemptor.priority:
            continue
        over = pdbs.over(pod)
        is_refused = len(over) > 1 or any(snapshot.budgets[each].allowed <= 0 for each in over)
        holds = pod.uid in holders
        if pod.scheduler_name not in rules.scheduler_names:
            yield pod, f"placed by scheduler {wording.quoted(pod.scheduler_name, 64)}"
        elif protection.annotation and not pod.is_preemptible:
            yield pod, 'kept by dovetail.dev/preemptible: "false"'
        elif protection.budgets and is_refused:
            yield pod, "kept by a PodDisruptionBudget"
        elif protection.minimum_run and holds and ran_seconds(pod, rules) < rules.minimum_run_seconds:
            yield pod, f"kept until run for {rules.minimum_run_seconds} s (minimumRunSeconds)"
        elif holds and not rules.frees_devices and preemptor.claim_ids:
            yield pod, "kept with their devices: preemption.devices is off"
        elif rules.frees_devices and pod.uid in unfreed:
            yield pod, f"kept, for their claims lack the finalizer {FINALIZER}: their devices would not be freed"
        else:
            yield pod, "could go, which is not enough"
