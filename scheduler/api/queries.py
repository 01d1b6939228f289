"""What callers ask: the query parameters, and what every document has."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

API_VERSION: Final = "api.dovetail.dev/v1alpha1"
MOST_ITEMS: Final = 1_000
"""The most items of a document."""
_NAME: Final = re.compile(r"[-.a-z0-9]{0,253}")
_LONGEST_SECONDS: Final = 366 * 86400.0


class QueryError(ValueError):
    """A parameter is wrong; the message names it and says what to write."""


class HiddenCounts(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How much a document leaves out, because the caller may not list it."""

    pods: int = 0
    devices: int = 0
    namespaces: int = 0


class Query(msgspec.Struct, frozen=True):
    """
    One question: about a namespace (""; all), a pod of it ("": all), the last `since` seconds.

    `limit` is the most items; `by` is what usage is summed up by.
    """

    namespace: str = ""
    pod: str = ""
    since: float = 3600.0
    limit: int = 200
    by: str = "namespace"


_USED_BY: Final = ("namespace", "label", "class")


def read(parameters: Mapping[str, str]) -> Query:
    """Read the query of a URL. Raise `QueryError`."""
    unknown = sorted(set(parameters) - {"namespace", "pod", "since", "limit", "by"})
    if unknown:
        raise QueryError(f"{unknown[0]}: unknown parameter, write one of: namespace, pod, since, limit, by")
    for name in ("namespace", "pod"):
        if _NAME.fullmatch(parameters.get(name, "")) is None:
            raise QueryError(f"{name}: is no name, write at most 253 of a-z, 0-9, - and .")
    if parameters.get("pod") and not parameters.get("namespace"):
        raise QueryError("pod: needs a namespace, write namespace=NAME")
    if parameters.get("by", "namespace") not in _USED_BY:
        raise QueryError(f"by: write one of: {', '.join(_USED_BY)}")
    return Query(
        namespace=parameters.get("namespace", ""),
        pod=parameters.get("pod", ""),
        since=_number(parameters, "since", 3600.0, _LONGEST_SECONDS),
        limit=int(_number(parameters, "limit", 200, MOST_ITEMS)),
        by=parameters.get("by", "namespace"),
    )


def _number(parameters: Mapping[str, str], name: str, default: float, most: float) -> float:
    try:
        value = float(parameters.get(name, default))
    except ValueError:
        value = -1.0
    if not 1 <= value <= most:
        raise QueryError(f"{name}: {parameters.get(name)!r} is not valid, write a number from 1 to {most:.0f}")
    return value
