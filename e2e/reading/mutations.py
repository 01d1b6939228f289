"""Manifests with one or two changes each: a field is left out, misspelt, moved, repeated, or has another value."""

import copy
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from scheduler.simulation.manifests import api_schema

MINOR: Final = 37
BASES: Final = tuple(yaml.safe_load_all(Path(__file__).with_name("bases.yaml").read_text(encoding="utf-8")))
_NUMBERS: Final = (-1, 0, 1, 2, 3, 33, 101, 65536, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 1.5)
_QUANTITIES: Final = ("-1", "0", "1", "500m", "0.5", "1e3", "10Gi", "3", "abc", "", "1.5Gi", 2, -3, 0.25)
_TEXTS: Final = (
    *(
        "",
        "a",
        "A",
        "x_y",
        "a.b",
        "a/b",
        "-a",
        "example.com/a",
        "Example.com/a",
        "kubernetes.io/x",
        "a" * 64,
        "b" * 254,
    ),
    *(
        "*",
        "5",
        "cpu",
        "memory",
        "metadata.name",
        "Exists",
        "Equal",
        "In",
        "NotIn",
        "DoesNotExist",
        "Gt",
        "Lt",
        "NoSchedule",
    ),
    *("PreferNoSchedule", "NoExecute", "None", "All", "ExactCount", "Never", "Always", "OnFailure", "Honor", "Ignore"),
    *("DoNotSchedule", "ScheduleAnyway", "TCP", "UDP", "SCTP", "Block", "ReadWriteOncePod", "ReadWriteMany", "Indexed"),
    *(
        "NonIndexed",
        "OrderedReady",
        "Immediate",
        "Retain",
        "Recycle",
        "PreemptLowerPriority",
        "1.2",
        "1.2.3",
        "hugepages-1Gi",
    ),
)
_TYPES: Final[tuple[Any, ...]] = (True, 5, "text", [], {}, [1], {"a": "b"}, None)

Path_ = tuple[str | int, ...]


class Mutant(NamedTuple):
    """A manifest and what was changed in it."""

    body: dict[str, Any]
    changes: tuple[str, ...]


def mutants(count: int, seed: int, kinds: Sequence[str] = ()) -> Iterator[Mutant]:
    """Return manifests; the same seed gives the same ones."""
    chance = random.Random(seed)  # noqa: S311 - test data
    bases = [each for each in BASES if not kinds or each["kind"] in kinds]
    for number in range(count):
        body = copy.deepcopy(bases[number % len(bases)])
        changes = tuple(_change(body, chance) for _ in range(1 if chance.random() < 0.7 else 2))
        yield Mutant(body, changes)


def _change(body: dict[str, Any], chance: random.Random) -> str:
    paths = [each for each in places(body) if each[0] not in {"apiVersion", "kind"} and each != ("metadata",)]
    path = chance.choice(paths)
    holder, key = _holder(body, path), path[-1]
    name = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).lstrip(".")
    change = chance.choice(
        (_leave_out, _value, _value, _value, _value, _other_type, _misspell, _move, _repeat, _add, _add)
    )
    return f"{name}: {change(body, path, holder, key, chance)}"


def places(value: Any, at: Path_ = ()) -> Iterator[Path_]:
    """Return the path of each field and item of an object."""
    if at:
        yield at
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in parts:
        yield from places(each, (*at, key))


def _holder(body: Any, path: Path_) -> Any:
    for key in path[:-1]:
        body = body[key]
    return body


def _type_of(body: dict[str, Any], path: Path_) -> str:
    """Return the type of the value at a path, "" where the API has none."""
    schema = api_schema.load()
    reference = schema.kind(f"{body['apiVersion']}/{body['kind']}", MINOR)
    for key in path:
        if isinstance(key, int):
            reference = reference.removeprefix("[]")
        elif reference.startswith("{}"):
            reference = reference.removeprefix("{}")
        else:
            reference = schema.field(reference, key, MINOR)
    return reference


def _leave_out(_: Any, __: Path_, holder: Any, key: Any, ___: random.Random) -> str:
    del holder[key]
    return "left out"


def _value(body: Any, path: Path_, holder: Any, key: Any, chance: random.Random) -> str:
    """Give another value of the right type; a map gets another key."""
    holder[key] = value = _made(_type_of(body, path), holder[key], chance)
    return f"becomes {str(value)[:60]!r}"


def _made(reference: str, now: Any, chance: random.Random) -> Any:
    match reference:
        case "string" | "time":
            return chance.choice(_TEXTS)
        case "boolean":
            return not now
        case "int32" | "int64":
            return chance.choice(_NUMBERS)
        case "quantity":
            return chance.choice(_QUANTITIES)
        case "int-or-string":
            return chance.choice((0, -1, 5, "50%", "5", "x", "150%"))
    if isinstance(now, dict) and reference.startswith("{}"):
        value = next(iter(now.values()), _made(reference[2:], "", chance))
        return {**now, chance.choice(_TEXTS): copy.deepcopy(value)}
    return [] if reference.startswith("[]") and chance.random() < 0.5 else {} if "." in reference else now


def _other_type(_: Any, __: Path_, holder: Any, key: Any, chance: random.Random) -> str:
    holder[key] = value = copy.deepcopy(chance.choice(_TYPES))
    return f"becomes {value!r}"


def _misspell(body: Any, path: Path_, holder: Any, key: Any, chance: random.Random) -> str:
    if not isinstance(key, str):
        return _repeat(body, path, holder, key, chance)
    wrong = chance.choice((key[:-1], key + "s", key.capitalize(), key.lower(), f"x{key}")) or "x"
    holder[wrong] = holder.pop(key)
    return f"written {wrong}"


def _move(body: Any, path: Path_, holder: Any, key: Any, chance: random.Random) -> str:
    """Move a field one or two objects up."""
    outer = [_holder(body, path[:end]) for end in range(1, len(path)) if isinstance(_holder(body, path[:end]), dict)]
    if not isinstance(key, str) or len(outer) < 2:
        return _repeat(body, path, holder, key, chance)
    value = holder.pop(key)
    chance.choice(outer[:-1]).setdefault(key, value)
    return "moved up"


def _repeat(_: Any, __: Path_, holder: Any, key: Any, chance: random.Random) -> str:
    """Repeat the items of a list."""
    found = holder if isinstance(holder, list) else holder[key]
    if not isinstance(found, list) or not found:
        holder[key] = None
        return "becomes null"
    times = chance.choice((1, 1, 3, 10, 40))
    found += [copy.deepcopy(found[0]) for _ in range(times)]
    return f"{times} more items"


def _add(body: Any, path: Path_, holder: Any, key: Any, chance: random.Random) -> str:
    """Add a field of the API."""
    schema = api_schema.load()
    while path and not ("." in (found := _type_of(body, path)) and found[0] not in "[{"):
        path = path[:-1]
    found = _type_of(body, path)
    value: Any = body
    for each in path:
        value = value[each]
    free = sorted(schema.fields(found, MINOR).keys() - value.keys()) if isinstance(value, dict) else []
    if not free:
        return _repeat(body, (*path, key), holder, key, chance)
    name = chance.choice(free)
    reference = schema.field(found, name, MINOR)
    made = (
        _made(reference.lstrip("[]"), None, chance)
        if not reference.startswith("{}")
        else {"a": _made(reference[2:], None, chance)}
    )
    value[name] = [made] if reference.startswith("[]") else made
    return f"with {name}: {str(value[name])[:60]}"
