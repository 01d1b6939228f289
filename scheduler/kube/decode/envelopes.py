"""
Pages of a list and lines of a watch, split into objects.

One object that the fast decoder cannot skip must not fail its whole page. Then the page is split by `json_parts`, and
each object is decoded, or fails, by itself.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.kube.decode import json_parts
from scheduler.kube.decode.json_parts import SubstitutedJson
from scheduler.kube.decode.shared_fields import Wire

Raw = bytes | msgspec.Raw


class Page(NamedTuple):
    """A page of a list; `continue_token` is "" on the last one. `substituted` is set where parts were substituted."""

    resource_version: str
    continue_token: str
    items: Sequence[Raw]
    substituted: SubstitutedJson | None = None


class Event(NamedTuple):
    """A line of a watch; `substituted` as in `Page`."""

    type: str
    object: Raw
    substituted: SubstitutedJson | None = None


class _ListMetadata(Wire, frozen=True):
    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")


class _List(Wire, frozen=True):
    metadata: _ListMetadata = _ListMetadata()
    items: list[msgspec.Raw] | None = None


class _Event(Wire, frozen=True):
    type: str
    object: msgspec.Raw


_list: Final = msgspec.json.Decoder(_List)
_list_metadata: Final = msgspec.json.Decoder(_ListMetadata)
_event: Final = msgspec.json.Decoder(_Event)
_text: Final = msgspec.json.Decoder(str)


def read_page(body: bytes) -> Page:
    """Split a page. Raises ValueError if it is no list."""
    try:
        wire, substituted = json_parts.decode(_list, body)
    except msgspec.ValidationError:
        raise
    except (ValueError, RecursionError):  # one of its objects is no JSON
        parts = json_parts.members(body)
        metadata = _list_metadata.decode(parts.get("metadata", b"{}"))
        items = parts.get("items", b"null")
        apart = [] if items == b"null" else json_parts.elements(items)
        return Page(metadata.resource_version, metadata.continue_token, apart)
    return Page(wire.metadata.resource_version, wire.metadata.continue_token, wire.items or (), substituted)


def read_event(line: bytes) -> Event:
    """Split a line. Raises ValueError if it is no event."""
    try:
        wire, substituted = json_parts.decode(_event, line)
    except msgspec.ValidationError:
        raise
    except (ValueError, RecursionError):
        parts = json_parts.members(line)
        if not {"type", "object"} <= parts.keys():
            raise json_parts.BrokenJsonError("it has no type or no object") from None
        return Event(_text.decode(parts["type"]), parts["object"])
    return Event(wire.type, wire.object, substituted)
