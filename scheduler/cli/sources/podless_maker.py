"""`dovetail explain job/x` where the Job, or another object that makes pods, has none: it may be suspended."""

import argparse
import sys
from typing import TYPE_CHECKING, NamedTuple

from scheduler.cli.arguments import TABLE, WIDE, completed, refuse
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources.targets import Target

if TYPE_CHECKING:  # these take a second to import
    from scheduler.cli.sources.configuration import ConfigurationReader
    from scheduler.kube.access import ClusterAccess
    from scheduler.simulation.fitting import Fit
    from scheduler.simulation.live_cluster import ClusterObjects
    from scheduler.simulation.workloads.maker_reading import Json


class SeenCluster(NamedTuple):
    """A live cluster, its objects and configuration; `is_whole` says that the caller may read what a decision needs."""

    access: "ClusterAccess"
    objects: "ClusterObjects"
    running: "ConfigurationReader"
    is_whole: bool


def explain(options: argparse.Namespace, target: Target, cluster: SeenCluster, near: str) -> int:
    """Say why an object has no pods; `near` says which one may be meant where there is none of its name."""
    from scheduler.simulation import printing  # noqa: PLC0415 - the solver takes a second
    from scheduler.simulation.workloads import maker_reading, podless_makers  # noqa: PLC0415 - as above

    found = maker_reading.read(cluster.access, target.owner, target.namespace, target.name)
    if not found.is_served:
        return refuse(f"explain: {target} does not exist: the cluster has no {target.owner}s")
    if found.body is None and not found.forbidden:
        return refuse(f"explain: {target} does not exist{near}")
    answer = None if found.body is None else podless_makers.of_maker(str(target), found)
    if not cluster.is_whole and not (answer is not None and answer.is_suspended):  # it may have pods
        rights = ", ".join(cluster.objects.forbidden)
        return refuse(f"explain: the pods of {target} are not known without the rights to list {rights}: name a pod")
    if found.body is None or answer is None:
        why = f"whether it is suspended is not known without the right to get {', '.join(found.forbidden)}"
        return refuse(f"explain: there is no pod of {target}{near or f'; {why}'}")
    if answer.is_suspended and cluster.is_whole:
        answer = answer._replace(fit=_fit(found.body, cluster))
    if options.output in {TABLE, WIDE}:
        podless_makers.show(answer, sys.stdout)
    else:
        sys.stdout.write(printing.text("OwnerExplanation", podless_makers.document(answer), options.output))
    status = ExitStatus.NO if answer.waits else ExitStatus.OK
    return completed(status, cluster.objects.forbidden, is_configured=cluster.running.is_known)


def _fit(body: "Json", cluster: SeenCluster) -> "Fit | None":
    """Decide about the pods that an object would make now, as `dovetail fit` does; None where they are not known."""
    from scheduler.simulation import case_builder, fitting, simulator  # noqa: PLC0415 - as above
    from scheduler.simulation.manifests import documents  # noqa: PLC0415 - as above

    of_owner = documents.ManifestFiles([documents.Document("", body)])
    made = case_builder.CaseBuilder.of(cluster.objects, of_owner)
    try:
        named = fitting.scheduler_of(made)
    except fitting.SchedulerNameError:
        return None
    configured = cluster.running.chosen(named)
    serving = configured.serving(named)
    case = made.case(serving.name, made.own if serving.unserved else ())
    if not case.own or case.problems:
        return None
    record = simulator.recorded(case, serving.settings, serving.name, cluster.running.reservations(made.pods))
    answer = fitting.fit(record, case.own, None, quotas=made.quotas, says_changes=False, says_moves=False)
    return answer._replace(unserved=serving.unserved, idle=configured.idle)
