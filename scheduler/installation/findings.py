"""What is to be said of the scheduler itself: its pods, leader, rights, watches, decisions and defects."""

import datetime as dt
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from scheduler import REPLICAS
from scheduler.history.recent_work import MINUTES
from scheduler.installation.installed_pods import LEASE, InstalledPods, ReplicaPod
from scheduler.observe.health import CheckState
from scheduler.simulation import printing
from scheduler.simulation.printing import counted
from scheduler.status.leader_report import LeaderReport

_OLD_SECONDS: Final = 30.0
"""A report that is older says that the leader's event loop stands still: it makes one every five seconds."""
_OVER_BUDGET: Final = 1.5
_MOST_NAMES: Final = 4
_OWN_CHECKS: Final = frozenset({"leader", "rights"})
"""Checks that have findings of their own."""


class FindingState(StrEnum):
    """How good it is."""

    OK = "ok"
    WARNING = "warning"
    """Somebody should look at it; pods are scheduled all the same."""
    FAILED = "failed"
    """Pods are not scheduled, or not safely."""
    UNKNOWN = "unknown"
    """The caller may not read it, or only the leader knows it and has not said it."""


class Finding(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A sentence about one part of the installation; `next_step` is what to look at or to do, "" where nothing is."""

    state: FindingState
    about: str
    message: str
    next_step: str = ""


def of_scheduler(seen: InstalledPods, namespace: str, now: dt.datetime) -> list[Finding]:
    """Judge the scheduler in a namespace by what was read of it."""
    found = [_replicas(seen, namespace), _leader(seen, namespace, now), _versions(seen)]
    found += _rights(seen)
    if seen.report is not None:
        report = seen.report
        return [
            *found,
            *_checks(report),
            _watches(report),
            _decisions(report),
            *_reservations(report),
            _defects(report),
        ]
    has_leader = seen.runs and not seen.is_paused
    text = "the leader has not said yet how its watches are and what it decided" if has_leader else "no replica leads"
    found.append(Finding(FindingState.UNKNOWN, "watches", text))
    last = seen.lease.report if seen.lease is not None else None
    return [*found, _defects(last)] if last is not None else found


def _replicas(seen: InstalledPods, namespace: str) -> Finding:
    pods = seen.replicas
    if pods is None:
        return Finding(FindingState.UNKNOWN, "replicas", f"you may not list pods in namespace {namespace}")
    if not pods and seen.runs:
        return Finding(FindingState.OK, "replicas", f"no pod in namespace {namespace}; a process outside of it leads")
    if not pods and seen.lease is None and _unread_lease(seen):
        return Finding(FindingState.UNKNOWN, "replicas", f"no pod in namespace {namespace}, and the Lease is not known")
    if not pods and seen.is_paused:
        text = f"no pod in namespace {namespace}; the Lease does not say whether a process outside of it stands by"
        return Finding(FindingState.UNKNOWN, "replicas", text)
    if not pods:
        why = f"namespace {namespace} does not exist" if seen.has_namespace is False else f"no pod in {namespace}"
        step = "dovetail check says what an installation needs; elsewhere: --dovetail-namespace NAMESPACE"
        return Finding(FindingState.FAILED, "replicas", f"{why}: nothing schedules pods for Dovetail", step)
    ready = [pod for pod in pods if pod.is_ready]
    text = f"{len(ready)} of {len(pods)} ready{_restarts(pods)}"
    not_ready = [f"{pod.name}: {pod.why}" for pod in pods if not pod.is_ready]
    if not_ready:
        state = FindingState.WARNING if ready else FindingState.FAILED
        step = f"kubectl -n {namespace} describe pod {next(pod.name for pod in pods if not pod.is_ready)}"
        return Finding(state, "replicas", "; ".join([text, *not_ready]), step)
    if len(pods) == 1:
        return Finding(FindingState.WARNING, "replicas", f"{text}; no other one takes over when it ends", "replicas: 2")
    return Finding(FindingState.OK, "replicas", text)


def _restarts(pods: Sequence[ReplicaPod]) -> str:
    count = sum(pod.restarts for pod in pods)
    return f", {counted(count, 'restart')}" if count else ""


def _leader(seen: InstalledPods, namespace: str, now: dt.datetime) -> Finding:
    lease = seen.lease
    if lease is None and (unread := _unread_lease(seen)):
        step = "the ClusterRole dovetail-viewer allows it"
        return Finding(FindingState.UNKNOWN, "leader", f"you may not read {unread}", step)
    if lease is None:
        step = logs_of(namespace) if seen.replicas else ""
        return Finding(FindingState.FAILED, "leader", "there is no Lease: no replica has led yet", step)
    if lease.is_drained:
        text = "Dovetail is paused: every replica stands by, and no pod is placed"
        return Finding(FindingState.FAILED, "leader", text, "dovetail resume")
    if not lease.is_renewed:
        since = f"; {lease.holder.partition('_')[0]} renewed it {lease.age_seconds:.0f} s ago" if lease.holder else ""
        return Finding(FindingState.FAILED, "leader", f"no replica holds the Lease{since}", logs_of(namespace))
    report = lease.current_report
    if report is None:
        return Finding(FindingState.OK, "leader", f"{lease.leader}, since a moment ago")
    silent = (now - report.time).total_seconds()
    if silent > _OLD_SECONDS:
        text = f"{lease.leader} renews the Lease, and has not said how it does for {silent:.0f} s: it may stand still"
        return Finding(FindingState.FAILED, "leader", text, logs_of(namespace))
    return Finding(FindingState.OK, "leader", f"{lease.leader} for {printing.age(report.since.isoformat(), now)}")


def _unread_lease(seen: InstalledPods) -> str:
    """Return the Lease where the caller may not read it, else nothing."""
    return next((each for each in seen.forbidden if each.startswith(LEASE)), "")


def logs_of(namespace: str) -> str:
    """Return the command that shows the logs of the scheduler in a namespace."""
    return f"kubectl -n {namespace} logs -l {REPLICAS} --tail=50"


def _versions(seen: InstalledPods) -> Finding:
    report = seen.report
    images = sorted({pod.image for pod in seen.replicas or ()})
    parts = [f"Dovetail {report.version}"] if report is not None else []
    parts += [f"image {' and '.join(images)}"] if images else []
    parts.append(f"Kubernetes {seen.kubernetes}")
    if len(images) > 1:
        text = f"{', '.join(parts)}: the replicas have different images"
        return Finding(FindingState.WARNING, "versions", text, "kubectl rollout status of the Deployment")
    return Finding(FindingState.OK, "versions", ", ".join(parts))


def _rights(seen: InstalledPods) -> Iterator[Finding]:
    report = seen.report
    if seen.missing is None and report is None and seen.replicas:
        yield Finding(FindingState.UNKNOWN, "rights", "you may not ask for the rights of another account")
    elif seen.missing is None and report is not None:
        said = next((each.message for each in report.checks if each.name == "rights"), "")
        state = FindingState.WARNING if said else FindingState.OK
        yield Finding(state, "rights", said or "the account has the rights that the configuration needs")
    elif seen.missing == ():
        yield Finding(FindingState.OK, "rights", "the account has the rights that the configuration needs")
    for each in seen.missing or ():
        state = FindingState.FAILED if each.is_of_base else FindingState.WARNING
        yield Finding(state, "rights", each.message, each.command)


def _checks(report: LeaderReport) -> Iterator[Finding]:
    """Return a finding for each check of `/readyz` that is not ok."""
    for each in report.checks:
        if each.name not in _OWN_CHECKS:
            state = FindingState.FAILED if each.state is CheckState.FAILED else FindingState.WARNING
            yield Finding(state, each.name, each.message, "docs/operating.md, “When nothing happens”")


def _watches(report: LeaderReport) -> Finding:
    watches = report.watches
    text = f"{counted(watches.kinds, 'kind')}, the oldest news {watches.oldest_seconds:.0f} s ago ({watches.oldest})"
    if watches.limit_seconds and watches.oldest_seconds > watches.limit_seconds:
        step = "docs/operating.md, “When a watch is stale”"
        return Finding(FindingState.FAILED, "watches", f"{text}: stale, so nothing is written", step)
    return Finding(FindingState.OK, "watches", f"{text}; stale after {watches.limit_seconds:.0f} s")


def _decisions(report: LeaderReport) -> Finding:
    work = report.work
    text = f"in {MINUTES} minutes: {counted(work.decisions, 'decision')}"
    if work.decisions:
        text += f", the longest {work.slowest_seconds:.1f} s"
    parts = [f"{counted(work.bound, 'pod')} bound"]
    parts += [f"{work.not_bound} placed and not bound"] if work.not_bound else []
    parts += [f"{work.evicted} evicted"] if work.evicted else []
    text = f"{text}; {', '.join(parts)}"
    if report.budget_seconds and work.slowest_seconds > _OVER_BUDGET * report.budget_seconds:
        step = "docs/runbook.md, DovetailDecisionsOverBudget"
        text = f"{text}. solver.budgetSeconds is {report.budget_seconds:g} s"
        return Finding(FindingState.WARNING, "decisions", text, step)
    return Finding(FindingState.OK, "decisions", text)


def _reservations(report: LeaderReport) -> Iterator[Finding]:
    """Name the nodes that are reserved for starving pods."""
    names = [name for each in report.reservations for name in each.nodes]
    count = len(names) + report.more_reserved
    if count:
        pods = sum(len(each.uids) for each in report.reservations) + report.more_pods
        are = "is" if count == 1 else "are"
        more = count - min(len(names), _MOST_NAMES)
        shown = f": {', '.join(names[:_MOST_NAMES])}{f' and {more} more' if more else ''}" if names else ""
        text = f"{counted(count, 'node')} {are} reserved for {counted(pods, 'pod')} that waited too long{shown}"
        yield Finding(FindingState.OK, "reservations", text)


def _defects(report: LeaderReport) -> Finding:
    if not report.defects and not report.saved:
        return Finding(FindingState.OK, "defects", "none since the leader started")
    text = f"{counted(report.defects, 'defect')} since {report.leader.partition('_')[0]} started"
    if report.saved:
        text += f"; saved in its container: {', '.join(report.saved)}"
        return Finding(FindingState.WARNING, "defects", text, "kubectl cp the file, then: dovetail replay FILE")
    return Finding(FindingState.WARNING, "defects", text, "report the log lines `defect` and `plan_violated`")
