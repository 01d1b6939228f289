"""
YAML that anybody may have written: plain values only, and nothing that a small text makes large or deep.

What a text would come to is counted from its events before anything is built: PyYAML's C part recurses without a limit
(a deep text ends the process), and a value that aliases repeat is whole again in every copy of the document.
"""

from collections.abc import Hashable
from typing import Any, Final, cast

import yaml

try:
    from yaml import CSafeLoader as _Base
except ImportError:  # PyYAML without its C part: the same, slower
    from yaml import SafeLoader as _Base  # type: ignore[assignment]  # the interface is the same

MOST_DEPTH: Final = 200
"""Lists and mappings in each other. Everything that walks documents recurses, and Python's own limit is 1000."""
MOST_REPEATED: Final = 1_000_000
"""Values, and characters in them, that aliases may add to one document."""

_BAD_VALUES: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What PyYAML's constructors raise for a tag that its value does not fit (`!!timestamp x`, `!!bool x`)."""


def load(text: str) -> Any:
    """Read one document: times stay text, keys are text, no key twice. Raises `yaml.YAMLError`."""
    _look_ahead(text)
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader that refuses duplicate keys
    except _BAD_VALUES as error:
        raise yaml.YAMLError(f"a value does not fit its tag: {error}") from error


def is_too_deep(value: object) -> bool:
    """Whether a value nests deeper than documents may; for what was not read by `load`."""
    level, depth = [value], 0
    while level and depth <= MOST_DEPTH:
        depth += 1
        inner: list[object] = []
        for each in level:
            if isinstance(each, dict):
                inner += [child for child in each.values() if isinstance(child, dict | list)]
            elif isinstance(each, list):
                inner += [child for child in each if isinstance(child, dict | list)]
        level = inner
    return bool(level)


TOO_DEEP: Final = f"nested deeper than {MOST_DEPTH} levels: write it flatter"


class _Weights:
    """What the values of a document come to with every alias written out: one each, and their characters."""

    def __init__(self) -> None:
        self._open: list[tuple[str | None, int]] = []
        self._known: dict[str, int] = {}
        self._total = 0
        self._repeated = 0

    def take(self, event: yaml.Event) -> None:
        """Count one event. Raises `MarkedYAMLError`."""
        if isinstance(event, yaml.AliasEvent):
            self._repeat(event)
            return
        if isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, self._total))
            self._total += 1
            if len(self._open) > MOST_DEPTH:
                raise _refusal(TOO_DEEP, event)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self._open.pop()
            if anchor is not None:
                self._known[anchor] = self._total - before
        elif isinstance(event, yaml.ScalarEvent):
            weight = 1 + len(event.value)
            self._total += weight
            if event.anchor is not None:
                self._known[event.anchor] = weight

    def _repeat(self, event: yaml.AliasEvent) -> None:
        name = event.anchor or ""
        if any(anchor == name for anchor, _ in self._open):
            raise _refusal(f"the alias *{name} stands inside of what it repeats: write the value out", event)
        weight = self._known.get(name, 0)  # an alias of nothing is for the reader to tell
        self._total += weight
        self._repeated += weight
        if self._repeated > MOST_REPEATED:
            told = f"aliases repeat more than {MOST_REPEATED} values and characters: write the values out"
            raise _refusal(told, event)


def _refusal(problem: str, event: yaml.Event) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=cast("yaml.Mark", event.start_mark))


def _look_ahead(text: str) -> None:
    weights = _Weights()
    for event in yaml.parse(text, Loader=_Loader):
        weights.take(event)


class _Loader(_Base):
    """YAML as Kubernetes reads it: plain values, times stay text, no key twice in one mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - the signature of PyYAML
        """Build a mapping after looking at its keys, which JSON wants to be texts."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key must be plain text", problem_mark=key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark)
            if key.value != "<<":
                seen.add(key.value)
                key.tag = "tag:yaml.org,2002:str"
        made: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return made


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}
