"""Claims that pods share on small generated clusters: every plan is valid, and no other places more pods or gangs."""

from collections import Counter
from collections.abc import Iterator
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from solver.domain import (
    Batch,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    Placement,
    Pod,
    Snapshot,
    VolumeBinding,
    VolumeClaimId,
)
from solver.verify import Rule, check
from tests.support import builders as b
from tests.support import volume_builders as v
from tests.support.plans import assert_most_are_placed

NODES = ("a1", "a2", "b1", "b2")
ZONES = (("a1", "a2"), ("b1", "b2"))
ZONE = "topology.example.com/zone"
DRIVER = "csi.example.com"
End = tuple[str, str]
"""A volume, or the node for which one is made."""


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Snapshot, Batch]:
    """Up to four nodes in two zones with little room, zonal and local volumes, and pods that share up to two claims."""
    names = NODES[: draw(st.integers(2, 4))]
    nodes = [b.node(name, cpu=draw(st.integers(1, 2)), labels={v.HOST: name, ZONE: name[0]}) for name in names]
    reaches = draw(st.sampled_from([tuple((name,) for name in NODES), ZONES]))
    free = [
        v.volume(f"v{i}", nodes=draw(st.sampled_from(reaches)), storage=draw(st.sampled_from([v.LOCAL, v.DYNAMIC])))
        for i in range(draw(st.integers(0, 3)))
    ]
    keys = draw(st.sampled_from([None, (), (ZONE,), (v.HOST,)]))
    says = [CSINode(node=name, topology_keys=((DRIVER, keys),)) for name in names if keys is not None]
    claims = [
        v.volume_claim(f"c{i}", storage=draw(st.sampled_from([v.LOCAL, v.DYNAMIC, v.DYNAMIC])), selected=selected)
        for i, selected in enumerate(draw(st.lists(st.sampled_from([None, None, *names]), min_size=1, max_size=2)))
    ]
    minima = {"g": draw(st.integers(0, 2)), "h": draw(st.integers(0, 2)), "": 0}
    pods = []
    for i in range(draw(st.integers(2, 4))):
        made = v.using(b.pod(f"p{i}", cpu=1), *draw(st.sampled_from([[each.id.name] for each in claims])))
        crew = draw(st.sampled_from(["g", "g", "h", ""]))
        pods.append(b.member(made, crew) if crew else made)
    snapshot = v.with_storage(
        b.snapshot(*nodes), v.storage_class(), v.storage_class(v.DYNAMIC, DRIVER), *free, *claims, *says
    )
    named = {pod.gang.name for pod in pods if pod.gang is not None}
    return snapshot, b.batch(*pods, gangs=[b.gang(name, minima[name]) for name in sorted(named)])


def _most(snapshot: Snapshot, batch: Batch) -> int:
    """Try every end of every claim with every place of every pod; the checker says what is allowed."""
    claims = snapshot.volume_claims
    users = Counter(claim for pod in batch.pods for claim in pod.volume_claims)
    best = 0
    for ends in product(*(_ends(claim, snapshot) for claim in claims)):
        chosen = {claim.id: end for claim, end in zip(claims, ends, strict=True)}
        for places in product((None, *(node.name for node in snapshot.nodes)), repeat=len(batch.pods)):
            placed = [(pod, node) for pod, node in zip(batch.pods, places, strict=True) if node is not None]
            if len(placed) <= best or _is_mixed([pod for pod, _ in placed]):
                continue
            if any(
                chosen[claim][1] not in {"", node}
                for pod, node in placed
                for claim in pod.volume_claims
                if users[claim] < 2
            ):
                continue  # what one pod has alone is made on its own node
            plan = b.plan(*(_placement(pod, node, chosen, snapshot) for pod, node in placed))
            if not {each.rule for each in check(snapshot, batch, plan)} - {Rule.POD_UNDECIDED}:
                best = len(placed)
    return best


def _is_mixed(placed: list[Pod]) -> bool:
    """Whether a claim would be used by pods of several gangs, or of one and of none: these take turns."""
    users: dict[VolumeClaimId, set[object]] = {}
    for pod in placed:
        for claim in pod.volume_claims:
            users.setdefault(claim, set()).add(pod.gang)
    return any(len(each) > 1 for each in users.values())


def _ends(claim: PersistentVolumeClaim, snapshot: Snapshot) -> Iterator[End]:
    if claim.storage_class == v.DYNAMIC:
        yield from (("", node.name) for node in snapshot.nodes)
    yield from ((volume.name, "") for volume in snapshot.volumes)
    yield "", ""  # on the pod's own node, as if one were made there


def _placement(pod: Pod, node: str, chosen: dict[VolumeClaimId, End], snapshot: Snapshot) -> Placement:
    volumes: dict[str, PersistentVolume] = {each.name: each for each in snapshot.volumes}
    uids = {each.id: each.uid for each in snapshot.volume_claims}
    bindings = tuple(
        VolumeBinding(
            claim=claim,
            claim_uid=uids[claim],
            volume=chosen[claim][0],
            volume_uid=volumes[chosen[claim][0]].uid if chosen[claim][0] else "",
            node=chosen[claim][1],
        )
        for claim in pod.volume_claims
    )
    return replace(b.placement(pod, node), volumes=bindings)


@given(clusters())
def test_as_many_pods_are_placed_as_can_be(case: tuple[Snapshot, Batch]) -> None:
    snapshot, batch = case
    # Claims that pods share and that want the same volumes may be left for the next batch.
    assert_most_are_placed(snapshot, batch, _most(snapshot, batch))
