"""
Reads files as documents: multi-document YAML, JSON, and Lists of either.

Documents are separated before they are parsed, so that one that is not YAML or not UTF-8 does not affect the others.
"""

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from scheduler.settings import untrusted_yaml, yaml_scalars
from scheduler.simulation.manifests.fields import Body

LIVE: Final = "cluster"
"""The source of documents from a live cluster."""
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_SEPARATOR: Final = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
_MOST_BYTES: Final = 256 * 1024 * 1024
"""The largest file; its objects take about ten times as much memory."""
_NOT_UTF8: Final = re.compile("[\udc80-\udcff]")
"""Bytes that are not UTF-8, as the decoder represents them."""
_MARKS: Final = ("---", "...")
"""A line of a start or an end of a document."""


class Document(NamedTuple):
    """A manifest and its source: `pods.yaml: document 2`, or `pods.yaml: document 2, item 3` in a List."""

    source: str
    body: Body


class ManifestProblem(NamedTuple):
    """An error in a manifest: source, object, field, and what to write instead."""

    source: str
    subject: str
    field: str
    message: str

    def __str__(self) -> str:
        """Return the error as one line."""
        place = f"{self.source} ({self.subject})" if self.subject else self.source
        return f"{place}: {f'{self.field}: ' if self.field else ''}{' '.join(self.message.split())}"


@dataclass(slots=True)
class ManifestFiles:
    """The documents of files, and the errors."""

    documents: list[Document] = field(default_factory=list)
    problems: list[ManifestProblem] = field(default_factory=list)


def read(paths: Sequence[Path]) -> ManifestFiles:
    """Read files, folders (recursively) and `-` for standard input. Never raises."""
    reading = ManifestFiles()
    for path in paths:
        for file in _files(path, reading):
            content = _content(file, reading)
            if content is not None:
                _read_text(content, str(file) if str(file) != "-" else "standard input", reading)
    return reading


def parsed(content: bytes, name: str) -> ManifestFiles:
    """Read a text, which `name` names in errors. Never raises."""
    reading = ManifestFiles()
    _read_text(_decoded(content), name, reading)
    return reading


def _files(path: Path, reading: ManifestFiles) -> Iterable[Path]:
    try:
        if not path.is_dir():
            return (path,)
        found = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES and each.is_file())
    except OSError as error:  # a name that is too long, or a folder that goes meanwhile
        reading.problems.append(ManifestProblem(str(path), "", "", f"cannot be read: {error.strerror}"))
        return ()
    if not found:
        reading.problems.append(ManifestProblem(str(path), "", "", "the folder holds no .yaml, .yml or .json file"))
    return found


def _content(file: Path, reading: ManifestFiles) -> str | None:
    try:
        if str(file) == "-":
            raw = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with file.open("rb") as opened:
                raw = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        reading.problems.append(ManifestProblem(str(file), "", "", f"cannot be read: {error.strerror}"))
        return None
    if len(raw) > _MOST_BYTES:
        message = f"is larger than {_MOST_BYTES // 2**20} MiB: split it into several files"
        reading.problems.append(ManifestProblem(str(file), "", "", message))
        return None
    return _decoded(raw)


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8-sig", "surrogateescape")


def _read_text(content: str, name: str, reading: ManifestFiles) -> None:
    number = 0
    for number, value in enumerate(_values(content), start=1):
        source = f"{name}: document {number}"
        if isinstance(value, _Unreadable):
            reading.problems.append(ManifestProblem(source, "", "", value.message))
        elif value is not None:
            _add(value, source, reading)
    if not number:
        reading.problems.append(ManifestProblem(name, "", "", "holds no document"))


class _Unreadable(NamedTuple):
    """A document that cannot be read, with the reason."""

    message: str


def _values(content: str) -> Iterator[Any]:
    """Return the value of each document, or `_Unreadable`."""
    if content.lstrip()[:1] == "{":
        try:
            found = list(_json_values(content))
        except ValueError:
            pass  # YAML flow style looks similar: the YAML parser reports the error
        else:
            yield from found
            return
    repetition = untrusted_yaml.Repetition()
    for chunk, line in _chunks(content):
        try:
            yield _wrong_byte(chunk, line) or untrusted_yaml.load(chunk, repetition)
        except yaml.YAMLError as error:
            yield _Unreadable(untrusted_yaml.problem(error, line))


def _json_values(content: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(parse_float=_finite, parse_constant=_no_number)
    position = line = counted = 0
    while position < len(content):
        if content[position].isspace():
            position += 1
            continue
        start = position
        try:
            value, position = decoder.raw_decode(content, position)
        except RecursionError:
            yield _Unreadable(f"{untrusted_yaml.TOO_DEEP}; what follows it in the file is not read")
            return
        line += content[counted:start].count("\n")
        counted = start
        broken = _wrong_byte(content[start:position], line)
        yield broken or (_Unreadable(untrusted_yaml.TOO_DEEP) if untrusted_yaml.is_too_deep(value) else value)


def _finite(text: str) -> float:
    number = float(text)
    return _no_number(text) if math.isinf(number) else yaml_scalars.as_json(number)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number in JSON")


def _wrong_byte(text: str, line: int) -> _Unreadable | None:
    """Find a byte that is not UTF-8; `line` is the document's first line in its file, from 0."""
    found = _NOT_UTF8.search(text)
    if found is None:
        return None
    before = text[: found.start()]
    place = f"line {line + before.count(chr(10)) + 1}, column {found.start() - before.rfind(chr(10))}"
    byte = ord(found[0]) - 0xDC00
    return _Unreadable(f"cannot be read: the byte 0x{byte:02x} at {place} is not UTF-8: save the file as UTF-8")


def _chunks(content: str) -> Iterator[tuple[str, int]]:
    """Split at document separators; return each part with its first line number, from 0."""
    starts = [0, *(match.start() for match in _SEPARATOR.finditer(content) if match.start())]
    line = 0
    for start, end in zip(starts, [*starts[1:], len(content)], strict=True):
        chunk = content[start:end]
        if not all(map(_says_nothing, chunk.splitlines())):
            yield chunk, line
        line += chunk.count("\n")


def _says_nothing(line: str) -> bool:
    """Whether a line is blank, a comment, a directive, or the mark of a document with nothing behind it."""
    if line.startswith(_MARKS) and not line[3:4].strip():
        line = line[3:]
    said = line.strip()
    return not said or said.startswith("#") or line.startswith("%")


def _add(value: Any, source: str, reading: ManifestFiles) -> None:
    """Add a document; a List is replaced by its items."""
    if not isinstance(value, dict):
        message = "expected a mapping with apiVersion and kind"
        reading.problems.append(ManifestProblem(source, "", "(whole document)", message))
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
        reading.problems.append(
            ManifestProblem(source, "", missing, "missing: a manifest starts with apiVersion and kind")
        )
        return
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        reading.problems.append(ManifestProblem(source, "", "(whole document)", f"holds what JSON cannot: {error}"))
        return
    reading.documents.append(Document(source, value))
