"""
Strict field validation: unknown fields and values of a wrong type, as the API server reports them to kubectl.

Fields and types are those of the server's version (`api_schema`). An unknown field that belongs elsewhere, that is of
an older version, or that is misspelt says so.
"""

import datetime as dt
import difflib
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from scheduler.simulation.manifests import api_schema, value_rules
from scheduler.simulation.manifests.fields import Body, FieldError, text
from solver.domain.quantity import QuantityError, parse

_CLOSE: Final = 0.8
_DEEPEST: Final = 4
"""Levels below an object that are searched for the place of a field."""
_MOST_NAMED: Final = 8
_OLDER: Final[Mapping[tuple[str, str], str]] = {
    ("ResourceClaimSpec", "resourceClassName"): "is of resource.k8s.io/v1alpha2: write "
    "devices: {requests: [{name: …, exactly: {deviceClassName: …}}]}",
    (
        "ResourceClaimSpec",
        "parametersRef",
    ): "is of resource.k8s.io/v1alpha2: write devices.config with opaque parameters",
    ("ResourceClaimSpec", "allocationMode"): "is of resource.k8s.io/v1alpha2, where it said when a claim is allocated: "
    "leave it out, claims are allocated for their pods",
    ("PodResourceClaim", "source"): "is of Kubernetes 1.30 and older: write its resourceClaimName or "
    "resourceClaimTemplateName here",
    ("ResourceSliceSpec", "nodeResources"): "is of resource.k8s.io/v1alpha2: write devices",
}
"""What older versions had, by type and field, with what is written today."""
_RANGES: Final = {"int32": 2**31, "int64": 2**63}
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_FOUND: Final = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list"}


class _Place(NamedTuple):
    """An object on the way to a value: its type and path, and the one that it is in."""

    type_name: str
    path: str
    outer: "_Place | None"


def of_object(body: Body, minor: int) -> Iterator[FieldError]:
    """Return the unknown fields and the values of a wrong type; none for a kind that is not of Kubernetes."""
    schema = api_schema.load()
    name = f"{text(body.get('apiVersion'))}/{text(body.get('kind'))}"
    minor = schema.served(name, minor)
    type_name = schema.kind(name, minor)
    if type_name and not _is_from_a_server(body):
        yield from _Reader(schema, minor).of_object(body, _Place(type_name, "", None))


def _is_from_a_server(body: Body) -> bool:
    """Whether an API server has written the object: it has checked the fields, maybe of another version."""
    found = body.get("metadata")
    return isinstance(found, dict) and bool(found.get("resourceVersion") and found.get("creationTimestamp"))


