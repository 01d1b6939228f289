"""Write docs/reference from the code: `python docs/reference.py`, or `make reference`."""

import argparse
import ast
import inspect
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec
from prometheus_client import Info
from prometheus_client.metrics_core import Metric

from scheduler.api.history_answers import HistoryAnswer
from scheduler.api.queue_answers import QueueAnswer
from scheduler.api.usage_answers import UsageAnswer
from scheduler.cli.main import COMMANDS, parser_of_line
from scheduler.counterfactual.observation_report import ObservationReport
from scheduler.observe import logs, metrics
from scheduler.page.decision_answers import Decisions
from scheduler.page.fit_answer import FitAnswer
from scheduler.page.fleet_map import FleetMap
from scheduler.page.page_watches import PageState
from scheduler.settings import reference, schema
from scheduler.simulation.moves.moves_output import MovesReport
from scheduler.simulation.quotas.quota_document import QuotaList
from scheduler.status import events
from scheduler.status.conditions import CONDITION, ConditionReason
from scheduler.worker.fleet_questions import FleetDocument
from solver.domain import ClusterEvent, ReasonCode

TARGET: Final = Path(__file__).with_suffix("")
_NOTE: Final = "<!-- Written by `make reference` from the code. Change the text there. -->"

_DOCUMENTS: Final[dict[str, tuple[type, str]]] = {
    "History": (HistoryAnswer, "`dovetail history`, `/v1alpha1/history`"),
    "Usage": (UsageAnswer, "`dovetail usage`, `/v1alpha1/usage`"),
    "Queue": (QueueAnswer, "`dovetail queue`, `/v1alpha1/queue`"),
    "Devices and Free": (
        FleetDocument,
        "`/v1alpha1/devices`, `/v1alpha1/free`; the commands have documents of their own",
    ),
    "QuotaList": (QuotaList, "`dovetail quota`"),
    "FleetMap": (FleetMap, "`dovetail map`; `/v1alpha1/map` of the page"),
    "Decisions": (Decisions, "`/v1alpha1/decisions` of the page"),
    "Fit": (FitAnswer, "`/v1alpha1/fit` of the page"),
    "PageState": (PageState, "the event `state` of the page"),
    "Moves": (MovesReport, "`dovetail repair plan`"),
    "ObservationReport": (ObservationReport, "`dovetail report`"),
}
"""The documents that are values of ours, with where they come from."""
_SHARED: Final = 4
"""How many commands have to have an option alike, so that it stands once."""
Schema = dict[str, Any]
"""A part of a JSON schema."""
_TYPES: Final = {"integer": "number", "number": "number", "string": "text", "boolean": "true or false", "null": "null"}


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    written = {
        "configuration.md": _configuration(),
        "commands.md": _commands(),
        "series.md": _series(),
        "reasons.md": _reasons(),
        "events.md": _events(),
        "logs.md": _log_events(),
        "documents.md": _documents(),
    }
    return {name: "\n".join((_NOTE, "", *lines)) + "\n" for name, lines in written.items()}


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Write a table; a `|` inside a cell is escaped."""
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _configuration() -> Iterator[str]:
    """Write the keys of the configuration file, a section for each mapping on its top level."""
    document = json.loads(reference.json_schema())
    kinds = document["$defs"]
    yield from (
        "# Configuration",
        "",
        f"The keys of a file with `apiVersion: {schema.API_VERSION}` and `kind: {schema.KIND}`. A file needs only the",
        "keys that differ from their default.",
        "",
        "    dovetail config --print-default     # a file with all of them",
        "    dovetail config --check FILE        # whether a file is valid, and what to write instead",
        "",
        "[operating](../operating.md) says how to change the configuration of a running scheduler.",
    )
    for name, field in kinds["Settings"]["properties"].items():
        prefix, below = (f"{name}[].", field["items"]) if "items" in field else (f"{name}.", field)
        if "$ref" in below:
            yield from ("", f"## {name}", "", field["description"], "")
            yield from _table(("key", "value", "default", "meaning"), _keys(prefix, below, kinds))


def _keys(prefix: str, field: dict[str, Any], kinds: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Give a row for each key below a mapping, however deep."""
    for name, each in _kind(field, kinds)["properties"].items():
        kind = _kind(each, kinds)
        if "properties" in kind:
            yield from _keys(f"{prefix}{name}.", each, kinds)
        else:
            meaning = each["description"] + (_explained(kind) if kind is not each else "")
            yield f"`{prefix}{name}`", _values(kind), f"`{json.dumps(each['default'])}`", meaning


def _explained(kind: dict[str, Any]) -> str:
    """Return what the description of an enum says of its values, without what it says of all."""
    text: str = kind["description"]
    return text[min((at for at in (text.find(f" {each}: ") for each in kind["enum"]) if at >= 0), default=len(text)) :]


