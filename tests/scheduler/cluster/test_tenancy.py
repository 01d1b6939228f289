"""What a check says to a pod names claims and pods of the pod's own namespace only."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from scheduler.change import Object
from scheduler.cluster import Unit
from solver.domain import HostPort, Pod, PodId, VolumeBinding, VolumeClaimId
from tests.support import builders as b
from tests.support import volume_builders as v
from tests.support.cluster_builders import cluster_of, unit

DEVICES = b.resource_slice("n1", b.device("gpu-0"), b.device("shared", is_shareable=True, capacities={"memory": 8}))
POD, CLAIM = b.pod("p", "c"), b.claim("c")
PORT = HostPort(port=80)


def elsewhere(namespace: str) -> Sequence[Object]:
    """A claim that holds the device, and a pod that has the port, both of a namespace."""
    held = b.held("secret-claim", b.result("gpu", "gpu-0", "n1"), node_name="n1")
    pod = replace(b.pod("secret-pod", node_name="n1"), host_ports=(PORT,))
    return (
        replace(held, id=held.id._replace(namespace=namespace)),
        replace(pod, id=PodId(namespace, "secret-pod")),
    )


def objections(namespace: str) -> str:
    pod = replace(POD, host_ports=(PORT,))
    planned = unit(b.placement(pod, "n1"), b.claim_allocation(CLAIM, b.result("gpu", "gpu-0", "n1")))
    cluster = cluster_of(b.node("n1"), DEVICES, pod, CLAIM, *elsewhere(namespace))
    return "\n".join(each.message for each in cluster.check(planned))


def test_the_holder_of_a_device_or_a_port_is_named_in_its_own_namespace_only() -> None:
    own = objections(b.NAMESPACE)
    assert "held by claim default/secret-claim" in own
    assert "taken by pod default/secret-pod" in own

    foreign = objections("secret-team")
    assert "secret" not in foreign
    assert "held by a claim of another namespace" in foreign
    assert "taken by a pod of another namespace" in foreign


def test_several_holders_are_named_or_counted() -> None:
    holders = []
    for namespace, name in (("default", "mine"), ("secret-team", "secret-one"), ("secret-team", "secret-two")):
        held = b.held(name, b.result("gpu", "gpu-0", "n1"), node_name="n1")
        holders.append(replace(held, id=held.id._replace(namespace=namespace), uid=name))
    planned = unit(b.placement(POD, "n1"), b.claim_allocation(CLAIM, b.result("gpu", "gpu-0", "n1")))

    (message,) = [each.message for each in cluster_of(b.node("n1"), DEVICES, POD, CLAIM, *holders).check(planned)]

    assert message.endswith("is held by claims default/mine and 2 of other namespaces")


def test_the_claim_that_a_volume_was_taken_for_is_not_named() -> None:
    claim = v.volume_claim("data", storage=v.DYNAMIC)
    volume = replace(v.volume("pv", nodes=["n1"]), claim=VolumeClaimId("secret-team", "secret-claim"), claim_uid="x")
    binding = VolumeBinding(claim=claim.id, claim_uid=claim.uid, volume="pv", volume_uid=volume.uid)
    pod: Pod = v.using(b.pod("p"), "data")
    planned = Unit(placements=(replace(b.placement(pod, "n1"), volumes=(binding,)),))

    messages = [each.message for each in cluster_of(b.node("n1"), pod, claim, volume).check(planned)]

    assert messages == ["volume pv was taken for a claim of another namespace"]


@pytest.mark.parametrize(("placements", "expected"), [((POD,), "default"), ((POD, b.pod("q", namespace="x")), "")])
def test_a_unit_has_the_readers_of_one_namespace(placements: tuple[Pod, ...], expected: str) -> None:
    assert Unit(placements=tuple(b.placement(pod, "n1") for pod in placements)).namespace == expected
