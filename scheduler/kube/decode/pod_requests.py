"""
The resource requests of a pod, as kube-scheduler 1.36 computes them.

KEP-753 (sidecars), KEP-2837 (pod-level requests), KEP-1287 (resize in place), KEP-5517 (node-allocatable claims).
Pure sums over nano-units; rounding up happens once, at the end.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from scheduler.kube.decode.shared_fields import MalformedError, quantity
from solver.domain import QuantityError
from solver.domain.quantity import OutOfRangeError, unit_of

Amounts = dict[str, int]
"""Resource name → nano-units."""

BEYOND = 2**256
"""
Nano-units of an amount above 64 bits (in units; cpu: in millicores): no node fits it.

`resource.Quantity.Value()` gives 0 where it has few digits (`1e66`), so that a kubelet runs such a pod.
"""

_INT64 = 2**63
_NO_NODE_HAS = 2**48
"""Bytes, millicores or units that no node has: sums overflow 64 bits only with such amounts."""
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_POD_LEVEL = frozenset({"cpu", "memory"})
_HUGE_PAGES = "hugepages-"
_SCALARS = (_HUGE_PAGES, "attachable-volumes-")


class Resized(NamedTuple):
    """Requests that the kubelet reports of a container or pod: in force, and admitted."""

    actual: Amounts
    allocated: Amounts


class ContainerAmounts(NamedTuple):
    """Requests of a container: of its spec, and reported ones where a resize is possible."""

    specified: Amounts
    resized: Resized | None = None


class PodAmounts(NamedTuple):
    """All requests of a pod, in the order of the spec; `is_infeasible`: the node has refused a resize."""

    containers: Sequence[ContainerAmounts]
    init_containers: Sequence[tuple[ContainerAmounts, bool]]
    overhead: Amounts
    pod_level: ContainerAmounts | None
    extra: Sequence[Amounts]
    is_infeasible: bool


def amounts(texts: Mapping[str, str] | None, field: str) -> Amounts:
    """Parse a ResourceList. Raises MalformedError."""
    if not texts:
        return {}
    try:
        return {name: _nano(name, text) for name, text in texts.items()}
    except QuantityError as error:
        raise MalformedError(field, str(error)) from error


def _nano(resource: str, text: str) -> int:
    try:
        nano = quantity(text).nano
    except OutOfRangeError:
        return BEYOND
    return nano if nano < _INT64 * unit_of(resource) else BEYOND


def of_bound_pod(pod: PodAmounts) -> PodAmounts:
    """
    Return the requests of a pod that a kubelet has admitted, without amounts above 64 bits.

    A kubelet also admits sums that overflow; then amounts that no node has do not count. All others count.
    """
    found = _below(pod, _INT64)
    is_sound = all(nano < _INT64 * unit_of(name) for name, nano in total(found).items())
    return found if is_sound else _below(pod, _NO_NODE_HAS)


def _below(pod: PodAmounts, most: int) -> PodAmounts:
    """Leave out amounts of `most` or more, in the unit of each resource."""

    def cut(found: Amounts) -> Amounts:
        return {name: nano for name, nano in found.items() if nano < most * unit_of(name)}

    def of(container: ContainerAmounts) -> ContainerAmounts:
        resized = container.resized
        capped = Resized(cut(resized.actual), cut(resized.allocated)) if resized is not None else None
        return ContainerAmounts(cut(container.specified), capped)

    return PodAmounts(
        containers=[of(each) for each in pod.containers],
        init_containers=[(of(each), is_sidecar) for each, is_sidecar in pod.init_containers],
        overhead=cut(pod.overhead),
        pod_level=of(pod.pod_level) if pod.pod_level is not None else None,
        extra=[cut(each) for each in pod.extra],
        is_infeasible=pod.is_infeasible,
    )


def rounded(total: Amounts) -> tuple[tuple[str, int], ...]:
    """
    Round up, cpu to millicores and other resources to whole units, and sort.

    Resources that no node has (`storage`) and zeros are left out. Amounts stay within 64 bits.
    """
    found = [
        (name, min(-(-nano // unit_of(name)), _INT64 - 1))
        for name, nano in total.items()
        if nano > 0 and (name in _NATIVE or "/" in name or name.startswith(_SCALARS))
    ]
    return tuple(sorted(found))


def total(pod: PodAmounts) -> Amounts:
    """
    Sum up a pod.

    Containers and sidecars run together; while init container i runs, so do the sidecars before it; the pod needs the
    larger sum. Node-allocatable claims are added (KEP-5517). Pod-level requests replace the sum of the resources that
    they name. Overhead is added last.
    """
    running: Amounts = {}
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.containers:
        _add(running, effective(container, pod.is_infeasible))
    for container, is_sidecar in pod.init_containers:
        # A plain init container cannot be resized: its status does not count.
        needs = effective(container, pod.is_infeasible) if is_sidecar else container.specified
        if is_sidecar:
            _add(running, needs)
            _add(sidecars, needs)
        # Only what it names can be more than in the steps before: a pod may have thousands of both, names and steps.
        own = {} if is_sidecar else needs
        _raise(peak, ({name: sidecars.get(name, 0) + own.get(name, 0) for name in needs},))
    _raise(running, (peak,))
    for claim in pod.extra:
        _add(running, claim)
    if pod.pod_level is not None:
        in_force = effective(pod.pod_level, pod.is_infeasible)
        for name in pod.pod_level.specified:
            if name in _POD_LEVEL or name.startswith(_HUGE_PAGES):
                running[name] = in_force.get(name, 0)
    _add(running, pod.overhead)
    return running


def level_slack(pod: PodAmounts) -> tuple[tuple[str, int], ...]:
    """
    Return what pod-level requests leave for claims: never below zero, rounded down, sorted; empty where none are set.

    With pod-level requests node-allocatable claims are part of them, not added (KEP-5517 with KEP-2837).
    """
    if pod.pod_level is None:
        return ()
    in_force = effective(pod.pod_level, pod.is_infeasible)
    inside = total(pod._replace(pod_level=None, overhead={}, extra=()))
    return tuple(
        sorted(
            (name, min(max(in_force.get(name, 0) - inside.get(name, 0), 0) // unit_of(name), _INT64 - 1))
            for name in pod.pod_level.specified
            if name in _POD_LEVEL or name.startswith(_HUGE_PAGES)
        )
    )


def limit_slack(container: Amounts, pod_level: Amounts) -> tuple[tuple[str, int], ...]:
    """Return what pod-level limits leave above those of a container: never below zero, rounded down, sorted."""
    return tuple(
        sorted(
            (name, min(max(pod_level[name] - container[name], 0) // unit_of(name), _INT64 - 1))
            for name in container.keys() & pod_level.keys()
            if not name.startswith(_HUGE_PAGES)
        )
    )


def effective(container: ContainerAmounts, is_infeasible: bool) -> Amounts:  # noqa: FBT001 - a fact of the pod
    """Return the maximum of requested, in force and admitted; a refused resize does not count as requested."""
    resized = container.resized
    if resized is None:
        return container.specified
    largest = {} if is_infeasible else dict(container.specified)
    _raise(largest, (resized.actual, resized.allocated))
    return largest


def _add(target: Amounts, more: Amounts) -> None:
    for name, nano in more.items():
        target[name] = target.get(name, 0) + nano


def _raise(target: Amounts, others: Iterable[Amounts]) -> None:
    """Make each amount at least as large as in the others."""
    for other in others:
        for name, nano in other.items():
            if nano > target.get(name, -1):
                target[name] = nano
