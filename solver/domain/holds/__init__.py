"""Room that is held for pods to come (DeviceHold, dovetail.dev) as values: places, and which pods may use them."""

from solver.domain.holds.device_hold import (
    PLACE_ANNOTATION,
    DeviceHold,
    HeldPlace,
    HoldOwner,
    LostPlace,
    PlaceDevice,
    Seat,
    open_seats,
    with_used,
)
from solver.domain.holds.pod_matcher import MATCHED_ANNOTATIONS, MatcherIndex, PodMatcher

__all__ = [
    "MATCHED_ANNOTATIONS",
    "PLACE_ANNOTATION",
    "DeviceHold",
    "HeldPlace",
    "HoldOwner",
    "LostPlace",
    "MatcherIndex",
    "PlaceDevice",
    "PodMatcher",
    "Seat",
    "open_seats",
    "with_used",
]
