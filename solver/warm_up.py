"""Solve a tiny case once, so that the first real one does not pay for loading grammars and engines."""

from typing import Final

from solver.decide import solve
from solver.domain import (
    Batch,
    Budget,
    Claim,
    ClaimId,
    Device,
    DeviceClass,
    Node,
    NodeScope,
    Pod,
    PodClaim,
    PodId,
    Policy,
    Request,
    ResourceSlice,
    Snapshot,
    SubRequest,
)
from solver.engines import cpsat, linear

_DRIVER: Final = "warm-up.example.com"


def solve_warm_up_case() -> None:
    """Load the engines, and decide two pods and three devices."""
    cpsat.engine()
    linear.engine()
    wanted = SubRequest(device_class="any", count=2)
    claims = tuple(
        Claim(id=ClaimId("warm-up", name), uid=name, requests=(Request(name="r", alternatives=(wanted,)),))
        for name in ("a", "b")
    )
    pods = tuple(
        Pod(id=PodId(*claim.id), uid=claim.uid, claims=(PodClaim(entry="r", claim=claim.id),)) for claim in claims
    )
    snapshot = Snapshot(
        nodes=(Node(name="n", allocatable=(("pods", 2),)),),
        slices=(
            ResourceSlice(
                name="s",
                driver=_DRIVER,
                pool="n",
                generation=1,
                slice_count=1,
                scope=NodeScope(node_name="n"),
                devices=tuple(Device(name=f"d{index}") for index in range(3)),
            ),
        ),
        classes=(DeviceClass(name="any", selectors=(f"device.driver == '{_DRIVER}'",)),),
        claims=claims,
    )
    solve(snapshot, Batch(pods=pods), Policy(), Budget())
