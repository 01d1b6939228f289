"""
One question "would this fit?" in a process of its own: `python -m scheduler.page.fit_process`.

It reads a question from standard input, lists the cluster, decides as `dovetail fit` does, and writes the answer to
standard output. Whatever a manifest holds, the server of the page goes on: the kernel ends this process at its limits
of time and memory, and it ends with the server.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from scheduler.kube.access import ClusterAccess
from scheduler.kube.errors import Forbidden, KubeError
from scheduler.page import fit_answer
from scheduler.page.fit_answer import FitAnswer, FitVisibility
from scheduler.page.fit_questions import SECONDS, FitFailure, FitQuestion
from scheduler.settings import Settings, scheduler_names
from scheduler.simulation import case_warnings, defaults, fitting, live_cluster, simulator
from scheduler.simulation.adding import coming_nodes, karpenter_objects, live_shapes, node_additions, shapes_file
from scheduler.simulation.adding.karpenter_objects import KarpenterObjects
from scheduler.simulation.adding.node_additions import OfferedNodes
from scheduler.simulation.admission.quota_admission import QuotaLedger
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.fitting import FileInPlace
from scheduler.simulation.live_cluster import ClusterObjects
from scheduler.simulation.manifests import documents
from scheduler.simulation.manifests.documents import ManifestFiles, ManifestProblem
from scheduler.simulation.manifests.fields import metadata, subject, text
from scheduler.simulation.simulator import SimulationCase
from scheduler.status.leader_lease import ToldReservations, told_reservations
from scheduler.visibility import VisibleNamespaces
from scheduler.worker import child, frames
from solver import solve_warm_up_case
from solver.domain import Pod, PodAffinityTerm

_HAS_LIMITS: Final = sys.platform == "linux"
"""On a person's machine of another kind only the server's own limit of time holds."""
_NAME: Final = "manifest"
"""What errors call the text."""


def main() -> None:
    """Answer the question on standard input. The argument is the process id of the parent."""
    if _HAS_LIMITS:
        child.end_with(int(sys.argv[1]))
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing but the answer is written there
    try:
        solve_warm_up_case()  # before the memory is limited: what every question maps does not count
        question = msgspec.json.decode(sys.stdin.buffer.read(), type=FitQuestion)
        found = _limited(question)
    except MemoryError:
        os._exit(child.NO_MEMORY)
    with os.fdopen(answers, "wb") as to:
        to.write(msgspec.json.encode(found))


def _limited(question: FitQuestion) -> FitAnswer | FitFailure:
    solver = question.source.settings.solver
    try:
        limits = frames.IsolationLimits(
            end_seconds=SECONDS, cpu_seconds=SECONDS, memory_limit_mib=solver.memory_limit_mib
        )
        if _HAS_LIMITS:
            child.restrict(limits, solver.workers)
        return answer(question)
    except KubeError as error:
        return FitFailure(str(error))


def answer(question: FitQuestion) -> FitAnswer | FitFailure:
    """Decide. Raise `KubeError`."""
    is_queue = question.adds_nodes and not question.content.strip()
    reading = ManifestFiles() if is_queue else documents.parsed(question.content, _NAME)
    asked = defaults.in_namespace(reading, question.namespace, is_given=False)
    unseen = tuple(_unseen(asked, question.namespaces))
    if unseen or not (asked.documents or is_queue):
        return fit_answer.wrong((*asked.problems, *unseen))
    read = _read(question)
    if isinstance(read, FitFailure):
        return read
    cluster = read.cluster
    made = CaseBuilder.of(_visible(cluster, question.namespaces), asked, admits=not is_queue)
    try:
        named = "" if is_queue else fitting.scheduler_of(made)
    except fitting.SchedulerNameError as error:
        return _wrong_scheduler(made, f"{error}: ask about those of one scheduler")
    configured, known = question.source.settings, question.source.scheduler_names
    known = tuple(sorted(configured.scheduler_names)) if known is None else known
    name, settings, unserved = scheduler_names.serving(configured, named, known, is_certain=question.source.is_certain)
    case = made.case(name, made.own if unserved else ())
    if is_queue:
        case = replace(case, own=frozenset(pod.id for pod in case.batch.pods))
    reaching = tuple(_reaching(case, question.namespaces))
    if reaching or not (case.own or is_queue):
        none = ManifestProblem(_NAME, "", "", "no pod in it waits for a scheduler: write a Pod, a Job or a Deployment")
        return fit_answer.wrong((*case.problems, *reaching, *(() if case.own or case.problems else (none,))))
    record = simulator.recorded(case, settings, name, read.told.of(made.pods))
    file = fitting.in_place(record, case.own, made.gone)
    found = _decided(question, case, settings, file, beside=_Beside(made.quotas, read.karpenter, unserved))
    anew = set(case_warnings.decided_anew(made.gone)) if file.running else set()
    warnings = (
        *(each for each in case.warnings if each not in anew),
        *case_warnings.of_pods(case, name),
        *([read.told.problem] if read.told.problem else []),
        *found.warnings,
    )
    return msgspec.structs.replace(
        found,
        problems=fit_answer.listed(case.problems),
        warnings=warnings[: fit_answer.MOST_ROWS],
        forbidden=cluster.forbidden,
    )


def _wrong_scheduler(made: CaseBuilder, message: str) -> FitAnswer:
    return fit_answer.wrong((*made.problems, ManifestProblem(_NAME, "", "spec.schedulerName", message)))


class _Beside(NamedTuple):
    """What an answer needs beside the case: quotas, Karpenter's objects, and what is said of the schedulerName."""

    quotas: QuotaLedger
    karpenter: KarpenterObjects
    unserved: str