def _kind(field: dict[str, Any], kinds: dict[str, Any]) -> dict[str, Any]:
    """Return what a field refers to, else the field."""
    name = field.get("$ref", "").rpartition("/")[2]
    return dict(kinds[name]) if name else field


def _values(kind: dict[str, Any]) -> str:
    """Say which values a key can have."""
    if "enum" in kind:
        return ", ".join(f"`{each}`" for each in kind["enum"])
    low = f"above {kind['exclusiveMinimum']}" if "exclusiveMinimum" in kind else kind.get("minimum")
    limits = f"{low} to {kind['maximum']}" if "maximum" in kind else ""
    return ", ".join(filter(None, (kind.get("type", "any"), limits)))


def _commands() -> Iterator[str]:
    """Write the arguments and options of each command; those that many commands have stand once, in front."""
    rows = {name: [_argument(each) for each in _parser(name)._actions[1:]] for name in COMMANDS}  # the first is --help
    commands = Counter(row for each in rows.values() for row in each if "|" not in row[0])
    shared = {row: row[0].split()[0].strip("`") for row, number in commands.items() if number >= _SHARED}
    yield from (
        "# Options of commands",
        "",
        "[commands](../commands.md) lists the commands, and says what they share: objects, namespaces, output, exit",
        "status.",
        "",
        "## Shared options",
        "",
        "Each command names those that it has.",
        "",
    )
    yield from _table(("argument", "meaning"), shared)
    for name, text in COMMANDS.items():
        yield from ("", f"## dovetail {name}", "", text, "")
        if own := [row for row in rows[name] if row not in shared]:
            yield from (*_table(("argument", "meaning"), own), "")
        names = ", ".join(f"`{shared[row]}`" for row in rows[name] if row in shared)
        yield f"[Shared options](#shared-options): {names}."
        parser = _parser(name)
        if parser.epilog:
            is_drawn = parser.formatter_class is argparse.RawDescriptionHelpFormatter
            yield from ("", *((f"    {line}" for line in parser.epilog.splitlines()) if is_drawn else (parser.epilog,)))


def _parser(command: str) -> argparse.ArgumentParser:
    """Return the parser of one command."""
    actions = parser_of_line(f"dovetail {command}")._actions
    commands = next(each for each in actions if isinstance(each, argparse._SubParsersAction))
    found: argparse.ArgumentParser = commands.choices[command]
    return found


def _argument(action: argparse.Action) -> tuple[str, str]:
    """Give the row of an argument: its spellings with a placeholder, and its help."""
    value = "|".join(action.choices) if action.choices else str(action.metavar or action.dest)
    if action.nargs == 0:
        value = ""
    many = {"+": " ...", "*": " ..."}.get(str(action.nargs), "")
    named = [f"`{' '.join(filter(None, (name, value)))}{many}`" for name in action.option_strings or ("",)]
    return ", ".join(named), (action.help or "") % {**vars(action), "prog": "dovetail"}


def _series() -> Iterator[str]:
    """Write every series that is exported, but for those of the process itself."""
    made = metrics.Metrics()
    yield from (
        "# All series",
        "",
        "`/metrics` serves these, and the process's own memory, descriptors and garbage collection.",
        "[alerts, dashboards](../runbook.md) says what to look at.",
        "",
    )
    collectors = dict.fromkeys(made.registry._names_to_collectors.values())
    described: Iterable[tuple[Any, Metric]] = ((each, family) for each in collectors for family in each.describe())
    rows = (
        (
            f"`{_exported(family)}`",
            family.type,
            ", ".join(f"`{each}`" for each in _labels(collector)),
            family.documentation,
        )
        for collector, family in described
        if hasattr(collector, "_labelnames")
    )
    yield from _table(("series", "type", "labels", "what it says"), rows)


def _labels(collector: Any) -> Iterable[str]:
    """Return the names of labels; an Info has its texts as labels."""
    return collector._value if isinstance(collector, Info) else collector._labelnames


def _exported(family: Metric) -> str:
    """Return the name under which a scrape has a series; the library appends these suffixes."""
    return family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")


def _documents() -> Iterator[str]:
    """Write the JSON documents of commands, API and page, each part where a document first has it."""
    yield from (
        "# Documents",
        "",
        "What `-o json` and `-o yaml` print, and the API and the page answer. Fields may be added; none changes its",
        "meaning. Empty fields may be left out. Times are RFC 3339 in UTC, or seconds since the epoch where they are",
        "numbers. [simulate](../simulate.md#json), [explain](../explain.md#json) and [devices](../devices.md#json)",
        "have documents of their own.",
        "",
    )
    told: set[str] = set()
    for title, (kind, source) in _DOCUMENTS.items():
        _, parts = msgspec.json.schema_components([kind], ref_template="{name}")
        yield from (f"## {title}", "", f"{source}.", "")
        for name in (kind.__name__, *(each for each in parts if each != kind.__name__)):
            if "properties" in parts[name] and name not in told:
                told.add(name)
                yield from () if name == kind.__name__ else (f"### {name}", "")
                yield from _part(parts[name], parts)


