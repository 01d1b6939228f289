"""Texts that their readers take, and the same with another value in one place or bytes that are changed."""

import copy
import functools
import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from e2e.hostile.extremes import bases
from e2e.hostile.objects.kinds import API_VERSIONS
from scheduler.api.history_answers import HistoryAnswer
from scheduler.change import Kind
from scheduler.counterfactual.observation_record import ObservationRecord, OutcomeLine, RecordLine
from scheduler.history.records import DecisionRecord, PodNominated, PodPlaced, PodRecord, PodResult, PodWaiting
from scheduler.settings import default
from scheduler.simulation import simulator
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.live_cluster import ClusterObjects
from scheduler.simulation.manifests import documents
from solver.domain import LevelReport
from tests.support import hostile_texts
from tests.support import manifests as m
from tests.support import observations as o
from tests.support.corpus import corpus

_ROOT: Final = Path(__file__).parents[2]

Key = str | int
Place = tuple[Key, ...]

VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 1.5, 2**31, 2**63, 2**64, 10**30, 1e308, -1e308, "", "x", "é", "\0", "\x1b[31m", "1Gi", "-1"),
    *("a" * 300, "9" * 400, "a/b/c", "../x", "=1", "1e99", "2026-01-01T00:00:00Z", "99999-01-01T00:00:00Z"),
    *(
        [],
        {},
        [None],
        [[]],
        {"a": None},
        {"": ""},
        ["a"] * 100,
        [{}] * 20,
        {f"k{number}": "v" for number in range(100)},
    ),
    json.loads("[" * 190 + "]" * 190),
)
"""What stands for a value."""


def configuration() -> list[bytes]:
    written = (_ROOT / "config" / "default.yaml").read_bytes()
    return [written, json.dumps(msgspec.to_builtins(default())).encode()]


def kubeconfig(folder: Path, user: dict[str, Any] | None = None) -> list[bytes]:
    """Kubeconfigs with each way to log in; the files that they name exist."""
    for name in ("ca.crt", "5"):
        (folder / name).write_text("x")
    inline = {
        "server": "https://h:6443",
        "certificate-authority-data": "QUFB",
        "proxy-url": "http://p:1",
        "tls-server-name": "x",
        "insecure-skip-tls-verify": True,
        "extensions": [{"name": "x", "extension": {}}],
    }
    files = {"server": "https://[::1]", "certificate-authority": "ca.crt"}
    plugin = {"apiVersion": "v1", "command": "false", "args": ["x"], "env": [{"name": "a", "value": "b"}]}
    users: list[dict[str, Any]] = [
        {"client-certificate-data": "QUFB", "client-key-data": "QUFB", "token": "abc"},
        {"client-certificate": "ca.crt", "client-key": "ca.crt", "username": "a", "password": "b"},
        {"tokenFile": "ca.crt"},
        {"exec": {**plugin, "provideClusterInfo": True, "installHint": "none"}},
    ]
    return [
        json.dumps(_kubeconfig(cluster, each)).encode()
        for cluster in (inline, files)
        for each in ([user] if user is not None else users)
    ]


def _kubeconfig(cluster: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }


@functools.cache
def manifests() -> list[bytes]:
    """The examples as they are, and a line of JSON for each object."""
    written = [path.read_bytes() for path in sorted(m.EXAMPLES.glob("*.yaml"))]
    read = [documents.parsed(each, "example").documents for each in written]
    return written + ["\n".join(json.dumps(each.body) for each in found).encode() for found in read]


def objects_of(kind: Kind) -> list[bytes]:
    """A small object of a kind, and where there is one an object with every field."""
    whole = corpus("1.37").objects.get(API_VERSIONS[kind])
    return [json.dumps(each).encode() for each in (bases.base(kind), whole) if each is not None]


@functools.cache
def saved_decisions() -> list[bytes]:
    found = []
    for text in manifests()[:4]:
        case = CaseBuilder.of(ClusterObjects(), documents.parsed(text, "example")).case("dovetail")
        found.append(msgspec.json.encode(simulator.recorded(case, default(), "dovetail")))
    return found


def history() -> list[bytes]:
    """What a running scheduler answers about its decisions."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    decision = DecisionRecord(
        decision=3,
        time=at,
        profile="p",
        pods=3,
        seconds=0.25,
        status="Feasible",
        levels=(LevelReport(name="placed:0", value=1, bound=2, proven=False),),
        placed=(PodPlaced(namespace="team", name="a", node="n1", devices=("d/p/gpu-0",)),),
        waiting=(PodWaiting(namespace="team", name="b", reason="NoDevice", message="no device is free"),),
        nominated=(PodNominated(namespace="team", name="c", node="n2", victims=1),),
    )
    pod = PodRecord(decision=3, time=at, result=PodResult.BOUND, namespace="team", name="a", node="n1", seconds=1.5)
    return [msgspec.json.encode(HistoryAnswer(oldest=at, items=(pod, decision)))]


@functools.cache
def observations() -> list[bytes]:
    lines: tuple[RecordLine, ...] = (
        *(o.start(1.0), OutcomeLine(of=o.outcome("p")), o.sample(5.0, pods=o.BETTER)),
        *(o.start(7.0), OutcomeLine(of=o.outcome("q", -60.0)), o.sample(9.0, gangs=o.WORSE, failed_decisions=1)),
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "record"
        with ObservationRecord(path) as record:
            for line in lines:
                record.add(line)
        return [path.read_bytes()]


def varied(chance: random.Random, texts: Sequence[bytes], count: int) -> Iterator[bytes]:
    """Return some of the texts, each changed: its bytes, or a value in a line of JSON."""
    for number in range(count):
        text = chance.choice(texts)
        try:
            lines = [json.loads(line) for line in text.splitlines()] if number % 2 else []
        except ValueError:
            lines = []
        yield b"\n".join(map(_encoded, _replaced(chance, lines))) if lines else hostile_texts.mutated(chance, text)


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def _replaced(chance: random.Random, documents: list[Any]) -> list[Any]:
    """Replace, remove or repeat a value somewhere in some documents."""
    found = copy.deepcopy(documents)
    for _ in range(chance.choice((1, 1, 2))):
        *above, last = chance.choice([place for place in _places(found) if len(place) > 1] or [(0,)])
        parent: Any = found
        for key in above:
            parent = parent[key]
        match chance.randrange(5):
            case 0 if len(above):
                del parent[last]
            case 1 if isinstance(parent, list):
                parent.append(copy.deepcopy(parent[-1]))
            case _:
                parent[last] = copy.deepcopy(chance.choice(VALUES))
    return found


def _places(value: Any, at: Place = ()) -> Iterator[Place]:
    parts: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in parts:
        yield (*at, key)
        yield from _places(inner, (*at, key))
