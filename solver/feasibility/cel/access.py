"""Reading fields and items of values at run time, by the rules of cel-go's attributes."""

from itertools import islice
from typing import Final

from solver.feasibility.cel.errors import EvaluationError
from solver.feasibility.cel.values import NONE, DomainMap, Optional, UInt, Value, keys_of, map_key, type_name

MISSING: Final = object()
"""What `find` gives for what is not there."""

SUFFIXES: Final = frozenset({"string", "int", "bool", "version", "quantity", "value"})
"""Fields of the API object that manifests append to a value, where the language has none."""

_SOME_KEYS: Final = 5
_LONGEST_KEY: Final = 16


def find(container: Value, key: Value) -> Value:
    """Look a key or index up; MISSING where there is none, EvaluationError for an index that is no number."""
    kind = type(container)
    if kind is dict:
        try:
            return container.get(key if type(key) is str else map_key(key), MISSING)
        except EvaluationError:
            return MISSING
    if kind is DomainMap:
        return container.get(key, {}) if type(key) is str else {}
    if kind is list:
        at = _index(key)
        return container[at] if 0 <= at < len(container) else MISSING
    return MISSING


def _index(key: Value) -> int:
    if type(key) is int or type(key) is UInt:
        return int(key)
    if type(key) is float and key.is_integer():
        return int(key)
    raise EvaluationError("a {} is no index of a list", type_name(key))


def get(container: Value, key: Value) -> Value:
    """Look a key or index up that must be there; what is read through an optional is an optional."""
    if type(container) is Optional:
        return get_optional(container, key)
    value = find(container, key)
    if value is MISSING:
        raise _missing(container, key)
    return value


def get_optional(container: Value, key: Value) -> Optional:
    """Look a key or index up that may be missing."""
    if type(container) is Optional:
        if not container.has_value:
            return NONE
        container = container.value
    value = find(container, key)
    return NONE if value is MISSING else Optional(value)


def is_present(container: Value, key: Value) -> bool:
    """Decide `has(container.key)`."""
    if type(container) is Optional:
        return container.has_value and find(container.value, key) is not MISSING
    return find(container, key) is not MISSING


def _missing(container: Value, key: Value) -> EvaluationError:
    if type(container) is list:
        return EvaluationError("index {} is out of range: the list has {} items", key, len(container))
    if type(container) is dict:
        some = ", ".join(sorted(str(key)[:_LONGEST_KEY] for key in islice(keys_of(container), _SOME_KEYS)))
        return EvaluationError("no such key: {!r}; there are {}: {}", key, len(container), some)
    if key in SUFFIXES:
        return EvaluationError(
            "a {} has no field {}: a value is used bare, without .{}", type_name(container), key, key
        )
    return EvaluationError("a {} has no field {}", type_name(container), key)
