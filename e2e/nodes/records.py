"""What happened on a node: the calls of its driver, and what its containers printed."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

_FOLDER: Final = re.compile(r"(?P<namespace>[^_]+)_(?P<pod>[^_]+)_(?P<uid>[^_]+)")
"""How a kubelet names the folder of a pod's logs."""


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """A device of a call; `share` is the share ID where the claim has a share of it."""

    request: str
    pool: str
    device: str
    share: str = ""
    admin: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A claim of a call of the kubelet to the driver: `call` is prepare, or unprepare, which names no devices."""

    time: datetime
    call: str
    uid: str
    namespace: str
    name: str
    devices: tuple[PreparedDevice, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """A container that has started, by what it printed; `devices` as `driver/pool/device`, a share with `/shareID`."""

    namespace: str
    pod: str
    uid: str
    """The pod's."""
    name: str
    restart: int
    """0 for the first container of this name in the pod, 1 for the next."""
    environment: dict[str, str]
    devices: tuple[str, ...]
    metadata: tuple[dict[str, Any], ...] = ()
    """What drivers tell it of each request of its claims (metadata.resource.k8s.io); only with `-metadata`."""
    opened: dict[str, str] = field(default_factory=dict)
    """The error of opening a path, empty where there was none; only with `-open`."""


def calls(path: Path) -> list[Call]:
    """Read the driver's log, in the order in which the calls ended; empty where it has none yet."""
    if not path.exists():
        return []
    return [_call(json.loads(line)) for line in _whole_lines(path.read_text())]


def _call(line: dict[str, Any]) -> Call:
    devices = tuple(PreparedDevice(**each) for each in line.pop("devices", ()))
    return Call(time=datetime.fromisoformat(line.pop("time")), devices=devices, **line)


def by_boot(found: Iterable[Call], ends: Sequence[datetime]) -> list[list[Call]]:
    """Divide calls by the moments at which all processes of their node had ended; each boot has a list."""
    boots: list[list[Call]] = [[] for _ in range(len(ends) + 1)]
    for call in found:
        boots[sum(call.time > end for end in ends)].append(call)
    return boots


def _whole_lines(text: str) -> list[str]:
    """Return lines that have an end: the last one may be in the middle of being written."""
    return text[: text.rfind("\n") + 1].splitlines()


def containers(logs: Path) -> list[Container]:
    """Read the logs of all containers beneath a folder such as /var/log/pods, each pod's in the order of restarts."""
    return [found for path in sorted(logs.glob("*/*/*.log"), key=_order) for found in _printed(path)]


def _order(path: Path) -> tuple[str, int]:
    return str(path.parent), int(path.stem)


def _printed(path: Path) -> Iterator[Container]:
    """Yield what a container printed, nothing while it has not printed a whole line."""
    pod = _FOLDER.fullmatch(path.parent.parent.name)
    try:
        text = path.read_text()
    except FileNotFoundError:  # the pod was deleted meanwhile
        return
    for line in _whole_lines(text):
        _, _, kind, content = line.split(" ", 3)  # time, stream, F for a full line
        if pod is None or kind != "F" or not content.startswith("{"):
            continue
        said = json.loads(content)
        if "environment" not in said:  # another program's, whose log has lines of JSON, too
            continue
        yield Container(
            **pod.groupdict(),
            name=path.parent.name,
            restart=int(path.stem),
            environment=said["environment"],
            devices=tuple(said["devices"]),
            metadata=tuple(said.get("metadata", ())),
            opened=said.get("opened", {}),
        )
