"""Claims for extended resources on a server that keeps nothing of them: one is made, and no other for a while."""

from typing import Any, cast

import msgspec
import pytest

from scheduler.commit.extended_resource_claims import ClaimNotCreated, ExtendedResourceClaims, OrphanedClaims
from scheduler.commit.rollback import Rollback
from scheduler.kube.client import Client
from scheduler.kube.extended_resource_writes import claim_body
from scheduler.kube.writer import Writer
from scheduler.observe.metrics import Metrics
from scheduler.queue import SchedulingQueue
from solver.domain import ClaimId, ReasonCode
from solver.feasibility.extended_resources import extended_resource_claim
from tests.support import builders as b
from tests.support.cluster_builders import cluster_of, show, unit
from tests.support.extended_builders import RESOURCE, container, pod

POD = pod("p", container("main", cpu=1, gpu=2))
SPECIAL = extended_resource_claim(POD, {RESOURCE: "gpu"}, 0)
UNIT = unit(msgspec.structs.replace(b.placement(POD, "n1"), extended_resource_claim=SPECIAL, claims=(SPECIAL.id,)))


class Server:
    """Makes claims, and drops what a pod's status says of them."""

    def __init__(self, status: dict[str, Any] | None = None) -> None:
        self.made = 0
        self.status = status or {}
        self.deleted: list[tuple[str, Any]] = []

    async def request(self, method: str, path: str, *, body: bytes = b"", **_: object) -> bytes:
        if method == "DELETE":
            self.deleted.append((path.rpartition("/")[2], msgspec.json.decode(body)["preconditions"]))
        if method != "POST":
            return msgspec.json.encode({"metadata": {"name": "p", "uid": POD.uid}, "status": self.status})
        self.made += 1
        made = claim_body(POD.id, POD.uid, SPECIAL)
        made["metadata"] |= {"name": f"c{self.made}", "uid": f"c{self.made}", "resourceVersion": "1"}
        return msgspec.json.encode(made)


class OpenLine:
    """Sends every write at once."""

    async def write(self, send: Any) -> Any:
        return await send(timeout_seconds=1.0)

    insist = read = write


async def test_after_one_refusal_no_claim_is_made_until_the_time_is_over() -> None:
    now, server = 0.0, Server()
    line = cast("Writer", OpenLine())
    specials = ExtendedResourceClaims(
        cast("Client", server), cluster_of(POD), line, cast("Rollback", None), clock=lambda: now
    )
    made = await specials.make(UNIT)
    assert not isinstance(made, ClaimNotCreated)
    (reason,) = await specials.announce(UNIT)
    assert "DRAExtendedResource" in reason.message

    assert await specials.make(UNIT) == ClaimNotCreated(reason=reason)
    assert server.made == 1

    now = 21.0
    assert not isinstance(await specials.make(UNIT), ClaimNotCreated)
    assert server.made == 2


class Releasing:
    """Stands where claims are released: notes them, and leaves as many as a test wants."""

    def __init__(self, leaves: int) -> None:
        self.leaves = leaves
        self.released: list[str] = []

    async def release(self, claims: tuple[ClaimId, ...], *_: object, **__: object) -> tuple[ClaimId, ...]:
        self.leaves -= 1
        self.released += [each.name for each in claims]
        return claims if self.leaves >= 0 else ()


async def test_no_claim_is_made_while_one_of_an_earlier_attempt_may_hold_devices() -> None:
    """The pod would be bound with the new one, and the other would hold its devices as long as the pod."""
    server, rollback = Server(), Releasing(leaves=1)
    line = cast("Writer", OpenLine())
    specials = ExtendedResourceClaims(cast("Client", server), cluster_of(POD), line, cast("Rollback", rollback))
    made = await specials.make(UNIT)
    assert not isinstance(made, ClaimNotCreated)
    (claim,) = made.claims
    await specials.drop(UNIT.placements, (claim,))  # its rollback got no answer, and no watch has shown the claim
    specials.forget(UNIT)

    refused = await specials.make(UNIT)
    assert isinstance(refused, ClaimNotCreated)
    assert refused.reason.code is ReasonCode.API_ERROR
    assert server.made == 1
    assert not isinstance(await specials.make(UNIT), ClaimNotCreated)
    assert server.made == 2
    assert rollback.released == [claim.name] * 2
    specials.forget(UNIT)
    assert not isinstance(await specials.make(UNIT), ClaimNotCreated)
    assert rollback.released == [claim.name] * 2


async def test_a_claim_of_the_leader_before_stays_while_a_late_binding_of_its_pod_may_come() -> None:
    """The pod would be bound to the node of this claim, and wait there for ever."""
    now, server, rollback = 0.0, Server(), Releasing(leaves=0)
    cluster, line = cluster_of(POD), cast("Writer", OpenLine())
    specials = ExtendedResourceClaims(
        cast("Client", server), cluster, line, cast("Rollback", rollback), clock=lambda: now
    )
    earlier = msgspec.structs.replace(
        SPECIAL.as_claim(POD.uid), id=ClaimId("default", "earlier"), uid="earlier", allocation=b.allocation()
    )
    show(cluster, earlier)
    specials.inherit(15.0)

    assert isinstance(await specials.make(UNIT), ClaimNotCreated)
    assert not await specials.remove(earlier, (POD.id, POD.uid))
    assert rollback.released == []
    now = 15.0
    assert not isinstance(await specials.make(UNIT), ClaimNotCreated)
    assert rollback.released == ["earlier"]


async def test_a_claim_that_no_write_has_allocated_is_removed_at_once_after_taking_over() -> None:
    server, rollback = Server(), Releasing(leaves=0)
    cluster, line = cluster_of(POD), cast("Writer", OpenLine())
    specials = ExtendedResourceClaims(cast("Client", server), cluster, line, cast("Rollback", rollback))
    show(cluster, msgspec.structs.replace(SPECIAL.as_claim(POD.uid), id=ClaimId("default", "earlier"), uid="earlier"))
    specials.inherit(15.0)

    assert not isinstance(await specials.make(UNIT), ClaimNotCreated)
    assert rollback.released == ["earlier"]


@pytest.mark.parametrize(
    ("scheduler", "used", "is_deleted"),
    [
        pytest.param("dovetail", "used", True, id="bound with another claim"),
        pytest.param("dovetail", "late", False, id="bound with this claim"),
        pytest.param("dovetail", "", False, id="bound without a claim"),
        pytest.param("other", "used", False, id="bound by another scheduler"),
    ],
)
async def test_a_claim_that_came_late_is_deleted_where_its_pod_is_bound_with_another_one(
    scheduler: str, used: str, *, is_deleted: bool
) -> None:
    server = Server({"extendedResourceClaimStatus": {"resourceClaimName": used}})
    cluster, line = cluster_of(POD), cast("Writer", OpenLine())
    show(cluster, msgspec.structs.replace(POD, node_name="n1", scheduler_name=scheduler))
    late = msgspec.structs.replace(SPECIAL.as_claim(POD.uid), id=ClaimId("default", "late"), uid="late")
    show(cluster, msgspec.structs.replace(late, resource_version="7"))
    specials = ExtendedResourceClaims(cast("Client", server), cluster, line, cast("Rollback", None))
    queue = SchedulingQueue(["dovetail"])

    await OrphanedClaims(cluster, queue, specials, Metrics(), scheduler_names=["dovetail"]).remove()

    assert server.deleted == ([("late", {"uid": "late", "resourceVersion": "7"})] if is_deleted else [])
