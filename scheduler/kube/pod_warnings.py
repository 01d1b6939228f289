"""What a kubelet says of a pod whose containers do not start: its events of the type Warning (core/v1 Event)."""

import datetime as dt
from typing import Final

import msgspec

from scheduler.kube import paths
from scheduler.kube.client import Client, pages
from scheduler.kube.decode import json_parts
from scheduler.kube.errors import KubeError
from solver.domain import Pod

_MOST: Final = 3
"""Different warnings that a user sees; the API server keeps events for an hour."""
_KUBELET: Final = "kubelet"


class PodWarning(msgspec.Struct, frozen=True):
    """A warning of a kubelet, how often it was given and when last."""

    reason: str
    message: str
    count: int
    last: dt.datetime | None


class _Series(msgspec.Struct, frozen=True, rename="camel"):
    count: int = 1
    last_observed_time: dt.datetime | None = None


class _Source(msgspec.Struct, frozen=True):
    component: str = ""


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    last_timestamp: dt.datetime | None = None
    event_time: dt.datetime | None = None
    series: _Series | None = None
    source: _Source = _Source()
    reporting_component: str = ""

    @property
    def warning(self) -> PodWarning:
        if self.series is not None:
            return PodWarning(self.reason, self.message, self.series.count, self.series.last_observed_time)
        return PodWarning(self.reason, self.message, self.count or 1, self.last_timestamp or self.event_time)


_event: Final = msgspec.json.Decoder(_Event)


def _of_kubelet(raw: bytes | msgspec.Raw) -> PodWarning | None:
    try:
        event = json_parts.decode(_event, raw)
    except ValueError:  # one event that cannot be read hides no other
        return None
    return event.warning if _KUBELET in {event.source.component, event.reporting_component} else None


async def read_warnings(client: Client, pod: Pod) -> tuple[PodWarning, ...]:
    """
    List what kubelets warned of, the newest first; of equal warnings the newest.

    Empty where they cannot be read: what else is known of the pod is worth telling without them.
    """
    path = f"{paths.CORE}/namespaces/{pod.id.namespace}/events"
    found: list[PodWarning] = []
    try:
        async for page in pages(client, path, {"fieldSelector": f"involvedObject.uid={pod.uid},type=Warning"}):
            found += filter(None, map(_of_kubelet, page.items))
    except KubeError:
        return ()
    oldest = dt.datetime.min.replace(tzinfo=dt.UTC)
    newest_first = sorted(found, key=lambda each: each.last or oldest, reverse=True)
    newest: dict[tuple[str, str], PodWarning] = {}
    for each in newest_first:
        newest.setdefault((each.reason, each.message), each)
    return tuple(newest.values())[:_MOST]
