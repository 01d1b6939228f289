"""Whom required pod affinity is about, where nobody is there: no such pod runs, or no node has the topology's label."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from solver.domain import LabelRequirement, LabelSelectorOperator, Pod, PodTerm, Reason, ReasonCode
from solver.explain.never import Never
from solver.feasibility import nearness
from solver.problem.neighbours.audience import Audiences, Labels, of_term
from solver.problem.problem import PodClass


@dataclass(slots=True, eq=False)
class Company:
    """Looks for the pods that terms of one problem are about; running pods are collected once, if asked for."""

    never: Never
    _running: dict[str, set[Labels]] | None = None
    """By namespace the labels of running pods."""
    _audiences: Audiences | None = None
    _told: dict[tuple[PodTerm, str], str] = field(default_factory=dict)

    def reasons(self, pod_class: PodClass) -> Iterator[Reason]:
        """Say of each required term of a pod what it misses, apart from the pod itself and its companions."""
        pod = self.never.problem.pod(pod_class.members[0])
        for term in pod.affinity:
            if term.selector is None or self._is_met(term, pod.id.namespace, pod.labels):
                continue
            key = (term, pod.id.namespace)
            if key not in self._told:
                self._told[key] = self._missing(term, pod)
            if self._told[key]:
                message = f"pod affinity {written(term)}: {self._told[key]}"
                yield Reason(code=ReasonCode.POD_AFFINITY, message=message)

    def _missing(self, term: PodTerm, pod: Pod) -> str:
        if term.topology_key not in self.never.labels():
            return self.never.instead(term.topology_key, ())
        running = self._of_running()
        if any(self._is_met(term, namespace, labels) for namespace, every in running.items() for labels in every):
            return ""
        batch = self.never.problem.batch.pods
        waiting = [each.id for each in batch if self._is_met(term, each.id.namespace, each.labels)]
        if waiting:
            own = sorted(each.name for each in waiting if each.namespace == pod.id.namespace)
            return f"such pods wait themselves{f' ({nearness.listed(own)})' if own else ''}"
        is_home = term.namespaces == (pod.id.namespace,) and term.namespace_selector is None
        return self._instead(term, pod.id.namespace) if is_home else "no such pod runs in the namespaces it names"

    def _instead(self, term: PodTerm, namespace: str) -> str:
        """Name the label that no pod of a namespace has; pods of other namespaces are nobody's business."""
        none = f"no such pod runs in namespace {namespace}"
        known: defaultdict[str, set[str]] = defaultdict(set)
        for key, value in (pair for labels in self._of_running().get(namespace, ()) for pair in labels):
            known[key].add(value)
        for each in term.selector.requirements if term.selector is not None else ():
            if each.operator not in {LabelSelectorOperator.IN, LabelSelectorOperator.EXISTS}:
                continue
            if each.key not in known:
                close = nearness.nearest(each.key, known)
                return f"{none}, none has a label {each.key}" + (f": did you mean {close}?" if close else "")
            if each.values and known[each.key].isdisjoint(each.values):
                return f"{none}: {nearness.suggestion(each.values[0], known[each.key], what='value')}"
        return none

    def _is_met(self, term: PodTerm, namespace: str, labels: Labels) -> bool:
        selector = term.selector
        if self._audiences is None:
            self._audiences = Audiences({each.name: each.labels for each in self.never.problem.snapshot.namespaces})
        return (
            selector is not None
            and self._audiences.includes(of_term(term), namespace)
            and selector.matches(dict(labels))
        )

    def _of_running(self) -> dict[str, set[Labels]]:
        if self._running is None:
            found: defaultdict[str, set[Labels]] = defaultdict(set)
            for each in self.never.problem.snapshot.pods:
                if each.node_name:
                    found[each.id.namespace].add(each.labels)
            self._running = dict(found)
        return self._running


def written(term: PodTerm) -> str:
    """Write whom a term is about as kubectl takes selectors: `app=web,tier in (a, b),!old`."""
    return ",".join(map(_written, term.selector.requirements)) if term.selector is not None else ""


def _written(each: LabelRequirement) -> str:
    match each.operator:
        case LabelSelectorOperator.IN if len(each.values) == 1:
            return f"{each.key}={each.values[0]}"
        case LabelSelectorOperator.IN | LabelSelectorOperator.NOT_IN:
            word = "in" if each.operator == LabelSelectorOperator.IN else "notin"
            return f"{each.key} {word} ({', '.join(each.values)})"
        case LabelSelectorOperator.EXISTS:
            return each.key
        case _:
            return f"!{each.key}"
