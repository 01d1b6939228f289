"""Plans with a volume claim that pods share, broken one by one."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from solver.domain import Batch, CSINode, Plan, Snapshot, VolumeBinding
from solver.verify import Rule
from tests.solver.verify.both_ways import check
from tests.support import builders as b
from tests.support import volume_builders as v

DRIVER = "csi.example.com"
ZONE = "topology.example.com/zone"
Change = Callable[[Snapshot, Plan], tuple[Snapshot, Plan]]


def valid() -> tuple[Snapshot, Batch, Plan]:
    """Two pods on two nodes of a zone share what is made on the first, another node is in another zone."""
    claim = v.volume_claim("data", storage=v.DYNAMIC, modes=["ReadWriteMany"])
    snapshot = v.with_storage(
        b.snapshot(*(b.node(name, labels={v.HOST: name, ZONE: name[0]}) for name in ("a1", "a2", "b1"))),
        v.storage_class(v.DYNAMIC, DRIVER),
        claim,
        *(CSINode(node=name, topology_keys=((DRIVER, (ZONE,)),)) for name in ("a1", "a2", "b1")),
    )
    pods = tuple(v.using(b.pod(name), "data") for name in ("first", "second"))
    bound = VolumeBinding(claim=claim.id, claim_uid=claim.uid)
    placements = (
        replace(b.placement(pods[0], "a1"), volumes=(bound,)),
        replace(b.placement(pods[1], "a2"), volumes=(replace(bound, node="a1"),)),
    )
    return snapshot, b.batch(*pods), b.plan(*placements)


def second(**fields: str) -> Change:
    """Change the second pod's binding; `at` moves the pod."""

    def change(snapshot: Snapshot, plan: Plan) -> tuple[Snapshot, Plan]:
        one, other = plan.placements
        moved = replace(other, node=fields.get("at", other.node))
        rest = {key: value for key, value in fields.items() if key != "at"}
        return snapshot, replace(plan, placements=(one, replace(moved, volumes=(replace(moved.volumes[0], **rest),))))

    return change


def driver(*found: CSINode) -> Change:
    """Let nodes say something else of their drivers."""
    return lambda snapshot, plan: (replace(snapshot, node_drivers=found), plan)


def test_the_plan_is_valid() -> None:
    assert check(*valid()) == ()


def test_a_driver_without_keys_is_reached_from_everywhere() -> None:
    snapshot, batch, plan = valid()
    snapshot, plan = driver(*(CSINode(node=name, topology_keys=((DRIVER, ()),)) for name in ("a1", "b1")))(
        snapshot, second(at="b1")(snapshot, plan)[1]
    )
    assert check(snapshot, batch, plan) == ()


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        pytest.param(second(node=""), {Rule.VOLUME_TWICE}, id="it is made on two nodes"),
        pytest.param(second(at="b1"), {Rule.VOLUME_ELSEWHERE}, id="another zone"),
        pytest.param(second(node="gone"), {Rule.VOLUME_UNMADE, Rule.VOLUME_TWICE}, id="a node that is not there"),
        pytest.param(driver(), {Rule.VOLUME_ELSEWHERE}, id="a provisioner of which nothing is known"),
        pytest.param(
            driver(CSINode(node="a1", topology_keys=((DRIVER, (ZONE,)),))), {Rule.VOLUME_ELSEWHERE}, id="no driver"
        ),
        pytest.param(
            driver(*(CSINode(node=name, topology_keys=((DRIVER, (v.HOST,)),)) for name in ("a1", "a2"))),
            {Rule.VOLUME_ELSEWHERE},
            id="another value",
        ),
        pytest.param(
            driver(*(CSINode(node=name, topology_keys=((DRIVER, ("none",)),)) for name in ("a1", "a2"))),
            {Rule.VOLUME_ELSEWHERE},
            id="nodes without the label",
        ),
        pytest.param(
            driver(
                CSINode(node="a1", topology_keys=((DRIVER, (ZONE,)),)),
                CSINode(node="a2", topology_keys=((DRIVER, ()),)),
            ),
            {Rule.VOLUME_ELSEWHERE},
            id="other keys",
        ),
    ],
)
def test_what_is_broken_is_noticed(change: Change, rules: set[Rule]) -> None:
    snapshot, batch, plan = valid()
    snapshot, plan = change(snapshot, plan)
    assert {each.rule for each in check(snapshot, batch, plan)} == rules
