"""
What a pod takes from its node, as kube-scheduler 1.36 adds it up.

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
Nano-units of an amount that 64 bits do not hold, in units: no pod fits with it.

`resource.Quantity.Value()` gives 0 for it where it has few digits (`1e66`), so that a kubelet runs such a pod. Of cpu
that begins with 2^63 millicores.
"""

_INT64 = 2**63
_NO_NODE_HAS = 2**48
"""Bytes, millicores or units of one container that no node has: sums go beyond 64 bits only with such amounts."""
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_POD_LEVEL = frozenset({"cpu", "memory"})
_HUGE_PAGES = "hugepages-"
_SCALARS = (_HUGE_PAGES, "attachable-volumes-")


class Resized(NamedTuple):
    """What the kubelet reports of a container or pod: the requests in force, and those it has admitted."""

    actual: Amounts
    allocated: Amounts


class ContainerAmounts(NamedTuple):
    """Requests of a container: as specified, and as reported where a resize is possible."""

    specified: Amounts
    resized: Resized | None = None


class PodAmounts(NamedTuple):
    """Everything that counts, in the order of the spec; `is_infeasible` is a resize that the node has refused."""

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


def seated(pod: PodAmounts) -> PodAmounts:
    """
    Give what counts of a pod that a kubelet has let in: no amount that 64 bits do not hold, whatever it stands for.

    A kubelet lets sums in that overflow too; then no amount counts that no node has. All others count as ever: what
    the pod runs is not hidden by what it cannot have.
    """
    found = _below(pod, _INT64)
    is_sound = all(nano < _INT64 * unit_of(name) for name, nano in total(found).items())
    return found if is_sound else _below(pod, _NO_NODE_HAS)


def _below(pod: PodAmounts, most: int) -> PodAmounts:
    """Leave out every amount that is not below a number of what its resource is counted in."""

    def cut(found: Amounts) -> Amounts:
        return {name: nano for name, nano in found.items() if nano < most * unit_of(name)}

    def of(container: ContainerAmounts) -> ContainerAmounts:
        resized = container.resized
        kept = Resized(cut(resized.actual), cut(resized.allocated)) if resized is not None else None
        return ContainerAmounts(cut(container.specified), kept)

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
    Cpu in millicores, everything else in whole units, rounded up and sorted.

    Names that no node counts (`storage`) and zeros are left out. Amounts stay in 64 bits.
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
    larger of both. Node-allocatable claims come on top (KEP-5517). Pod-level requests replace the sum for the
    resources that they name; overhead comes last.
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
            _raise(peak, (sidecars,))
        else:
            step = dict(sidecars)
            _add(step, needs)
            _raise(peak, (step,))
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
    Give what pod-level requests leave for claims, where they are set: never below zero, rounded down, sorted.

    Node-allocatable claims are inside of them then, not on top (KEP-5517 with KEP-2837).
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


def effective(container: ContainerAmounts, is_infeasible: bool) -> Amounts:  # noqa: FBT001 - a fact of the pod
    """Take the largest of what is asked for, in force and admitted; a resize that was refused asks for nothing."""
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
