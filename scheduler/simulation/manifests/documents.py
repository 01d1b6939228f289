"""
Files to documents: multi-document YAML, JSON, and Lists of either.

Documents are cut apart before they are read, so that one that is not YAML takes no other with it.
"""

import json
import re
import sys
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from scheduler.simulation.manifests.fields import Body

try:
    from yaml import CSafeLoader as _Base
except ImportError:  # PyYAML without its C part: the same, slower
    from yaml import SafeLoader as _Base  # type: ignore[assignment]  # the interface is the same

LIVE: Final = "cluster"
"""The source of documents that the live cluster gave."""
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_SEPARATOR: Final = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
_NOTHING: Final = re.compile(r"(?:\s|#[^\n]*|%[^\n]*|---|\.\.\.)*\Z")


class Document(NamedTuple):
    """One manifest and where it stands: `pods.yaml: document 2`, or `pods.yaml: document 2, item 3` in a List."""

    source: str
    body: Body


class Problem(NamedTuple):
    """A manifest that cannot be used: where it stands, which object, which field, and what to write instead."""

    source: str
    subject: str
    field: str
    message: str

    def __str__(self) -> str:
        """As it is printed, in one line."""
        place = f"{self.source} ({self.subject})" if self.subject else self.source
        return f"{place}: {f'{self.field}: ' if self.field else ''}{' '.join(self.message.split())}"


@dataclass(slots=True)
class Reading:
    """What files gave."""

    documents: list[Document] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def read(paths: Sequence[Path]) -> Reading:
    """Read files, folders (with those below them) and `-` for standard input; nothing is raised."""
    reading = Reading()
    for path in paths:
        for file in _files(path, reading):
            content = _content(file, reading)
            if content is not None:
                _read_text(content, str(file) if str(file) != "-" else "standard input", reading)
    return reading


def _files(path: Path, reading: Reading) -> Iterable[Path]:
    if not path.is_dir():
        return (path,)
    found = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES and each.is_file())
    if not found:
        reading.problems.append(Problem(str(path), "", "", "the folder holds no .yaml, .yml or .json file"))
    return found


def _content(file: Path, reading: Reading) -> str | None:
    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        reading.problems.append(Problem(str(file), "", "", f"cannot be read: {error.strerror}"))
    except UnicodeDecodeError:
        reading.problems.append(Problem(str(file), "", "", "cannot be read: not UTF-8"))
    return None


def _read_text(content: str, name: str, reading: Reading) -> None:
    number = 0
    for number, value in enumerate(_values(content, f"{name}: document {{}}", reading), start=1):
        if value is not None:
            _add(value, f"{name}: document {number}", reading)
    if not number:
        reading.problems.append(Problem(name, "", "", "holds no document"))


def _values(content: str, source: str, reading: Reading) -> Iterator[Any]:
    """Give every document's value; None for one that cannot be read, which is then in the problems."""
    if content.lstrip()[:1] == "{":
        try:
            yield from _json_values(content)
        except (ValueError, RecursionError):
            pass  # YAML's flow style looks alike: let its reader say what is wrong
        else:
            return
    for number, (chunk, line) in enumerate(_chunks(content), start=1):
        try:
            yield yaml.load(chunk, Loader=_Loader)  # noqa: S506 - a SafeLoader that refuses duplicate keys
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            reading.problems.append(Problem(source.format(number), "", "", _told(error, line)))
            yield None


def _json_values(content: str) -> list[Any]:
    decoder, values, position = json.JSONDecoder(), [], 0
    while position < len(content):
        if content[position].isspace():
            position += 1
            continue
        value, position = decoder.raw_decode(content, position)
        values.append(value)
    return values


def _chunks(content: str) -> Iterator[tuple[str, int]]:
    """Cut at the lines that begin a document; give each part with the number of its first line, from 0."""
    starts = [0, *(match.start() for match in _SEPARATOR.finditer(content) if match.start())]
    line = 0
    for start, end in zip(starts, [*starts[1:], len(content)], strict=True):
        chunk = content[start:end]
        if not _NOTHING.match(chunk):
            yield chunk, line
        line += chunk.count("\n")


def _told(error: Exception, line: int) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return f"not YAML: {error if not isinstance(error, RecursionError) else 'nested too deep'}"
    what = getattr(error, "problem", None) or "malformed"
    return f"not YAML: {what} at line {line + mark.line + 1}, column {mark.column + 1}"


def _add(value: Any, source: str, reading: Reading) -> None:
    """Take one document; a List gives its items."""
    if not isinstance(value, dict):
        message = "expected a mapping with apiVersion and kind"
        reading.problems.append(Problem(source, "", "(whole document)", message))
        return
    kind, items = value.get("kind"), value.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        for number, item in enumerate(items, start=1):
            if isinstance(item, dict) and kind != "List":
                item.setdefault("kind", kind.removesuffix("List"))
                item.setdefault("apiVersion", value.get("apiVersion"))
            _add(item, f"{source}, item {number}", reading)
        return
    missing = next((name for name in ("apiVersion", "kind") if not isinstance(value.get(name), str)), "")
    if missing:
        reading.problems.append(Problem(source, "", missing, "missing: a manifest starts with apiVersion and kind"))
        return
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        reading.problems.append(Problem(source, "", "(whole document)", f"holds what JSON cannot: {error}"))
        return
    reading.documents.append(Document(source, value))


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
