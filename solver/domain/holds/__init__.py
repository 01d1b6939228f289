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
from solver.domain.holds.pod_matcher import (
    MATCHED_ANNOTATIONS,
    OF_LABEL,
    MatcherIndex,
    MatchKey,
    PodMatcher,
    match_keys,
)

__all__ = [
    "MATCHED_ANNOTATIONS",
    "OF_LABEL",
    "PLACE_ANNOTATION",
    "DeviceHold",
    "HeldPlace",
    "HoldOwner",
    "LostPlace",
    "MatchKey",
    "MatcherIndex",
    "PlaceDevice",
    "PodMatcher",
    "Seat",
    "match_keys",
    "open_seats",
    "with_used",
]
