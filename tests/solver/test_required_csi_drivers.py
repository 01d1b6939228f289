"""Pods stay off nodes without a CSI driver that must be there (CSIDriver.spec.preventPodSchedulingIfMissing)."""

import pytest
from msgspec.structs import replace

from solver import solve
from solver.domain import CSIDriver, CSINode, PersistentVolumeClaim, Plan, Pod, Policy, ReasonCode
from solver.verify import check
from tests.support.builders import batch, node, pod, snapshot
from tests.support.solver_problems import PATIENT
from tests.support.volume_builders import DYNAMIC, Stored, storage_class, using, volume, volume_claim, with_storage

DRIVER = "csi.example.com"
MAKING = storage_class(DYNAMIC, DRIVER)
REQUIRED = CSIDriver(name=DRIVER, is_required=True)
OTHER = CSINode(node="n1", limits=(("other.example.com", None),))


def decide(pods: tuple[Pod, ...], *objects: Stored, nodes: tuple[str, ...] = ("n1", "n2", "n3")) -> Plan:
    """Solve for the last pod beside running ones, and check the plan."""
    *running, asked = pods
    stand = with_storage(snapshot(*(node(name) for name in nodes), *running), *objects)
    plan = solve(stand, batch(asked), Policy(), PATIENT)
    assert check(stand, batch(asked), plan) == ()
    return plan


def places(plan: Plan) -> dict[str, str]:
    return {each.pod.name: each.node for each in plan.placements}


def why(plan: Plan) -> set[tuple[ReasonCode, str, int]]:
    return {(each.code, each.counted_as, each.node_count) for each in plan.unplaced[0].reasons}


def missing(driver: str, count: int) -> tuple[ReasonCode, str, int]:
    return ReasonCode.VOLUME_DRIVER_MISSING, f"{driver} CSI driver is not installed on the node", count


def bound(name: str, driver: str = DRIVER, *, plugin: str = "") -> tuple[Stored, Stored]:
    claim = volume_claim(name, bound=f"v-{name}", storage=DYNAMIC)
    return claim, replace(volume(f"v-{name}", claim=claim, driver=driver), migrated_from=plugin)


@pytest.mark.parametrize(
    "claim", [pytest.param(volume_claim("c0", storage=DYNAMIC), id="to be made"), pytest.param(None, id="bound")]
)
def test_pods_go_where_a_required_driver_is(claim: PersistentVolumeClaim | None) -> None:
    storage: tuple[Stored, ...] = (MAKING, OTHER, *(bound("c0") if claim is None else (claim,)))
    asked = (using(pod("p"), "c0"),)
    installed = CSINode(node="n3", limits=((DRIVER, None),))

    assert places(decide(asked, *storage, REQUIRED, installed)) == {"p": "n3"}
    assert why(decide(asked, *storage, REQUIRED)) == {missing(DRIVER, 3)}
    assert places(decide(asked, *storage, replace(REQUIRED, is_required=False)))
    assert places(decide(asked, *storage))
    assert places(decide((pod("p"),), *storage, REQUIRED))


def test_a_pod_needs_all_of_its_required_drivers() -> None:
    """A volume that is attached to the node for a running pod is no exception."""
    second = "b.example.com"
    storage: tuple[Stored, ...] = (MAKING, REQUIRED, replace(REQUIRED, name=second))
    storage += (*bound("c0"), *bound("c1", second), CSINode(node="n2", limits=((DRIVER, 5),)))
    pods = (using(pod("old", node_name="n1"), "c0"), using(pod("p"), "c0", "c1"))
    only = CSINode(node="n1", limits=((second, 5),))

    refused = decide(pods, *storage, only, nodes=("n1", "n2"))
    assert why(refused) == {missing(DRIVER, 1), missing(second, 1)}
    both = replace(only, limits=((second, 5), (DRIVER, 5)))
    assert places(decide(pods, *storage, both, nodes=("n1", "n2"))) == {"p": "n1"}


def test_a_missing_driver_is_said_before_its_attach_limit() -> None:
    """kube-scheduler looks at the driver first."""
    full = CSINode(node="n1", limits=((DRIVER, 0),))
    refused = decide((using(pod("p"), "c0"),), MAKING, REQUIRED, *bound("c0"), full, nodes=("n1", "n2"))

    assert why(refused) == {missing(DRIVER, 1), (ReasonCode.VOLUME_ATTACHMENTS, "node(s) exceed max volume count", 1)}


def test_a_migrated_volume_needs_its_driver_where_the_node_has_migrated_the_plugin() -> None:
    plugin, driver = "kubernetes.io/aws-ebs", "ebs.csi.aws.com"
    storage: tuple[Stored, ...] = (MAKING, CSIDriver(name=driver, is_required=True))
    storage += bound("c0", driver, plugin=plugin)
    asked = (using(pod("p"), "c0"),)
    own = CSINode(node="n1")

    assert places(decide(asked, *storage, own, nodes=("n1",)))
    migrated = replace(own, migrated=(plugin,))
    assert why(decide(asked, *storage, migrated, nodes=("n1",))) == {missing(driver, 1)}
    assert places(decide(asked, *storage, replace(migrated, limits=((driver, None),)), nodes=("n1",)))