def _decided(
    question: FitQuestion, case: SimulationCase, settings: Settings, file: FileInPlace, *, beside: _Beside
) -> FitAnswer:
    nodes = None if question.sees_nodes else {each.scope.node_name for each in case.snapshot.slices}
    seen = FitVisibility(question.namespaces, nodes)
    record = file.asked
    if not question.sees_nodes:
        policy = msgspec.structs.replace(record.policy, tells_inventory=False)
        record = msgspec.structs.replace(record, policy=policy)
    if question.adds_nodes:
        unfinished = coming_nodes.names(beside.karpenter.claims)
        live = live_shapes.live_shapes(case.snapshot, settings.devices.group_labels, unfinished)
        shapes = live_shapes.pool_shapes(case.snapshot, live, beside.karpenter)
        offered = OfferedNodes(
            shapes_file.PricedShapes(shapes.shapes),
            shapes.limits,
            shapes.unknown,
            beside.karpenter.claims,
            (*shapes.shapes, *live),
        )
        found = node_additions.find(record, file.own, offered)._replace(unserved=beside.unserved)
        return fit_answer.answer_with_nodes(found, seen)
    most = None if question.wanted is None else min(fitting.MOST_COPIES, question.wanted or fitting.MOST_COPIES)
    fit = fitting.fit(record, file.own, most, running=file.running, quotas=beside.quotas, says_changes=seen.everything)
    return fit_answer.answer_of(fit._replace(unserved=beside.unserved), question.wanted or 1, seen)


class _Read(NamedTuple):
    """The cluster, Karpenter's objects where nodes to add are asked for, and which nodes are reserved."""

    cluster: ClusterObjects
    karpenter: KarpenterObjects
    told: ToldReservations = ToldReservations()


def _read(question: FitQuestion) -> _Read | FitFailure:
    """Read what an answer needs. Raise `KubeError`."""
    source = question.source
    if source.files:
        reading = documents.read([Path(each) for each in source.files])
        karpenter = karpenter_objects.separated(reading)
        if reading.problems:
            return FitFailure("; ".join(map(str, reading.problems)))
        return _Read(CaseBuilder.as_cluster(reading), karpenter)
    access = ClusterAccess(Path(source.kubeconfig) if source.kubeconfig else None, source.context)
    cluster = live_cluster.fetch(access)
    told = told_reservations(access, source.scheduler_namespace, source.settings.leader_election)
    try:
        return _Read(cluster, karpenter_objects.listed(access) if question.adds_nodes else KarpenterObjects(), told)
    except Forbidden:
        return _Read(cluster, KarpenterObjects(), told)


def _unseen(asked: ManifestFiles, namespaces: VisibleNamespaces) -> Iterator[ManifestProblem]:
    """
    Report the objects of namespaces that the caller does not see.

    A manifest replaces the object of its name, and an answer says what that one has: claims are allocated on nodes, a
    workload has pods.
    """
    for document in asked.documents:
        namespace = text(metadata(document.body).get("namespace"))
        if namespace and namespace not in namespaces:
            message = f"you may not list pods and resourceclaims in {namespace}: write a namespace in which you may"
            yield ManifestProblem(document.source, subject(document.body), "metadata.namespace", message)


def _visible(found: ClusterObjects, namespaces: VisibleNamespaces) -> ClusterObjects:
    """Leave out the documents of other namespaces, and what reading the cluster has said of any object."""
    if namespaces.everything:
        return found
    seen = tuple(
        each
        for each in found.documents
        if not (namespace := text(metadata(each.body).get("namespace"))) or namespace in namespaces
    )
    return replace(found, documents=seen, warnings=())


def _reaching(case: SimulationCase, namespaces: VisibleNamespaces) -> Iterator[ManifestProblem]:
    """Report rules about pods of namespaces that the caller does not see: an answer would say whether there are any."""
    for pod in case.batch.pods:
        if pod.id in case.own and any(_reaches(term, namespaces) for term in _terms(pod)):
            message = "names pods of namespaces in which you may not list pods: leave these terms out"
            yield ManifestProblem(_NAME, f"Pod {pod.id}", "spec.affinity", message)


def _terms(pod: Pod) -> Iterator[PodAffinityTerm]:
    yield from (*pod.affinity, *pod.anti_affinity)
    yield from (each.term for each in (*pod.preferred_affinity, *pod.preferred_anti_affinity))


def _reaches(term: PodAffinityTerm, namespaces: VisibleNamespaces) -> bool:
    if namespaces.everything:
        return False
    return term.namespace_selector is not None or any(each not in namespaces for each in term.namespaces)


if __name__ == "__main__":
    main()
