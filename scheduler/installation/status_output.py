"""Prints how an installation is: one screen on a terminal, a document for scripts."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TextIO

from scheduler.installation.cluster_findings import ClusterPart
from scheduler.installation.findings import Finding, FindingState
from scheduler.installation.installed_pods import InstalledPods
from scheduler.simulation import list_table
from scheduler.simulation.list_table import Coloured, ListColumn

_COLOURS: Final = {
    FindingState.OK: "green",
    FindingState.WARNING: "yellow",
    FindingState.FAILED: "red",
    FindingState.UNKNOWN: "yellow",
}
_COLUMNS: Final = (
    ListColumn("STATE", is_fixed=True),
    ListColumn("ABOUT", is_fixed=True),
    ListColumn("FOUND", is_sentence=True),
)
_WORST: Final = (FindingState.FAILED, FindingState.WARNING, FindingState.UNKNOWN)


class InstallationStatus(NamedTuple):
    """How an installation is; `runs` says that a scheduler does. `cluster` is None where nothing of it may be read."""

    namespace: str
    runs: bool
    seen: InstalledPods
    cluster: ClusterPart | None
    findings: tuple[Finding, ...]

    @property
    def state(self) -> FindingState:
        """The worst state of a finding."""
        states = {each.state for each in self.findings}
        return next((each for each in _WORST if each in states), FindingState.OK)

    @property
    def is_healthy(self) -> bool:
        """Whether pods are scheduled, as far as is known."""
        return self.runs and self.state is not FindingState.FAILED

    @property
    def is_known_to_be_healthy(self) -> bool:
        """Whether it is healthy, and the leader has said how it does: a new one says it a moment after its start."""
        return self.is_healthy and self.seen.report is not None


def show(status: InstallationStatus, to: TextIO) -> None:
    """Print the findings, and what to look at next."""
    list_table.write([_head(status), ""], to)
    list_table.show(_COLUMNS, [_row(each) for each in status.findings], to)
    steps = tuple(dict.fromkeys(each.next_step for each in status.findings if each.next_step))
    if steps:
        list_table.write(["", "Look next at:", *(f"  {step}" for step in steps)], to)


def _head(status: InstallationStatus) -> str:
    if status.seen.is_paused:
        return f"Dovetail in namespace {status.namespace} is paused: dovetail resume"
    if not status.runs and status.state is not FindingState.FAILED:
        return f"Whether a scheduler runs in namespace {status.namespace} is not known, as you may not read enough."
    if not status.runs:
        return f"No scheduler runs in namespace {status.namespace}. This is what the API server has:"
    count = sum(each.state is FindingState.WARNING for each in status.findings)
    if not status.is_healthy:
        return f"Dovetail in namespace {status.namespace} is not healthy."
    warnings = f", with {count} warning{'s' if count != 1 else ''}" if count else ""
    return f"Dovetail in namespace {status.namespace} is healthy{warnings}."


def _row(each: Finding) -> list_table.Row:
    return Coloured(each.state.value, _COLOURS[each.state]), each.about, each.message


def document(status: InstallationStatus) -> dict[str, Any]:
    """Convert it to plain values."""
    lease, cluster = status.seen.lease, status.cluster
    return {
        "namespace": status.namespace,
        "state": status.state.value,
        "healthy": status.is_healthy,
        "running": status.runs,
        "findings": [_finding(each) for each in status.findings],
        "kubernetes": status.seen.kubernetes,
        "replicas": None if status.seen.replicas is None else list(_replicas(status)),
        "leader": lease.leader if lease is not None else "",
        "paused": status.seen.is_paused,
        "report": None if lease is None else lease.report,
        "queue": None if cluster is None else cluster.waiting,
        "devices": [] if cluster is None else cluster.devices,
    }


def _finding(each: Finding) -> dict[str, str]:
    return {"state": each.state.value, "about": each.about, "message": each.message, "next": each.next_step}


def _replicas(status: InstallationStatus) -> Iterator[dict[str, Any]]:
    for pod in status.seen.replicas or ():
        yield {
            "name": pod.name,
            "image": pod.image,
            "node": pod.node,
            "ready": pod.is_ready,
            "restarts": pod.restarts,
            "why": pod.why,
        }
