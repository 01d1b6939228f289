"""Devices that take of their node's resources (KEP-5517), and ways to break the plan; part of `test_broken_rules`."""

from collections.abc import Callable

from msgspec.structs import replace

from solver.domain import ContainerRequests, NodeAllocatableClaimStatus, NodeAllocatableMapping, NodeAllocatableOverhead
from solver.domain.quantity import parse
from solver.verify import Rule
from tests.solver.verify.cases import Case, Change, both, node, placement, plan, pod
from tests.support import builders as b

_TAKEN = (("cpu", parse("2")),)
_MAPPING = NodeAllocatableMapping(resource="cpu", allocation_multiplier=parse("2"))
_OVERHEAD = NodeAllocatableOverhead(resource="cpu", per_pod=parse("1"), per_container=parse("500m"))


def burdened() -> Case:
    """A pod whose GPU takes two of the node's cpus, used by one container; the pod asks for four itself."""
    asked = b.claim("c", b.request("gpu"))
    using = b.pod("p", "c", cpu=4)
    using = replace(using, containers=(ContainerRequests(name="main", claims=(using.claims[0].entry,)),))
    pool = b.gpu_slice("n1", count=1)
    pool = replace(pool, devices=tuple(replace(each, node_allocatable=(_MAPPING,)) for each in pool.devices))
    said = NodeAllocatableClaimStatus(claim=asked.id, containers=("main",), mapping=_TAKEN)
    granted = b.claim_allocation(asked, b.result("gpu", "gpu-0", "n1"), node_name="n1")
    placed = replace(b.placement(using, "n1"), node_allocatable=(said,))
    return Case(b.snapshot(b.node("n1", cpu=6), pool, b.gpu_class(), asked), b.batch(using), b.plan(placed, granted))


def legacy() -> Case:
    """The same with a device as Kubernetes 1.36 publishes it."""
    case = burdened()
    (pool,), (placed,) = case.snapshot.slices, case.plan.placements
    mapping = replace(_MAPPING, is_legacy=True)
    pool = replace(pool, devices=tuple(replace(each, node_allocatable=(mapping,)) for each in pool.devices))
    placed = replace(placed, node_allocatable=tuple(replace(each, is_legacy=True) for each in placed.node_allocatable))
    return case._replace(snapshot=replace(case.snapshot, slices=(pool,)), plan=replace(case.plan, placements=(placed,)))


def overhead() -> Case:
    """A claim that two pods share; each takes 1500m of the node's six cpus for it, and asks for one itself."""
    asked = b.claim("c", b.request("gpu"))
    entries = b.pod("p", "c").claims
    pods = [
        replace(b.pod(name, "c", cpu=1), containers=(ContainerRequests(name="main", claims=(entries[0].entry,)),))
        for name in ("p", "q")
    ]
    pool = b.gpu_slice("n1", count=1)
    pool = replace(pool, devices=tuple(replace(each, node_overhead=(_OVERHEAD,)) for each in pool.devices))
    said = NodeAllocatableClaimStatus(claim=asked.id, containers=("main",), overhead=(_OVERHEAD,))
    granted = b.claim_allocation(asked, b.result("gpu", "gpu-0", "n1"), node_name="n1")
    placed = [replace(b.placement(each, "n1"), node_allocatable=(said,)) for each in pods]
    return Case(b.snapshot(b.node("n1", cpu=5), pool, b.gpu_class(), asked), b.batch(*pods), b.plan(*placed, granted))


def _said(**changes: object) -> Change:
    def change(case: Case) -> Case:
        (said,) = case.plan.placements[0].node_allocatable
        return placement("p", node_allocatable=(replace(said, **changes),))(case)

    return change


def _second_pod(case: Case) -> Case:
    """Let another pod use the claim too, with all that it says."""
    first = case.batch.pods[0]
    other = replace(first, id=first.id._replace(name="q"), uid="uid-q")
    twin = replace(case.plan.placements[0], pod=other.id, pod_uid=other.uid)
    case = node("n1", allocatable=b.node("n1", cpu=12).allocatable)(case)
    with_twin = plan(lambda old: replace(old, placements=(*old.placements, twin)))(case)
    return with_twin._replace(batch=replace(case.batch, pods=(first, other)))


def limited(slack: int) -> Change:
    """Let the pod-level limit leave so many millicores for the container's claims."""

    def change(case: Case) -> Case:
        (container,) = case.batch.pods[0].containers
        return pod("p", containers=(replace(container, limit_slack=(("cpu", slack),)),))(case)

    return change


def _more_containers(case: Case) -> Case:
    first = case.batch.pods[0]
    return pod("p", containers=(*first.containers, replace(first.containers[0], name="more")))(case)


BROKEN: tuple[tuple[str, Callable[[], Case], Change, set[Rule]], ...] = (
    (
        "it is not said what a claim takes",
        burdened,
        placement("p", node_allocatable=()),
        {Rule.NODE_ALLOCATABLE_STATUS},
    ),
    ("another amount is said", burdened, _said(mapping=(("cpu", parse("1")),)), {Rule.NODE_ALLOCATABLE_STATUS}),
    ("another container is said", burdened, _said(containers=("other",)), {Rule.NODE_ALLOCATABLE_STATUS}),
    ("the node has too little for both", burdened, pod("p", requests=(("cpu", 4001),)), {Rule.NODE_RESOURCES}),
    (
        "pod-level requests leave too little",
        burdened,
        pod("p", level_slack=(("cpu", 1999),)),
        {Rule.NODE_ALLOCATABLE_POD_LEVEL},
    ),
    (
        "the pod-level limit leaves too little for a container",
        burdened,
        limited(1999),
        {Rule.NODE_ALLOCATABLE_POD_LEVEL},
    ),
    (
        "no container uses the claim",
        legacy,
        both(pod("p", containers=()), _said(containers=())),
        {Rule.NODE_ALLOCATABLE_UNUSED},
    ),
    (
        "the overhead is not said",
        overhead,
        placement("p", node_allocatable=()),
        {Rule.NODE_ALLOCATABLE_STATUS},
    ),
    (
        "another overhead is said",
        overhead,
        _said(overhead=(replace(_OVERHEAD, per_container=None),)),
        {Rule.NODE_ALLOCATABLE_STATUS},
    ),
    (
        "the node has too little for the overhead of both pods",
        overhead,
        node("n1", allocatable=b.node("n1", cpu="4999m").allocatable),
        {Rule.NODE_RESOURCES},
    ),
    (
        "one more container uses the claim",
        overhead,
        _more_containers,
        {Rule.NODE_ALLOCATABLE_STATUS, Rule.NODE_RESOURCES},
    ),
    ("a second pod uses the claim", burdened, _second_pod, {Rule.NODE_ALLOCATABLE_SHARED}),
)
