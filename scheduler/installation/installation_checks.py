"""What `dovetail check` looks at, before and after an installation: each check passed, failed or was skipped."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from scheduler.change import Kind
from scheduler.installation.findings import Finding, FindingState, logs_of
from scheduler.installation.gate_probes import PROBES
from scheduler.installation.installed_pods import InstalledPods
from scheduler.installation.trial_pod import LABEL, TrialStep
from scheduler.kube.api_versions import NEWEST_MINOR, OLDEST_MINOR
from scheduler.kube.discovery import DiscoveredKinds
from scheduler.simulation.printing import counted

ALLOCATIONS: Final = "dovetail-allocations"
"""The policy of `deploy/admission/allocations`."""


class CheckResult(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    WARNING = "warning"
    """It works, and something should be done."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """It was not looked at: the caller may not, or it comes later."""


class CheckLine(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A check, and what to do where it has not passed."""

    result: CheckResult
    check: str
    message: str
    next_step: str = ""


def of_server(served: DiscoveredKinds, gates: Mapping[str, bool | None]) -> Iterator[CheckLine]:
    """Check the version of the API server, the kinds that it serves, and the feature gates that it shows."""
    if served.problem:
        step = "upgrade Kubernetes, or switch on resource.k8s.io/v1 with --runtime-config"
        yield CheckLine(CheckResult.FAILED, "server", served.problem, step)
        return
    text = f"Kubernetes {served.git_version}"
    if OLDEST_MINOR <= served.minor <= NEWEST_MINOR:
        yield CheckLine(CheckResult.PASSED, "server", text)
    else:
        step = "docs/compatibility.md says what is tested"
        text += f" is not among those that are tested: 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}"
        yield CheckLine(CheckResult.WARNING, "server", text, step)
    yield _gates(gates)
    names = {
        Kind.TAINT_RULES: "DeviceTaintRules",
        Kind.POD_GROUPS: "PodGroups",
        Kind.COSCHEDULING_GROUPS: "PodGroups of the Coscheduling plugin (CRD)",
    }
    there = [name for kind, name in names.items() if served.has(kind)]
    away = [name for kind, name in names.items() if not served.has(kind)]
    text = f"served: {', '.join(there) or 'none of the optional ones'}"
    text += f"; not served: {', '.join(away)}. Gangs by label need none" if away else ""
    yield CheckLine(CheckResult.PASSED, "kinds", text)


def _gates(gates: Mapping[str, bool | None]) -> CheckLine:
    features = {each.gate: each.feature for each in PROBES}
    on = [gate for gate, is_on in gates.items() if is_on]
    off = [f"{gate} ({features[gate]})" for gate, is_on in gates.items() if is_on is False]
    if not on and not off:
        text = "you may not create resourceclaims and resourceslices, not even as a dry run"
        return CheckLine(CheckResult.SKIPPED, "gates", text)
    text = f"on: {', '.join(on) or 'none'}"
    if off:
        text += f"; off: {', '.join(off)}. The API server drops their fields"
    return CheckLine(CheckResult.PASSED, "gates", text)


def of_installation(seen: InstalledPods, namespace: str) -> Iterator[CheckLine]:
    """Check namespace, pods, image, rights and Lease of what is installed."""
    if seen.replicas is None:
        yield CheckLine(CheckResult.SKIPPED, "installed", f"you may not list pods in namespace {namespace}")
        return
    if not seen.runs and not seen.is_paused:
        text = f"namespace {namespace} does not exist yet" if seen.has_namespace is False else f"no pod in {namespace}"
        yield CheckLine(
            CheckResult.SKIPPED, "installed", f"{text}: Dovetail is not installed", "install it, check again"
        )
        return
    yield from _replicas(seen, namespace)
    yield from _rights(seen)
    yield _leader(seen, namespace)


