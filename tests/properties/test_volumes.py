"""Volumes on small generated clusters: every plan is valid, and no other places more pods."""

from collections.abc import Iterator
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from solver.domain import (
    Batch,
    CSIDriver,
    CSINode,
    DiskKind,
    InlineDisk,
    PersistentVolume,
    PersistentVolumeClaim,
    Placement,
    Pod,
    PodVolume,
    Snapshot,
    VolumeAttachment,
    VolumeBinding,
    VolumeClaimId,
)
from solver.verify import Rule, check
from tests.support import builders as b
from tests.support import volume_builders as v
from tests.support.plans import assert_most_are_placed

NODES = ("n1", "n2", "n3")
SIZES = ("1Gi", "2Gi", "3Gi")
DRIVER = "csi.example.com"


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Snapshot, Batch]:
    """Two or three nodes, local and wide volumes, bound and waiting claims, limits, disks, and up to four pods."""
    names = NODES[: draw(st.integers(2, 3))]
    free = [
        v.volume(f"v{i}", draw(st.sampled_from(SIZES)), nodes=draw(st.lists(st.sampled_from(names), max_size=2)))
        for i in range(draw(st.integers(0, 4)))
    ]
    bound = [
        v.volume_claim(f"b{i}", bound=f"w{i}", modes=[draw(st.sampled_from(["ReadWriteMany", "ReadWriteOncePod"]))])
        for i in range(draw(st.integers(0, 2)))
    ]
    there = [
        v.volume(f"w{i}", nodes=draw(st.lists(st.sampled_from(names), max_size=1)), claim=claim, driver=DRIVER)
        for i, claim in enumerate(bound)
    ]
    pods, waiting = [], []
    for i in range(draw(st.integers(1, 4))):
        own = [
            v.volume_claim(
                f"c{i}-{k}", draw(st.sampled_from(SIZES)), storage=draw(st.sampled_from([v.LOCAL, v.DYNAMIC]))
            )
            for k in range(draw(st.integers(0, 2)))
        ]
        waiting += own
        shared = draw(st.sets(st.sampled_from([each.id.name for each in bound]), max_size=1)) if bound else set()
        made = v.using(b.pod(f"p{i}"), *(each.id.name for each in own), *sorted(shared))
        pods.append(replace(made, volumes=(*made.volumes, *draw(_disks()))))
    running = v.using(b.pod("running", node_name="n1"), *(each.id.name for each in bound[:1]))
    running = replace(running, volumes=(*running.volumes, *draw(_disks())))
    making = v.storage_class(v.DYNAMIC, DRIVER)
    if draw(st.booleans()):
        making = replace(making, allowed_topologies=(((v.HOST, (draw(st.sampled_from(names)),)),),))
    attached = VolumeAttachment(name="a", attacher=DRIVER, node="n2", volume="w1")
    limits = [CSINode(node=name, limits=((DRIVER, draw(st.sampled_from([None, 0, 1, 2]))),)) for name in names]
    limits = limits[: draw(st.integers(1, len(names)))]
    snapshot = v.with_storage(
        b.snapshot(*(b.node(name) for name in names), *([running] if draw(st.booleans()) else [])),
        v.storage_class(),
        making,
        *free,
        *bound,
        *there,
        *waiting,
        *(limits if draw(st.booleans()) else []),
        *([attached] if draw(st.booleans()) else []),
        *([CSIDriver(name=DRIVER, is_required=True)] if draw(st.booleans()) else []),
    )
    return snapshot, b.batch(*pods)


def _disks() -> st.SearchStrategy[list[PodVolume]]:
    disk = st.builds(InlineDisk, kind=st.just(DiskKind.GCE), name=st.just("d"), is_read_only=st.booleans())
    return st.lists(st.builds(PodVolume, name=st.just("disk"), disk=disk), max_size=1)


def _most(snapshot: Snapshot, batch: Batch) -> int:
    """Place pods one after the other in every way that the checker lets pass."""
    claims = {each.id: each for each in snapshot.volume_claims}

    def best(rest: tuple[Pod, ...], placed: tuple[Placement, ...]) -> int:
        if not rest:
            return len(placed)
        found = best(rest[1:], placed)
        for choice in _choices(rest[0], claims, snapshot.volumes, tuple(node.name for node in snapshot.nodes)):
            if len(placed) + len(rest) <= found:
                break
            plan = b.plan(*placed, choice)
            broken = {each.rule for each in check(snapshot, batch, plan)} - {Rule.POD_UNDECIDED}
            if not broken:
                found = max(found, best(rest[1:], (*placed, choice)))
        return found

    return best(batch.pods, ())


def _choices(
    pod: Pod,
    claims: dict[VolumeClaimId, PersistentVolumeClaim],
    volumes: tuple[PersistentVolume, ...],
    nodes: tuple[str, ...],
) -> Iterator[Placement]:
    waiting = [claims[each] for each in pod.volume_claims if not claims[each].is_bound]
    ends = [[each for each in volumes if each.claim is None] if c.storage_class == v.LOCAL else [None] for c in waiting]
    for node, chosen in product(nodes, product(*ends)):
        bindings = tuple(
            VolumeBinding(
                claim=claim.id,
                claim_uid=claim.uid,
                volume=volume.name if volume is not None else "",
                volume_uid=volume.uid if volume is not None else "",
            )
            for claim, volume in zip(waiting, chosen, strict=True)
        )
        yield replace(b.placement(pod, node), volumes=bindings)


@given(clusters())
def test_as_many_pods_are_placed_as_can_be(case: tuple[Snapshot, Batch]) -> None:
    snapshot, batch = case
    # Volumes that several pods of a batch share are attached once, which limits cannot say; nor can they say all about
    # volumes that reach some nodes each. What is left out for that comes with the next batch, as long as there is one.
    assert_most_are_placed(snapshot, batch, _most(snapshot, batch))