class _Reader:
    """Compares values with the types of one version."""

    def __init__(self, schema: api_schema.ApiSchema, minor: int) -> None:
        self._schema = schema
        self._minor = minor

    def of_object(self, body: Body, place: _Place) -> Iterator[FieldError]:
        for name, value in body.items():
            path = f"{place.path}.{name}" if place.path else name
            reference = self._schema.field(place.type_name, name, self._minor)
            if reference:
                yield from self._of_value(value, reference, path, place)
            else:
                yield FieldError(path, self._unknown(name, place))
        for field, message in value_rules.of_object(body, place.type_name):
            yield FieldError(f"{place.path}.{field}".strip("."), message)

    def _of_value(self, value: Any, reference: str, path: str, place: _Place) -> Iterator[FieldError]:
        if value is None or reference == "any":
            return
        if reference.startswith("[]"):
            if not isinstance(value, list):
                yield FieldError(path, expected("a list", value))
                return
            for index, each in enumerate(value):
                yield from self._of_value(each, reference[2:], f"{path}[{index}]", place)
        elif reference.startswith("{}") or "." in reference:
            if not isinstance(value, dict):
                yield FieldError(path, expected("a mapping", value))
            elif "." in reference:
                inner = reference.removeprefix("{}")
                yield from (
                    self.of_object(value, _Place(inner, path, place))
                    if inner == reference
                    else self._of_map(value, inner, path, place)
                )
            else:
                yield from self._of_map(value, reference[2:], path, place)
        elif wrong := _of_scalar(value, reference):
            yield FieldError(path, wrong)

    def _of_map(self, value: Body, inner: str, path: str, place: _Place) -> Iterator[FieldError]:
        for key, each in value.items():
            yield from self._of_value(each, inner, f"{path}[{key}]", place)

    def _unknown(self, name: str, place: _Place) -> str:
        """Say what an unknown field may have meant."""
        older = _OLDER.get((place.type_name.rpartition(".")[2], name))
        if older:
            return older
        if name in self._schema.types.get(place.type_name, ()):
            return self._of_other_version(name, place)
        known = self._schema.fields(place.type_name, self._minor)
        close = closest(name, known)
        if close:
            return f"there is no such field: did you mean {close}?"
        elsewhere = self._elsewhere(name, place)
        if elsewhere:
            return f"there is no such field here: write it as {elsewhere}"
        choices = f": write one of {', '.join(sorted(known))}" if 0 < len(known) <= _MOST_NAMED else ""
        return f"there is no such field{choices}"

    def _of_other_version(self, name: str, place: _Place) -> str:
        first, last = self._schema.minors(place.type_name, name)
        if self._minor < first:
            return f"is a field of Kubernetes 1.{first} and newer, and this is 1.{self._minor}: leave it out"
        return f"is a field of Kubernetes 1.{last} and older, and this is 1.{self._minor}: leave it out"

    def _elsewhere(self, name: str, place: _Place) -> str:
        """Return the path of a field of this name, below the object or one around it; the nearest first."""
        holder: _Place | None = place
        while holder is not None:
            found = self._below(name, holder)
            if found:
                return f"{holder.path}.{found}" if holder.path else found
            holder = holder.outer
        return ""

    def _below(self, name: str, holder: _Place) -> str:
        seen = {holder.type_name}
        queue = deque([(holder.type_name, "", 0)])
        while queue:
            type_name, path, depth = queue.popleft()
            fields = self._schema.fields(type_name, self._minor)
            if name in fields and depth:
                return f"{path}.{name}"
            for field, reference in fields.items():
                inner = reference.lstrip("[]{}")
                if "." in inner and inner not in seen and depth < _DEEPEST:
                    seen.add(inner)
                    mark = "[]" if reference.startswith("[]") else ""
                    queue.append((inner, f"{path}.{field}{mark}".lstrip("."), depth + 1))
        return ""


def _of_scalar(value: Any, reference: str) -> str:
    """Return what is wrong with a scalar; empty if it is right."""
    match reference:
        case "string":
            wrong = "" if isinstance(value, str) else expected("a text", value)
            return f"{wrong}: put it in quotes" if isinstance(value, bool | int | float) else wrong
        case "boolean":
            return "" if isinstance(value, bool) else expected("true or false", value)
        case "int32" | "int64":
            return _of_integer(value, _RANGES[reference])
        case "int-or-string":
            return "" if isinstance(value, str) else _of_integer(value, _RANGES["int32"])
        case "quantity":
            return _of_quantity(value)
        case "time":
            return _of_time(value)
    return ""


def expected(wanted: str, value: Any) -> str:
    """Say of a value what it should be, and what it is."""
    return f"expected {wanted}, got {_FOUND.get(type(value), 'a mapping')}"


def _of_integer(value: Any, bound: int) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        wrong = expected("a whole number", value)
        return f"{wrong}: leave out the quotes" if isinstance(value, str) and value.lstrip("-").isdecimal() else wrong
    if -bound <= value < bound:
        return ""
    return f"is larger than {bound - 1}: write less" if value > 0 else f"is less than {-bound}: write more"


def _of_quantity(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return expected("a quantity such as 10Gi", value)
    try:
        parse(str(value).strip())
    except QuantityError as error:
        return str(error)
    return ""


def _of_time(value: Any) -> str:
    instead = "write one such as 2026-01-31T12:00:00Z"
    if not isinstance(value, str):
        return f"{expected('a time', value)}: {instead}"
    try:
        is_time = _TIME.fullmatch(value) is not None and dt.datetime.fromisoformat(value[:19]) is not None
    except ValueError:
        is_time = False
    return "" if is_time else f"{value!r} is no time: {instead}"


def closest(name: str, known: Iterable[str]) -> str:
    """Return the known name that another one is nearly; empty without one."""
    folded = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=_CLOSE)
    return folded[close[0]] if close else ""
