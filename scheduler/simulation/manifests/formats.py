"""The formats of names in the API; each function says what is wrong with a value, "" where nothing is."""

import re
from collections.abc import Callable, Collection
from typing import Any, Final

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMERIC: Final = r"(?:0|[1-9][0-9]*)"
_PRE_RELEASE: Final = r"(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION: Final = re.compile(
    rf"{_NUMERIC}\.{_NUMERIC}\.{_NUMERIC}(?:-{_PRE_RELEASE}(?:\.{_PRE_RELEASE})*)?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?"
)
_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253
_LONGEST_ID: Final = 32
_LONGEST_VALUE: Final = 64
_SHOWN: Final = 80

Rule = Callable[[Any], str]


def required(value: Any) -> str:
    """A value that is neither absent nor empty."""
    return "missing: write one" if value is None or value in ("", [], {}) else ""


def given(value: Any) -> str:
    """A value that is not empty where it is written."""
    return "is empty: write one, or leave it out" if value == "" else ""


def label(value: Any) -> str:
    """A DNS label (RFC 1123)."""
    return _formed(value, _LABEL, _LONGEST_LABEL, "a-z, 0-9 and -, with a letter or digit at both ends")


def subdomain(value: Any) -> str:
    """A DNS subdomain (RFC 1123)."""
    return _formed(value, _SUBDOMAIN, _LONGEST_SUBDOMAIN, "a-z, 0-9, - and ., with a letter or digit at both ends")


def driver(value: Any) -> str:
    """The name of a driver: a subdomain in which capitals may stand."""
    return _formed(
        value.lower() if isinstance(value, str) else value, _SUBDOMAIN, _LONGEST_LABEL, "a name such as gpu.example.com"
    )


def pool(value: Any) -> str:
    """The name of a pool: subdomains with slashes between them."""
    if not isinstance(value, str) or not value:
        return ""
    if len(value) > _LONGEST_SUBDOMAIN:
        return f"has {len(value)} characters: write at most {_LONGEST_SUBDOMAIN}"
    return next((wrong for part in value.split("/") if (wrong := subdomain(part) or required(part))), "")


def label_key(value: Any) -> str:
    """The key of a label or taint: a name with an optional domain and slash in front of it."""
    if not isinstance(value, str):
        return ""
    domain, slash, name = value.rpartition("/")
    characters = "a domain, / and a name of letters, digits, -, _ and ."
    wrong = (slash and (required(domain) or subdomain(domain))) or required(name)
    return _no(value, characters) if wrong else _formed(name, _NAME, _LONGEST_LABEL, characters)


def label_value(value: Any) -> str:
    """The value of a label or taint."""
    return _formed(value, _NAME, _LONGEST_LABEL, "letters, digits, -, _ and ., with a letter or digit at both ends")


def qualified(value: Any) -> str:
    """The name of an attribute or a capacity, with or without a domain."""
    if not isinstance(value, str):
        return ""
    domain, slash, name = value.partition("/")
    if "/" in name:
        return ""  # the API server does not look at more than one slash
    name = name if slash else domain
    wrong = (slash and (required(domain) or driver(domain))) or required(name)
    instead = f"a name of at most {_LONGEST_ID} letters, digits and _, with or without <domain>/ in front"
    return _no(value, instead) if wrong else _formed(name, _IDENTIFIER, _LONGEST_ID, instead)


def version(value: Any) -> str:
    """A semantic version."""
    return _formed(value, _VERSION, _LONGEST_VALUE, "a semantic version such as 1.2.3")


def extended_resource(value: Any) -> str:
    """The name of an extended resource."""
    if not isinstance(value, str) or is_extended(value):
        return ""
    return _no(value, "a name with a domain that is not kubernetes.io, such as example.com/gpu")


def is_native(name: str) -> bool:
    """Whether a resource belongs to Kubernetes itself."""
    return "/" not in name or "kubernetes.io/" in name


def is_overcommitted(name: str) -> bool:
    """Whether a request of a resource may be below its limit (`IsOvercommitAllowed`)."""
    return is_native(name) and not name.startswith("hugepages-")


def is_extended(name: str) -> bool:
    """Whether a name is that of an extended resource (`IsExtendedResourceName`)."""
    return not is_native(name) and not name.startswith("requests.") and not label_key(f"requests.{name}")


def short(value: Any) -> str:
    """A text of an attribute."""
    size = len(value.encode("utf-8", "replace")) if isinstance(value, str) else 0
    return f"has {size} bytes: write at most {_LONGEST_VALUE}" if size > _LONGEST_VALUE else ""


def one_of(*allowed: str) -> Rule:
    """One of some words; an empty one counts as absent."""
    instead = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
    return lambda value: _no(value, instead) if isinstance(value, str) and value and value not in allowed else ""


def between(least: int, most: int | None = None) -> Rule:
    """A number within bounds."""
    instead = f"{least} or more" if most is None else f"{least} to {most}"

    def rule(value: Any) -> str:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return f"is {value}: write {instead}" if is_number and not least <= value <= (most or value) else ""

    return rule


def at_most(count: int) -> Rule:
    """A list or mapping of at most so many entries."""
    return lambda value: (
        f"are {len(value)}: at most {count} are allowed"
        if isinstance(value, list | dict) and len(value) > count
        else ""
    )


def unique(*fields: str) -> Rule:
    """A list of which no two entries agree, or agree in these fields."""

    def rule(value: Any) -> str:
        known: set[tuple[str, ...]] = set()
        for entry in value if isinstance(value, list) else ():
            key = _key(entry, fields)
            if key in known:
                return f"{'/'.join(key)} stands twice: leave it out, or write another one"
            known.add(key)
        return ""

    return rule


def _key(entry: Any, fields: Collection[str]) -> tuple[str, ...]:
    if not fields:
        return (str(entry),)
    return tuple(str(entry.get(name) or "") for name in fields) if isinstance(entry, dict) else (str(entry),)


def each(rule: Rule) -> Rule:
    """A list of which each entry follows a rule."""
    return lambda value: (
        next((wrong for entry in value if (wrong := rule(entry))), "") if isinstance(value, list) else ""
    )


def keys(rule: Rule) -> Rule:
    """A mapping of which each key follows a rule."""
    return lambda value: next((wrong for key in value if (wrong := rule(key))), "") if isinstance(value, dict) else ""


def values(rule: Rule) -> Rule:
    """A mapping of which each value follows a rule."""
    return lambda value: (
        next((wrong for entry in value.values() if (wrong := rule(entry))), "") if isinstance(value, dict) else ""
    )


def _formed(value: Any, pattern: re.Pattern[str], longest: int, instead: str) -> str:
    if not isinstance(value, str) or not value:
        return ""
    if len(value) > longest:
        return f"has {len(value)} characters: write at most {longest}"
    return "" if pattern.fullmatch(value) else _no(value, instead)


def _no(value: Any, instead: str) -> str:
    return f"{str(value)[:_SHOWN]!r}: write {instead}"
