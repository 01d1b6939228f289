"""What a pod says of nodes and of other pods, changed in one thing: what lets it in somewhere, each solved."""

from collections.abc import Iterator
from typing import Final

import msgspec

from solver.account.changes import Change
from solver.account.trial import Case, Trials
from solver.domain import Pod, Taint, Toleration
from solver.feasibility import nearness, taints
from solver.problem.problem import Problem

_MOST_TAINTS: Final = 8
"""Kinds of taints of nodes that are looked at."""

Try = tuple[int, str, Pod]
"""The effort, what is told (`{node}` is the node found), and the changed pod."""


def changes(case: Case, problem: Problem, trials: Trials) -> Iterator[tuple[Change, str]]:
    """
    Give the changes of the pod's rules that let it in, each with a node on which it then fits.

    The whole cluster is looked at for each. All rules about nodes' labels are dropped only where no single one helps.
    """
    has_label = False
    for effort, message, pod in _of_nodes(case.pod, problem):
        found = _solved(case, pod, trials, effort, message)
        if found is not None:
            has_label |= pod.tolerations == case.pod.tolerations
            yield found
    if not has_label and (case.pod.node_selector or case.pod.required_affinity is not None):
        pod = msgspec.structs.replace(case.pod, node_selector=(), required_affinity=None)
        found = _solved(case, pod, trials, 7, "without its nodeSelector and node affinity")
        if found is not None:
            yield found
    for effort, message, pod in _of_pods(case.pod):
        found = _solved(case, pod, trials, effort, message)
        if found is not None:
            yield found


def _solved(case: Case, pod: Pod, trials: Trials, effort: int, message: str) -> tuple[Change, str] | None:
    made = case._replace(pod=pod)
    node = trials.place(made)
    return (Change(effort, message.replace("{node}", node), made), node) if node else None


def _of_nodes(pod: Pod, problem: Problem) -> Iterator[Try]:
    """Give what can be changed of a pod's tolerations and node selectors, one thing at a time."""
    nodes = problem.inventory.nodes
    against = (taints.first_untolerated(each.taints, pod.tolerations) for each in nodes)
    for taint in list(dict.fromkeys(each for each in against if each is not None))[:_MOST_TAINTS]:
        yield 2, f"tolerate taint {taint.key} of the node", _tolerating(pod, taint)
    if any(each.is_unschedulable for each in nodes):
        yield 3, "uncordon node {node}", _tolerating(pod, taints.UNSCHEDULABLE)
    for key, value in pod.node_selector:
        rest = tuple(pair for pair in pod.node_selector if pair[0] != key)
        meant = nearness.nearest(value, (labels[key] for labels in problem.inventory.labels if key in labels))
        if meant and meant != value:
            fixed = msgspec.structs.replace(pod, node_selector=tuple(sorted((*rest, (key, meant)))))
            yield 2, f"{key}={meant} instead of {key}={value} in its nodeSelector", fixed
        yield 4, f"without {key}={value} in its nodeSelector", msgspec.structs.replace(pod, node_selector=rest)
    if pod.required_affinity is not None and pod.node_selector:
        yield 5, "without its required node affinity", msgspec.structs.replace(pod, required_affinity=None)


def _of_pods(pod: Pod) -> Iterator[Try]:
    """Give what can be dropped of a pod's rules about other pods."""
    if pod.affinity:
        yield 30, "without its required pod affinity", msgspec.structs.replace(pod, affinity=())
    if pod.anti_affinity:
        yield 31, "without its required pod anti-affinity", msgspec.structs.replace(pod, anti_affinity=())
    if pod.spread:
        yield 32, "without its topology spread constraints", msgspec.structs.replace(pod, spread=())
    if pod.host_ports:
        yield 33, "without its host ports", msgspec.structs.replace(pod, host_ports=())


def _tolerating(pod: Pod, taint: Taint) -> Pod:
    added = Toleration(key=taint.key, operator="Exists", effect=taint.effect)
    return msgspec.structs.replace(pod, tolerations=(*pod.tolerations, added))
