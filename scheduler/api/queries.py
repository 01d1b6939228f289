"""What callers ask: path, header and query parameters; and what every document has."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.api import selector_parameter
from solver.domain import ClaimId, LabelSelector, PodId
from solver.domain.fleet import FleetQuery, Grouping

PREFIX: Final = "/v1alpha1"
CALLER_HEADER: Final = "Dovetail-Authorization"
NOT_LEADING: Final = "NotLeading"
API_VERSION: Final = "api.dovetail.dev/v1alpha1"
MOST_ITEMS: Final = 1_000
"""The most items of a document."""
MOST_DEVICES: Final = 50_000
"""The most devices of a document: about 20 MB."""
_NAME: Final = re.compile(r"[-.a-z0-9]{0,253}")
_MAX: Final = "max"
_MOST_COPIES: Final = 100_000
_LONGEST_SECONDS: Final = 366 * 86400.0


class QueryError(ValueError):
    """A parameter is wrong; the message names it and says what to write."""


class Query(msgspec.Struct, frozen=True):
    """
    One question: about a namespace (""; all), a pod of it ("": all), the last `since` seconds.

    `limit` is the most items; `by` is what usage is summed up by. `content` was posted, and `count` is how many copies
    of it are asked about (None: not asked, 0: as many as fit); `add_nodes` asks which nodes to add for it. `watch` asks
    for every change too. `fleet`, `groupings` and `group_label` ("": that of the configuration) are for questions about
    devices.
    """

    namespace: str = ""
    pod: str = ""
    since: float = 3600.0
    limit: int = 200
    by: str = "namespace"
    count: int | None = None
    content: bytes = b""
    watch: bool = False
    add_nodes: bool = False
    fleet: FleetQuery = FleetQuery()
    groupings: tuple[Grouping, ...] = ()
    group_label: str = ""


class Parameters(msgspec.Struct, frozen=True):
    """The parameters that an answer takes, the values of `by` (one, or with `is_list` several), and the most items."""

    names: tuple[str, ...]
    by: tuple[str, ...] = ()
    is_list: bool = False
    most_items: int = MOST_ITEMS


HISTORY: Final = Parameters(("namespace", "pod", "since", "limit"))
USAGE: Final = Parameters(("namespace", "since", "limit", "by"), by=("namespace", "label", "class"))
QUEUE: Final = Parameters(("namespace", "pod", "limit"))
DEVICES: Final = Parameters(
    ("namespace", "pod", "claim", "node", "selector", "groupLabel", "limit"), most_items=MOST_DEVICES
)
FREE: Final = Parameters(
    ("namespace", "pod", "claim", "node", "selector", "groupLabel", "by"),
    by=tuple(each.value for each in Grouping),
    is_list=True,
)


def read(parameters: Mapping[str, str], taken: Parameters) -> Query:
    """Read the query of a URL. Raise `QueryError`."""
    unknown = sorted(set(parameters) - set(taken.names))
    if unknown:
        raise QueryError(f"{unknown[0]}: unknown parameter, write one of: {', '.join(taken.names)}")
    namespace, pod, claim, node = (_name(parameters, each) for each in ("namespace", "pod", "claim", "node"))
    for name, value in (("pod", pod), ("claim", claim)):
        if value and not namespace:
            raise QueryError(f"{name}: needs a namespace, write namespace=NAME")
    by = tuple(parameters.get("by", "").split(",")) if "by" in parameters else taken.by[:1]
    if not set(by) <= set(taken.by) or (len(by) > 1 and not taken.is_list):
        raise QueryError(f"by: write {'some' if taken.is_list else 'one'} of: {', '.join(taken.by)}")
    return Query(
        namespace=namespace,
        pod=pod,
        since=_number(parameters, "since", 3600.0, _LONGEST_SECONDS),
        limit=int(_number(parameters, "limit", 200, taken.most_items)),
        by=by[0] if by else "",
        count=_count(parameters),
        watch=_is_true(parameters, "watch"),
        add_nodes=_is_true(parameters, "addNodes"),
        fleet=FleetQuery(
            node=node,
            nodes=_selector(parameters),
            namespace=namespace,
            claim=ClaimId(namespace, claim) if claim else None,
            pod=PodId(namespace, pod) if pod else None,
        ),
        groupings=tuple(map(Grouping, by)) if taken.is_list else (),
        group_label=parameters.get("groupLabel", ""),
    )


def _name(parameters: Mapping[str, str], name: str) -> str:
    value = parameters.get(name, "")
    if _NAME.fullmatch(value) is None:
        raise QueryError(f"{name}: is no name, write at most 253 of a-z, 0-9, - and .")
    return value


def _count(parameters: Mapping[str, str]) -> int | None:
    if parameters.get("count", _MAX) == _MAX:
        return 0 if "count" in parameters else None
    return int(_number(parameters, "count", 1, _MOST_COPIES))


def _is_true(parameters: Mapping[str, str], name: str) -> bool:
    value = parameters.get(name, "false")
    if value not in {"true", "false"}:
        raise QueryError(f"{name}: {value!r} is not valid, write true or false")
    return value == "true"


def _selector(parameters: Mapping[str, str]) -> LabelSelector | None:
    text = parameters.get("selector")
    if text is None:
        return None
    try:
        return selector_parameter.parse(text)
    except selector_parameter.LabelSelectorError as error:
        raise QueryError(f"selector: {error}") from error


def _number(parameters: Mapping[str, str], name: str, default: float, most: float) -> float:
    try:
        value = float(parameters.get(name, default))
    except ValueError:
        value = -1.0
    if not 1 <= value <= most:
        raise QueryError(f"{name}: {parameters.get(name)!r} is not valid, write a number from 1 to {most:.0f}")
    return value
