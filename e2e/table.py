"""Pods and what they hold, as rows of facts (pure) and as a table that fits a terminal of 100 columns."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from e2e.scenarios.examples import Expectation

Object = Mapping[str, Any]
Printed = Mapping[tuple[str, str], Sequence[str]]
"""By UID of the pod and name of the container: its devices, as `driver/pool/device`, of a share with `/ID`."""

WIDTH = 100
DEVICES_SHOWN = 4
SHARE_ID_SHOWN = 8
COLOURS = {
    **dict.fromkeys(("Running", "Succeeded"), "green"),
    **dict.fromkeys(("Bound", "Starting"), "cyan"),
    "Pending": "yellow",
    "Failed": "red",
}
COUNTS = re.compile(r"(?P<counts>\d+/\d+ nodes are available.*?\.) (?P<rest>.+)", re.DOTALL)
NUMBER_AT_END = re.compile(r"^(.*?)(\d+)$")


class Container(NamedTuple):
    """A container that runs, and the devices that it says it has."""

    name: str
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One pod: where it is, which devices it holds, why it waits, and whether this is what its annotation says."""

    pod: str
    state: str
    node: str = ""
    devices: tuple[str, ...] = ()
    """Of the pod's claims."""
    containers: tuple[Container, ...] = ()
    """What runs, where there are real containers."""
    waits_because: str = ""
    template_hash: str = ""
    expected: Expectation | None = None

    @property
    def seen(self) -> tuple[str, ...]:
        """The devices in words: a line for each container if there are several that run, else one for the pod."""
        if len(self.containers) < 2:
            devices = self.containers[0].devices if self.containers else self.devices
            return (shorten(devices),) if devices else ()
        return tuple(f"{each.name}: {shorten(each.devices) or 'none'}" for each in self.containers)

    @property
    def short_name(self) -> str:
        """The pod's name without the hash that a Deployment puts into it."""
        return self.pod.replace(f"-{self.template_hash}-", "-…-") if self.template_hash else self.pod

    @property
    def is_as_expected(self) -> bool:
        """Say whether the pod has ended as it should; one without an annotation always has."""
        if self.expected is None:
            return True
        if self.state != self.expected.state:
            return False
        return self.state != "Pending" or bool(self.waits_because and self.expected.reason in self.waits_because)

    @property
    def reason(self) -> str:
        """Why the pod waits, for a terminal: the hint first, the counts of nodes last."""
        found = COUNTS.fullmatch(self.waits_because)
        return f"{found['rest']} {found['counts']}" if found else self.waits_because

    @property
    def difference(self) -> str:
        """Say what is not as expected."""
        if self.is_as_expected or self.expected is None:
            return ""
        wanted = self.expected.state + (f' for "{self.expected.reason}"' if self.expected.reason else "")
        found = self.state + (f": {self.waits_because}" if self.waits_because else "")
        return f"{self.pod} is to end {wanted} and is {found}"


def rows(pods: Iterable[Object], claims: Iterable[Object], printed: Printed | None = None) -> tuple[Row, ...]:
    """
    Combine pods with their claims, both as the API lists them, sorted by namespace and name.

    With `printed` containers are real ones, and a pod runs when all of them have printed.
    """
    held: dict[str, list[str]] = defaultdict(list)
    for claim in claims:
        devices = _devices(claim)
        for consumer in claim.get("status", {}).get("reservedFor") or ():
            held[consumer["uid"]] += devices
    ordered = sorted(pods, key=lambda pod: (pod["metadata"]["namespace"], pod["metadata"]["name"]))
    found = (_row(pod, tuple(held[pod["metadata"]["uid"]])) for pod in ordered)
    return tuple(found if printed is None else map(_with_containers, ordered, found, repeat(printed)))


def _with_containers(pod: Object, row: Row, printed: Printed) -> Row:
    if row.state != "Running":
        return row
    names = [each["name"] for each in pod["spec"]["containers"]]
    said = {name: printed.get((pod["metadata"]["uid"], name)) for name in names}
    containers = tuple(
        Container(name, tuple(map(_said, devices))) for name, devices in said.items() if devices is not None
    )
    return replace(row, containers=containers, state="Running" if len(containers) == len(names) else "Starting")