def _replicas(seen: InstalledPods, namespace: str) -> Iterator[CheckLine]:
    pods = seen.replicas or ()
    if not pods:
        text = "it runs outside of the cluster" if seen.runs else f"its Lease is there, and no pod in {namespace}"
        yield CheckLine(CheckResult.PASSED, "installed", text)
        return
    images = ", ".join(sorted({pod.image for pod in pods}))
    not_ready = [pod for pod in pods if not pod.is_ready]
    pulling = [pod for pod in not_ready if "Image" in pod.why]
    if pulling:
        step = "push the image where nodes can pull it, or load it into the nodes; imagePullSecrets for a private one"
        yield CheckLine(CheckResult.FAILED, "image", f"{images}: {pulling[0].why}", step)
    elif any(pod.node for pod in pods):
        yield CheckLine(CheckResult.PASSED, "image", images)
    else:
        yield CheckLine(CheckResult.SKIPPED, "image", "no pod has a node yet")
    text = f"{len(pods) - len(not_ready)} of {counted(len(pods), 'replica')} ready"
    if not_ready:
        step = f"kubectl -n {namespace} describe pod {not_ready[0].name}"
        yield CheckLine(CheckResult.FAILED, "replicas", f"{text}; {not_ready[0].name}: {not_ready[0].why}", step)
    else:
        yield CheckLine(CheckResult.PASSED, "replicas", text)


def _rights(seen: InstalledPods) -> Iterator[CheckLine]:
    if seen.missing is None:
        yield CheckLine(CheckResult.SKIPPED, "roles", "there is no account to ask about, or you may not ask")
    elif not seen.missing:
        yield CheckLine(CheckResult.PASSED, "roles", "the account has the rights that the configuration needs")
    for each in seen.missing or ():
        result = CheckResult.FAILED if each.is_of_base else CheckResult.WARNING
        yield CheckLine(result, "roles", each.message, each.command)


def _leader(seen: InstalledPods, namespace: str) -> CheckLine:
    lease = seen.lease
    if lease is None and seen.forbidden:
        return CheckLine(CheckResult.SKIPPED, "leader", f"you may not read {', '.join(seen.forbidden)}")
    if lease is not None and lease.is_drained:
        return CheckLine(CheckResult.FAILED, "leader", "Dovetail is paused", "dovetail resume")
    if lease is None or not lease.is_renewed:
        return CheckLine(CheckResult.FAILED, "leader", "no replica holds the Lease", logs_of(namespace))
    return CheckLine(CheckResult.PASSED, "leader", lease.leader)


_RESULTS: Final = {
    FindingState.OK: CheckResult.PASSED,
    FindingState.WARNING: CheckResult.WARNING,
    FindingState.FAILED: CheckResult.FAILED,
    FindingState.UNKNOWN: CheckResult.SKIPPED,
}
_OF_THE_CLUSTER: Final = frozenset({"devices", "drivers", "pools", "classes"})


def of_findings(findings: Iterable[Finding]) -> Iterator[CheckLine]:
    """Check devices, drivers, pools and classes, as `dovetail status` does."""
    for each in findings:
        if each.about in _OF_THE_CLUSTER:
            yield CheckLine(_RESULTS[each.state], each.about, each.message, each.next_step)


def of_step(step: TrialStep, namespace: str) -> CheckLine:
    """Return the line of a step of the test pod in a namespace."""
    if step.is_good is None:
        return CheckLine(CheckResult.SKIPPED, step.name, step.message)
    if step.is_good:
        return CheckLine(CheckResult.PASSED, step.name, step.message)
    steps = {
        "test pod": f"may you create pods and resourceclaims in namespace {namespace}? -n chooses another one",
        "removed": f"kubectl -n {namespace} delete pod,resourceclaim -l {LABEL}",
    }
    next_step = step.next_step or steps.get(step.name, "dovetail status")
    return CheckLine(CheckResult.FAILED, step.name, step.message, next_step)


def of_fence(has_policy: bool | None, other_schedulers: tuple[str, ...]) -> CheckLine:  # noqa: FBT001 - what was found
    """Check that no other scheduler can allocate the same devices."""
    step = "kubectl apply -k deploy/admission/allocations, after docs/tenancy.md: its params.yaml says which devices"
    if has_policy:
        return CheckLine(CheckResult.PASSED, "fence", f"the policy {ALLOCATIONS} keeps allocations of schedulers apart")
    if has_policy is None:
        return CheckLine(CheckResult.SKIPPED, "fence", "you may not read ValidatingAdmissionPolicyBindings")
    if other_schedulers:
        names = ", ".join(other_schedulers)
        text = f"pods of {names} hold devices that Dovetail would allocate too, and no policy keeps them apart"
        return CheckLine(CheckResult.WARNING, "fence", text, step)
    text = "Nothing stops another scheduler from allocating these devices (none has so far)"
    return CheckLine(CheckResult.WARNING, "fence", text, step)
