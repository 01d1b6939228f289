"""
The entries that lists and maps of objects are filled with, and how many of them the API server admits.

A table has one `Entry` for each path, written as in `spec.containers[].ports[]` and `metadata.labels{}`. Entries are as
short as validation allows, because more of them fit then. They have the fields that the API server adds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Manifest = dict[str, Any]
UNBOUNDED: Final = 10**9
"""No limit but the size of the object."""
_DIGITS: Final = "abcdefghijklmnopqrstuvwxyz"
_ANNOTATION_BYTES: Final = 256 * 1024
"""Of all keys and values of an object's annotations together (apimachinery, TotalAnnotationSizeLimitB)."""
_NAME_LENGTH: Final = 4


def name(index: int) -> str:
    """
    Make a short name of letters, of the same length for all indexes of a list.

    >>> name(0), name(27)
    ('aaaa', 'aabb')
    """
    letters = []
    for _ in range(_NAME_LENGTH):
        index, rest = divmod(index, len(_DIGITS))
        letters.append(_DIGITS[rest])
    return "".join(reversed(letters))


@dataclass(frozen=True, slots=True)
class Entry:
    """
    What one list or map is filled with.

    `make` gives the item of an index, for maps the pair of key and value. `most` is the API's limit. `holder` gives the
    entries of the list around it, where these differ from what that list is filled with else. `twin` is a field beside
    the list that must have the same value (limits of extended resources).
    """

    make: Callable[[int], Any]
    most: int = UNBOUNDED
    holder: Callable[[int], Any] | None = None
    twin: str = ""


Entries = Mapping[str, Entry]
EMPTY: Final = Entry(lambda index: (name(index), ""))
"""Labels, annotations and the like with short keys and no value."""


def with_prefix(prefix: str, entries: Entries) -> dict[str, Entry]:
    """Put a path in front of paths."""
    return {f"{prefix}.{path}": entry for path, entry in entries.items()}


def _owner(index: int) -> Manifest:
    return {"apiVersion": "v1", "kind": "A", "name": "a", "uid": name(index)}


METADATA: Final[Entries] = {
    "metadata.labels{}": EMPTY,
    "metadata.annotations{}": Entry(EMPTY.make, most=_ANNOTATION_BYTES // _NAME_LENGTH),
    "metadata.finalizers[]": Entry(lambda index: f"a/{name(index)}"),
    "metadata.ownerReferences[]": Entry(_owner),
}


def _requirement(index: int) -> Manifest:
    return {"key": name(index), "operator": "Exists"}


def _field(_: int) -> Manifest:
    return {"key": "metadata.name", "operator": "In", "values": ["a"]}


def valued(_: int) -> Manifest:
    """Make a requirement with values."""
    return {"key": "a", "operator": "In", "values": ["a"]}


LABEL_SELECTOR: Final[Entries] = {
    "matchLabels{}": EMPTY,
    "matchExpressions[]": Entry(_requirement),
    "matchExpressions[].values[]": Entry(name, holder=valued),
}
_NODE_TERM: Final[Entries] = {
    "matchExpressions[]": Entry(_requirement),
    "matchExpressions[].values[]": Entry(name, holder=valued),
    "matchFields[]": Entry(_field),
    "matchFields[].values[]": Entry(name, most=1, holder=_field),
}
NODE_TERM: Final = _NODE_TERM


def node_selector(most_terms: int = UNBOUNDED) -> dict[str, Entry]:
    """Give the lists of a node selector."""
    term = Entry(lambda _: {"matchExpressions": [{"key": "a", "operator": "Exists"}]}, most=most_terms)
    return {"nodeSelectorTerms[]": term, **with_prefix("nodeSelectorTerms[]", _NODE_TERM)}