def _said(device: str) -> str:
    """Shorten `driver/pool/device[/share ID]`, as a container prints it; the pool is the pod's node."""
    _, _, name, *share = device.split("/")
    return f"{name} (share {share[0][:SHARE_ID_SHOWN]})" if share else name


def shorten(devices: Sequence[str], limit: int = DEVICES_SHOWN) -> str:
    """
    List devices briefly.

    Consecutive numbers become a range (`gpu-0…gpu-7`), and of what is left only the first are shown with the number
    of the others.
    """
    parts: list[str] = []
    for run in _runs(devices):
        parts += run if len(run) < 3 else [f"{run[0]}…{run[-1]}"]
    if len(parts) > limit:
        parts = [*parts[:limit], f"+{len(parts) - limit}"]
    return ", ".join(parts)


def render(all_rows: Sequence[Row], *, title: str = "", longest_reason: int = 0) -> Table:
    """
    Lay the rows out; names that are too long for their column end in `…`, reasons wrap.

    `longest_reason` cuts reasons to so many characters, so that rows stay short on a small terminal (0: no limit).
    """
    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False, expand=True)
    table.add_column("POD", no_wrap=True, overflow="ellipsis", max_width=36)
    table.add_column("STATE", no_wrap=True, min_width=7)
    table.add_column("NODE", no_wrap=True, overflow="ellipsis", max_width=16)
    whose = " IN CONTAINERS" if any(row.containers for row in all_rows) else ""
    table.add_column(f"DEVICES{whose} / WHY IT WAITS", overflow="fold", ratio=1)
    for row in all_rows:
        style = COLOURS.get(row.state, "") if row.is_as_expected or row.state == "Pending" else "red"
        why = row.reason
        if longest_reason and len(why) > longest_reason:
            why = why[: longest_reason - 1].rstrip() + "…"
        seen = row.seen
        last = Text("\n".join(seen)) if seen or not why else Text(why, "yellow")
        table.add_row(Text(row.short_name), Text(row.state, style), Text(row.node), last)
    return table


def plain(all_rows: Sequence[Row]) -> str:
    """Return the table as text without control codes."""
    console = Console(width=WIDTH, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(render(all_rows))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _row(pod: Object, devices: tuple[str, ...]) -> Row:
    metadata, status = pod["metadata"], pod.get("status", {})
    node = pod["spec"].get("nodeName", "")
    state = status.get("phase", "Pending")
    if metadata.get("deletionTimestamp"):
        state = "Ending"
    elif state == "Pending" and node:
        state = "Bound"
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled", {})
    return Row(
        pod=f"{metadata['namespace']}/{metadata['name']}".removeprefix("default/"),
        state=state,
        node=node,
        devices=devices,
        waits_because=scheduled.get("message", "") if scheduled.get("status") == "False" and not node else "",
        template_hash=metadata.get("labels", {}).get("pod-template-hash", ""),
        expected=Expectation.of(metadata),
    )


def _devices(claim: Object) -> list[str]:
    allocation = claim.get("status", {}).get("allocation") or {}
    return [_device(result) for result in allocation.get("devices", {}).get("results") or ()]


def _device(result: Object) -> str:
    consumed = result.get("consumedCapacity") or {}
    shares = [str(value) for name, value in sorted(consumed.items()) if name.rpartition("/")[2] == "memory"]
    return f"{result['device']} ({shares[0]})" if shares else str(result["device"])


def _runs(devices: Sequence[str]) -> list[list[str]]:
    """Split into runs whose names differ by a number at the end that grows by one."""
    runs: list[list[str]] = []
    previous: tuple[str, int] | None = None
    for device in sorted(devices, key=_by_number):
        found = NUMBER_AT_END.match(device)
        current = (found[1], int(found[2])) if found else None
        if current and previous and current == (previous[0], previous[1] + 1):
            runs[-1].append(device)
        else:
            runs.append([device])
        previous = current
    return runs


def _by_number(device: str) -> tuple[str, int]:
    found = NUMBER_AT_END.match(device)
    return (found[1], int(found[2])) if found else (device, -1)
