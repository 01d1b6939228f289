"""
The corpus: an object of each kind and API version with every field set, made from the Go types of each Kubernetes.

`python -m e2e.controlplane.corpus` writes the files. A field is named by its path, such as `spec.containers[].name`,
or `spec.devices[].attributes.*.int` below a map of qualified names.
"""

import base64
import copy
import functools
import json
import lzma
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDER: Final = Path(__file__).parents[1] / "golden" / "corpus"
MAP_KEYS: Final = frozenset({"key", "cpu", "storage", "gpu.example.com/memory", "gpu.example.com/model"})
"""The keys of the corpus' maps, which are no names of fields."""
OPAQUE: Final = frozenset({"parameters", "fieldsV1"})
"""Fields whose value is JSON that the API does not define."""

Json = dict[str, Any]
Key = str | int
Location = tuple[Key, ...]


class Corpus(NamedTuple):
    """
    The objects of one Kubernetes by apiVersion and kind; the claim of resource.k8s.io/v1 as protobuf too.

    `merge_keys` are those of a strategic merge patch, by kind and path of the list.
    """

    objects: Mapping[tuple[str, str], Json]
    merge_keys: Mapping[str, str]
    claim: bytes


@functools.cache
def corpus(kubernetes: str) -> Corpus:
    """Read the corpus of a version; the caller changes nothing of it."""
    found = json.loads(lzma.decompress((FOLDER / f"{kubernetes}.json.xz").read_bytes()))
    objects = {(each["apiVersion"], each["kind"]): each for each in found["objects"]}
    return Corpus(objects, found["mergeKeys"], base64.b64decode(found["claim"]))


def leaves(value: Any, at: Location = ()) -> Iterator[Location]:
    """Return where the values are: texts, numbers, truths, and what has no fields of its own."""
    parts = _parts(value, at)
    if not parts:
        yield at
    for key in parts:
        yield from leaves(value[key], (*at, key))


def path_of(at: Location) -> str:
    """Return the path of a field: `("attributes", "example.com/model", 0)` is `attributes.*[]`."""
    text = "".join("[]" if isinstance(key, int) else ".*" if "/" in key else f".{key}" for key in at)
    return text.removeprefix(".")


def parts_of(path: str) -> Location:
    """Return the location of a path, in lists the first element."""
    found: list[Key] = []
    for name in path.split("."):
        found.append(name.removesuffix("[]"))
        if name.endswith("[]"):
            found.append(0)
    return tuple(found)


def is_below(path: str, prefix: str) -> bool:
    """Whether a path is the prefix or a part of it."""
    return path == prefix or path.startswith((f"{prefix}.", f"{prefix}[]"))


def get(value: Any, at: Location) -> Any:
    """Return the value at a location; the key `*` is the only one of a map."""
    for key in at:
        value = next(iter(value.values())) if key == "*" else value[key]
    return value


def edited(value: Json, edits: Mapping[str, Any]) -> Json:
    """Return a copy with fields set, or removed where the value is None; without their parents they stay away."""
    found = copy.deepcopy(value)
    for path, new in edits.items():
        *above, last = parts_of(path)
        try:
            parent = get(found, tuple(above))
        except (KeyError, IndexError):
            continue
        if isinstance(parent, dict) and new is None:
            parent.pop(last, None)
        elif isinstance(parent, dict):
            parent[last] = new
    return found


def changed(value: Any) -> Any:
    """Return another value of the same type."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str() if value.isdecimal():
            return str(int(value) + 1)
        case str() if value.startswith("2026-"):
            return value.replace("2026-", "2025-")
        case str():
            return f"{value}-other"
        case _:
            return value


def all_changed(value: Any) -> Any:
    """Return the value with every text, number and truth in it changed."""
    match value:
        case dict():
            return {key: all_changed(part) for key, part in value.items()}
        case list():
            return [all_changed(part) for part in value]
        case _:
            return changed(value)


def unread(whole: Json, views: Sequence[Json], decoded: Callable[[Json], object]) -> Iterator[Location]:
    """
    Return the fields that count in no view of an object: neither their removal nor another value changes the result.

    A field of which nothing is read is given as one, without its parts. A field may be missing in a view.
    """
    found: list[Location] = [(key,) for key in whole]
    for view in views:
        wanted = decoded(view)

        def counts(at: Location, view: Json = view, wanted: object = wanted) -> bool:
            """Whether a part of the view is there and is read."""
            if not _has(view, at):
                return False
            return decoded(_with_other(view, at)) != wanted or decoded(_without(view, at)) != wanted

        found = [part for at in found for part in _split(whole, counts, at)]
    yield from found


def _split(whole: Json, counts: Callable[[Location], bool], at: Location) -> Iterator[Location]:
    """Return the parts that do not count."""
    if not counts(at):
        yield at
        return
    for key in _parts(get(whole, at), at):
        yield from _split(whole, counts, (*at, key))


def _has(value: Json, at: Location) -> bool:
    try:
        get(value, at)
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _parts(inside: Any, at: Location) -> Sequence[Key]:
    if isinstance(inside, dict) and not (at and at[-1] in OPAQUE):
        return list(inside)
    return range(len(inside)) if isinstance(inside, list) else ()


def _with_other(value: Any, at: Location) -> Any:
    """Return the object with other values in one part of it."""
    return all_changed(value) if not at else _replaced(value, at[0], _with_other(value[at[0]], at[1:]))


def _without(value: Any, at: Location) -> Any:
    """Return the object without one part of it."""
    if len(at) > 1:
        return _replaced(value, at[0], _without(value[at[0]], at[1:]))
    if isinstance(value, list):
        return [part for index, part in enumerate(value) if index != at[0]]
    return {key: part for key, part in value.items() if key != at[0]}


def _replaced(value: Any, key: Key, part: Any) -> Any:
    if isinstance(value, list):
        return [part if index == key else each for index, each in enumerate(value)]
    return {**value, key: part}