def _part(part: Schema, parts: dict[str, Schema]) -> Iterator[str]:
    """Write a part of a document: what it says of itself, and its fields by their types."""
    fields = part["properties"]
    camel = {re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name): name for name in fields}
    for text in part.get("description", "").split("\n\n"):
        words = " ".join(text.removeprefix("The document.").split())
        said = re.sub(r"`(\w+)`", lambda found: f"`{camel.get(found[1], found[1])}`", words)
        yield from (re.sub(r"\bNone\b", "null", said), "") if said else ()
    by_type = defaultdict[str, list[str]](list)
    for name, allowed in fields.items():
        by_type[_type(allowed, parts)].append(f"`{name}`")
    yield from ("; ".join(f"{', '.join(names)}: {kind}" for kind, names in by_type.items()), "")


def _type(schema: Schema, parts: dict[str, Schema]) -> str:
    """Say in words which values a schema allows."""
    if "$ref" in schema:
        name = schema["$ref"]
        return _type(parts[name], parts) if "enum" in parts[name] else name
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(each, parts) for each in schema["anyOf"]))
    kind = schema.get("type", "")
    if kind == "array":
        inner = schema.get("items")
        return f"list of {_type(inner, parts)}" if isinstance(inner, dict) else "list"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"{_type(inner, parts)} by key" if isinstance(inner, dict) and inner else "object"
    return _TYPES.get(kind, "any value")


def _reasons() -> Iterator[str]:
    """Write the codes of reasons and the events of the queue."""
    yield from (
        "# Reasons",
        "",
        "Why a pod waits: the reason of its condition `PodScheduled`, and the finer codes behind it",
        "([explain](../explain.md)). The API server itself writes the reason `SchedulingGated`.",
        "",
        "## Of the condition",
        "",
    )
    yield from _table(("reason", "when, and what helps"), _members(ConditionReason))
    yield from (
        "",
        "## Codes",
        "",
        "JSON output of commands, `dovetail_unplaced_pods_total` and the log name the cause by these codes. The",
        "meaning of a code never changes. The second column is the condition's reason of a pod with this cause alone.",
        "",
    )
    rows = ((f"`{code}`", f"`{CONDITION[code]}`", _text(ReasonCode, code.name)) for code in ReasonCode)
    yield from _table(("code", "condition", "meaning"), rows)
    yield from (
        "",
        "## Cluster events",
        "",
        "A waiting pod is tried again when one of these can remove a cause. `scheduler_queue_incoming_pods_total` has",
        "them as the label `event`.",
        "",
    )
    yield from _table(("event", "meaning"), _members(ClusterEvent))


def _members(kind: type[StrEnum]) -> Iterator[tuple[str, str]]:
    texts = reference.docstrings(kind)
    return ((f"`{each}`", texts.get(each.name, "")) for each in kind)


def _events() -> Iterator[str]:
    """Write the reasons of Kubernetes events with their types."""
    yield from (
        "# Events",
        "",
        "`kubectl describe pod` shows them. [explain](../explain.md#events) says how often they are written.",
        "",
    )
    types = {
        part[1].attr: part[0].value
        for node in ast.walk(ast.parse(inspect.getsource(events)))
        if isinstance(node, ast.Tuple)
        for part in [node.elts]
        if len(part) == len(("type", "reason", "action"))
        and isinstance(part[0], ast.Constant)
        and isinstance(part[1], ast.Attribute)
    }
    kind = events.EventReason
    rows = ((f"`{each}`", str(types[each.name]), _text(kind, each.name)) for each in kind)
    yield from _table(("reason", "type", "when"), rows)


def _log_events() -> Iterator[str]:
    """Write the names of log lines."""
    yield from (
        "# Log events",
        "",
        "Each line of the log is one event: `event`, `level`, `timestamp` and named fields. `logging.format` chooses",
        "JSON or text, `logging.level` the lowest level that is written.",
        "",
    )
    names = [name for name, value in vars(logs).items() if name.isupper() and isinstance(value, str)]
    rows = ((f"`{getattr(logs, name)}`", _text(logs, name)) for name in names)
    yield from _table(("event", "meaning"), rows)


def _text(owner: type | ModuleType, name: str) -> str:
    """Return the docstring of a name. Raise ValueError where there is none."""
    text = reference.docstrings(owner).get(name)
    if text is None:
        raise ValueError(f"{owner.__name__}: {name} has no docstring: write what it means below it")
    return text


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    for page, content in pages().items():
        (TARGET / page).write_text(content, encoding="utf-8")
