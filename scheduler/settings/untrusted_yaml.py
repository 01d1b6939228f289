"""
Parses untrusted YAML: plain values only, with limits on nesting and on the expansion of aliases.

The limits are checked on the parser's events before anything is built. PyYAML's C parser recurses without a limit, so
that deep nesting would crash the process. Every copy of a document would expand its aliases ("billion laughs").
"""

import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final, cast

import yaml

from scheduler.settings import yaml_scalars

try:
    from yaml import CSafeLoader as _Base
except ImportError:  # PyYAML without its C extension: the same, slower
    from yaml import SafeLoader as _Base  # type: ignore[assignment]  # the interface is the same

MOST_DEPTH: Final = 200
"""Levels of nesting. Code that walks documents recurses, and Python's limit is 1000."""
MOST_REPEATED: Final = 1_000_000
"""Values plus characters that aliases may add to one document, or to all documents of a file."""
_MOST_TAG_DIRECTIVES: Final = 100
"""libyaml compares each `%TAG` line with all before it, and each tag with all of them."""
_TAG_DIRECTIVE: Final = re.compile("(?:^|[\r\x85\u2028\u2029])\ufeff?%TAG[ \t]", re.MULTILINE)
"""Also at line breaks of YAML that are none of Python's `^`."""

_BAD_VALUES: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions of PyYAML's constructors for a value that does not fit its tag (`!!timestamp x`, `!!bool x`)."""


@dataclass(slots=True)
class Repetition:
    """Values plus characters that aliases have added to the documents of a file so far."""

    total: int = 0


def load(text: str, repetition: Repetition | None = None) -> Any:
    """
    Parse one document: times stay strings, keys are strings and unique. Raise `yaml.YAMLError`.

    Documents with the same `repetition` share the limit of what aliases repeat.
    """
    try:
        _check_limits(text, repetition or Repetition())
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader that refuses duplicate keys
    except _BAD_VALUES as error:
        raise yaml.YAMLError(f"a value does not fit its tag: {error}") from error


