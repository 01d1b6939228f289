"""Why running pods of a lower priority are not evicted, in words, for a preemptor that finds no victims."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, Self

from solver.domain import FINALIZER, Pod, PodId, PreemptionRules, Protection, Reason, ReasonCode, Snapshot, wording
from solver.preemption.pdb_index import PdbIndex
from solver.preemption.victims import holders_of_devices, ran_seconds, victim_priority

_SHOWN: Final = 2


class _KeptPod(NamedTuple):
    """A pod with the priority that it has as a victim, and its position in the cluster."""

    priority: int
    position: int
    id: PodId


class _PodsOfCause(NamedTuple):
    """Pods that are kept for one cause: their priorities in order, and the first position up to each of these."""

    priorities: Sequence[int]
    earliest: Sequence[int]
    by_namespace: dict[str, list[_KeptPod]]

    @classmethod
    def of(cls, pods: Sequence[_KeptPod]) -> Self:
        """Index some pods, which are given in the order of the cluster."""
        by_namespace = defaultdict[str, list[_KeptPod]](list)
        for pod in pods:
            by_namespace[pod.id.namespace].append(pod)
        ordered = sorted(pods)
        earliest = accumulate((pod.position for pod in ordered), min)
        return cls([pod.priority for pod in ordered], list(earliest), by_namespace)


class KeptPods:
    """
    Says what keeps pods of a lower priority to all preemptors of a decision; `highest` is their highest priority.

    The running pods are read once for each of few kinds of preemptors: the protection that binds them, and whether they
    ask for devices. A preemptor's namespace only decides which pods are named; those of others are counted.
    """

    def __init__(
        self, snapshot: Snapshot, node_count: int, rules: PreemptionRules, pdbs: PdbIndex, *, highest: int
    ) -> None:
        self._snapshot: Final = snapshot
        self._node_count: Final = node_count
        self._rules: Final = rules
        self._pdbs: Final = pdbs
        self._highest: Final = highest
        self._by_kind: Final[dict[tuple[Protection, bool], dict[str, _PodsOfCause]]] = {}
        self._reasons: Final[dict[tuple[str, int, bool], Reason]] = {}

    def no_victims(self, preemptor: Pod) -> Reason:
        """Say in kube-scheduler's words that no evictions help, and then why pods of a lower priority are kept."""
        key = preemptor.id.namespace, preemptor.priority, bool(preemptor.claim_ids)
        if key not in self._reasons:
            count = self._node_count
            message = f"preemption: 0/{count} nodes are available: {count} No preemption victims found for incoming pod"
            causes = "; ".join(self._causes(preemptor))
            message = f"{message} ({causes})" if causes else message
            self._reasons[key] = Reason(code=ReasonCode.NO_VICTIMS, message=message)
        return self._reasons[key]

    def _causes(self, preemptor: Pod) -> Iterator[str]:
        """Return each cause with the pods of a lower priority, in the order of the cluster; none if there are none."""
        namespace, priority = preemptor.id.namespace, preemptor.priority
        kind = self._rules.binding(priority), bool(preemptor.claim_ids)
        if kind not in self._by_kind:
            found = defaultdict[str, list[_KeptPod]](list)
            for pod, cause in self._kept(*kind):
                found[cause].append(pod)
            self._by_kind[kind] = {cause: _PodsOfCause.of(pods) for cause, pods in found.items()}
        below = []
        for cause, pods in self._by_kind[kind].items():
            count = bisect_left(pods.priorities, priority)
            if count:
                below.append((pods.earliest[count - 1], cause, count, pods.by_namespace.get(namespace, ())))
        for _, cause, count, own in sorted(below, key=lambda each: each[0]):
            named = [pod.id for pod in own if pod.priority < priority]
            yield f"{wording.own_and_others(named, count - len(named), _SHOWN)} {cause}"

    def _kept(self, protection: Protection, asks_for_devices: bool) -> Iterator[tuple[_KeptPod, str]]:  # noqa: FBT001 - of a kind
        snapshot, rules = self._snapshot, self._rules
        gangs = {each.id: each for each in snapshot.gangs}
        holders = holders_of_devices(snapshot)
        unfreed = {
            each.uid
            for claim in snapshot.claims
            if claim.allocation is not None and FINALIZER not in claim.finalizers
            for each in claim.reserved_for
        }
        for position, pod in enumerate(snapshot.pods):
            is_leaving = pod.is_deleting or pod.is_terminal or not pod.node_name
            priority = victim_priority(pod, gangs)
            if is_leaving or priority >= self._highest:
                continue
            kept = _KeptPod(priority, position, pod.id)
            over = self._pdbs.over(pod)
            is_refused = len(over) > 1 or any(snapshot.budgets[each].allowed <= 0 for each in over)
            holds = pod.uid in holders
            if pod.scheduler_name not in rules.scheduler_names:
                yield kept, f"placed by scheduler {wording.quoted(pod.scheduler_name, 64)}"
            elif protection.annotation and not pod.is_preemptible:
                yield kept, 'kept by dovetail.dev/preemptible: "false"'
            elif protection.budgets and is_refused:
                yield kept, "kept by a PodDisruptionBudget"
            elif protection.minimum_run and holds and ran_seconds(pod, rules) < rules.minimum_run_seconds:
                yield kept, f"kept, having run for less than {rules.minimum_run_seconds} s (minimumRunSeconds)"
            elif holds and not rules.frees_devices and asks_for_devices:
                yield kept, "kept with their devices: preemption.devices is off"
            elif rules.frees_devices and pod.uid in unfreed:
                yield kept, f"kept, for their claims lack the finalizer {FINALIZER}: their devices would not be freed"
            else:
                yield kept, "could go, which is not enough"
