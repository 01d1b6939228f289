"""What a user should know of a case: what is left out, and what no scheduler would handle."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from scheduler.cluster import ListedCluster
from scheduler.simulation.manifests import group_rules
from scheduler.simulation.manifests.documents import Document
from scheduler.simulation.manifests.fields import metadata, spec, subject, text
from scheduler.simulation.simulator import SimulationCase
from scheduler.simulation.workloads.pod_templates import has_ended
from solver.domain import HOSTNAME, Claim, Pod, PodId, wording

_SHOWN: Final = 6


def said_of(document: Document, message: str) -> str:
    """Return a warning about an object."""
    return f"{document.source} ({subject(document.body)}): {message}"


def no_node(*, is_in_cluster: bool) -> str:
    """Return the warning where there is no node."""
    return f"there is no Node {'in the cluster' if is_in_cluster else 'among the manifests'}: nothing can be placed"


def unmatched_groups(templates: Sequence[Document], groups: Sequence[Document]) -> Iterator[str]:
    """Warn where Workloads and PodGroups of manifests do not match."""
    sources = {id(each.body): each for each in (*templates, *groups)}
    found = group_rules.unmatched((each.body for each in templates), (each.body for each in groups))
    yield from (said_of(sources[id(body)], message) for body, message in found)


def other_schedulers(left_out: Iterable[Pod], scheduler_name: str) -> Iterator[str]:
    """Warn about waiting pods that name another scheduler, and are left out."""
    others = Counter(pod.scheduler_name for pod in left_out)
    if not others:
        return
    count = others.total()
    pods_wait = f"{count} pods without nodeName name" if count > 1 else "1 pod without nodeName names"
    other = "other schedulers" if len(others) > 1 else "another scheduler"
    yield (
        f"{pods_wait} {other} ({', '.join(sorted(others)[:_SHOWN])}) than {scheduler_name} and "
        f"{'are' if count > 1 else 'is'} left out (see --scheduler-name)"
    )


def of_pods(case: SimulationCase, scheduler_name: str) -> tuple[str, ...]:
    """Return the warnings about the pods that a plan is asked for."""
    return (*other_schedulers(case.left_out, scheduler_name), *case.preferences)


def unlisted(kinds: Sequence[str]) -> Iterator[str]:
    """Warn that new pods are admitted without what the caller may not list."""
    if kinds:
        effect = "what they add to new pods, or refuse, does not count and may change the answer"
        yield f"cannot list {', '.join(kinds)}: forbidden: {effect}"


def skipped(counts: Counter[str]) -> Iterator[str]:
    """Name the kinds that are not read."""
    names = [f"{count} × {name}" if count > 1 else name for name, count in sorted(counts.items())]
    if names:
        yield f"skipped, because they decide nothing here: {wording.shortened(names, _SHOWN)}"


def decided_anew(gone: Iterable[Pod | Claim]) -> Iterator[str]:
    """Name the running pods that manifests replace, with their claims."""
    if running := [str(each.id) for each in gone if isinstance(each, Pod) and each.node_name]:
        assumed = "what runs already is decided anew, and what it holds counts as free"
        yield f"{assumed}: {wording.shortened(running, _SHOWN)}"


def bound_pods(documents: Iterable[Document], cluster: ListedCluster) -> Iterator[str]:
    """Warn about pods with spec.nodeName: no scheduler handles them, so their claims are never allocated."""
    for document in documents:
        node, found = text(spec(document.body).get("nodeName")), metadata(document.body)
        if not node or has_ended(document.body):
            continue
        pod = cluster.pod(PodId(text(found.get("namespace")), text(found.get("name"))))
        for claim_id in pod.claim_ids if pod is not None else ():
            claim = cluster.claim(claim_id)
            if claim is None or claim.allocation is None:
                message = (
                    f"spec.nodeName: is set, so no scheduler runs for the pod and claim {claim_id.name} is never "
                    f"allocated: write nodeSelector: {{{HOSTNAME}: {node}}} instead"
                )
                yield said_of(document, message)