def problem(error: Exception, line: int = 0) -> str:
    """Say what is wrong and where; `line` counts the lines of the file before the text that was parsed."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return f"not YAML: {error}"
    what = getattr(error, "problem", None) or "malformed"
    if what.startswith("but ") and (context := getattr(error, "context", None)):
        what = f"{context} {what}"
    return f"not YAML: {what} at line {line + mark.line + 1}, column {mark.column + 1}"


def is_too_deep(value: object) -> bool:
    """Whether a value nests deeper than allowed; for values that `load` did not parse."""
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


class _Expansion:
    """Counts values and characters of a document with all aliases expanded."""

    def __init__(self, repetition: Repetition) -> None:
        self._repetition = repetition
        self._open: list[tuple[str | None, int]] = []
        self._open_names: Counter[str | None] = Counter()
        self._known: dict[str, int] = {}
        self._total = 0

    def take(self, event: yaml.Event) -> None:
        """Count one event. Raises `MarkedYAMLError`."""
        if isinstance(event, yaml.AliasEvent):
            self._repeat(event)
            return
        if isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, self._total))
            self._open_names[event.anchor] += 1
            self._total += 1
            if len(self._open) > MOST_DEPTH:
                raise _refusal(TOO_DEEP, event)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self._open.pop()
            self._open_names[anchor] -= 1
            if anchor is not None:
                self._known[anchor] = self._total - before
        elif isinstance(event, yaml.ScalarEvent):
            weight = 1 + len(event.value)
            self._total += weight
            if event.anchor is not None:
                self._known[event.anchor] = weight

    def _repeat(self, event: yaml.AliasEvent) -> None:
        name = event.anchor or ""
        if self._open_names[name]:
            raise _refusal(f"the alias *{name} stands inside of what it repeats: write the value out", event)
        weight = self._known.get(name, 0)  # the parser reports an undefined alias
        self._total += weight
        self._repetition.total += weight
        if self._repetition.total > MOST_REPEATED:
            message = f"aliases repeat more than {MOST_REPEATED} values and characters: write the values out"
            raise _refusal(message, event)


def _refusal(problem: str, event: yaml.Event) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=cast("yaml.Mark", event.start_mark))


def _check_limits(text: str, repetition: Repetition) -> None:
    if sum(1 for _ in _TAG_DIRECTIVE.finditer(text)) > _MOST_TAG_DIRECTIVES:
        raise yaml.YAMLError(f"it has more than {_MOST_TAG_DIRECTIVES} %TAG lines: write the tags out")
    expansion = _Expansion(repetition)
    for event in yaml.parse(text, Loader=_Loader):
        expansion.take(event)


class _Loader(_Base):
    """YAML as kubectl reads it: scalars of go-yaml 2, keys are JSON's and unique."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        """Return the tag of a node; plain scalars have one of ours, which builds their value."""
        if kind is yaml.ScalarNode and implicit[0]:
            return _PLAIN
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]  # PyYAML has no types here
        return tag

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - the signature of PyYAML
        """Build a mapping in the order of its keys, so that what is merged replaces what stands before it (go-yaml)."""
        made: dict[Hashable, Any] = {}
        written: set[str] = set()
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key must be plain text", problem_mark=key_node.start_mark)
            if key_node.tag == _PLAIN and key_node.value == "<<":
                for merged in self._merged(value_node):
                    made.update(self.construct_mapping(merged, deep=True))
                continue
            key = yaml_scalars.key_of(self.construct_object(key_node))
            if key in written:
                raise yaml.MarkedYAMLError(problem=f"the key {key!r} stands twice", problem_mark=key_node.start_mark)
            written.add(key)
            made[key] = self.construct_object(value_node, deep=deep)
        return made

    def _merged(self, node: yaml.Node) -> list[yaml.MappingNode]:
        """Return the mappings of a merge key, the one that counts most last."""
        given = node.value[::-1] if isinstance(node, yaml.SequenceNode) else [node]
        found = [each for each in given if isinstance(each, yaml.MappingNode)]
        if len(found) < len(given):
            message = "a merge needs a mapping or a list of mappings"
            raise yaml.MarkedYAMLError(problem=message, problem_mark=node.start_mark)
        return found


_CORE: Final = "tag:yaml.org,2002:"
_PLAIN: Final = "plain"
"""The tag of plain scalars, which no document can have: those begin with `!` or `tag:`."""


def _plain(_: _Loader, node: yaml.ScalarNode) -> yaml_scalars.PlainScalar:
    try:
        value = yaml_scalars.value_of(node.value)
    except ValueError as error:
        raise yaml.MarkedYAMLError(problem=str(error), problem_mark=node.start_mark) from error
    return yaml_scalars.as_json(value) if isinstance(value, float) else value


def _explicit(_: _Loader, node: yaml.ScalarNode) -> yaml_scalars.PlainScalar:
    value = yaml_scalars.explicit(node.tag.removeprefix(_CORE), node.value)
    return yaml_scalars.as_json(value) if isinstance(value, float) else value


def _binary(loader: _Loader, node: yaml.ScalarNode) -> str:
    return loader.construct_yaml_binary(node).decode()


def _set(loader: _Loader, node: yaml.MappingNode) -> Any:
    return loader.construct_mapping(node, deep=True)


def _own_tag(loader: _Loader, _: str, node: yaml.Node) -> Any:
    """Build what has a tag of a program's own, such as `!Ref`: kubectl ignores the tag."""
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    return loader.construct_sequence(node, deep=True) if isinstance(node, yaml.SequenceNode) else node.value


_Loader.add_constructor(_PLAIN, _plain)
_Loader.add_constructor(f"{_CORE}binary", _binary)
_Loader.add_multi_constructor("!", _own_tag)
for _name in ("int", "float", "bool", "null"):
    _Loader.add_constructor(f"{_CORE}{_name}", _explicit)
_Loader.add_constructor(f"{_CORE}timestamp", lambda _, node: node.value)
_Loader.add_constructor(f"{_CORE}set", _set)
