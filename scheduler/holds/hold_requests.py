"""What other parts ask of the keeper of holds, and what they learn: requests, refusals and ends."""

from enum import StrEnum
from typing import NamedTuple

import msgspec

from solver.domain import DeviceHold, HeldPlace, HoldOwner


class HoldEnding(StrEnum):
    """Why a hold has ended."""

    USED = "used"
    """Pods have used up its places."""
    RELEASED = "released"
    """The repair or the admission check that made it needs it no more."""
    DEADLINE = "deadline"
    """Its deadline has passed."""
    OWNER = "owner"
    """Its owner is gone or has finished."""
    LOST = "lost"
    """Its last places were taken by others, or their nodes are gone."""
    DELETED = "deleted"
    """Another client has deleted it."""


class HoldRequest(msgspec.Struct, frozen=True, kw_only=True):
    """
    Room to hold: places, as `solver.places_of` makes them of a plan, for pods of an owner, and for how many seconds.

    Pods of a higher `priority` may take the room. `departing` are the uids of pods that still have some of it. With a
    `name` the request may be made again, by a later leader too: an owner has one hold of each name. Where `has_quota`,
    the owner's quota (Kueue's) bounds what is held for it instead of the limits for a namespace.
    """

    owner: HoldOwner
    places: tuple[HeldPlace, ...]
    priority: int = 0
    seconds: float
    departing: tuple[str, ...] = ()
    name: str = ""
    has_quota: bool = False


class HoldRefused(Exception):  # noqa: N818 - an answer, which callers expect
    """The room is not held; the message says why."""


class HoldNews(NamedTuple):
    """A hold has ended, or (`ending` is None) has lost a place."""

    hold: DeviceHold
    ending: HoldEnding | None
    message: str
