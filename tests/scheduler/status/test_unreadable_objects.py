"""How many objects are in quarantine, and what is told of them."""

import pytest
from structlog.testing import capture_logs

from scheduler.change import Change, Kind
from scheduler.kube.encode import ObjectReference
from scheduler.kube.errors import DecodeError
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics
from scheduler.status.unreadable_objects import Quarantine
from tests.support.builders import pod
from tests.support.shell_clock import VirtualClock
from tests.support.work import counted

POD = pod("hostile")


class Name(str):
    """A name that counts how often it is hashed, also in a loop of the interpreter."""

    __slots__ = ()
    used = 0

    def __hash__(self) -> int:
        Name.used += 1
        return str.__hash__(self)

    __eq__ = str.__eq__


class RecordedEvents:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.events: list[tuple[ObjectReference, str]] = []
        self.metrics = Metrics()
        self.quarantine = Quarantine(self.metrics, lambda *event: self.events.append(event), self.clock)

    def count(self, kind: Kind) -> float | None:
        return self.metrics.registry.get_sample_value("dovetail_quarantined_objects", {"kind": kind.value})

    def unreadable(
        self, name: str = "hostile", kind: Kind = Kind.CLAIMS, message: str = "no int", namespace: str = "ml"
    ) -> None:
        problem = DecodeError(kind.value, f"{namespace}/{name}", "spec.devices", message, "uid-1")
        self.quarantine.unreadable(kind, problem)


@pytest.fixture
def recorded() -> RecordedEvents:
    return RecordedEvents()


def test_a_series_counts_them_by_kind_from_the_start(recorded: RecordedEvents) -> None:
    assert all(recorded.count(kind) == 0 for kind in Kind)
    recorded.unreadable("a")
    recorded.unreadable("a")
    recorded.unreadable("b")
    assert (recorded.count(Kind.CLAIMS), recorded.count(Kind.PODS)) == (2, 0)
    recorded.quarantine.readable(Kind.CLAIMS, "ml/a")
    assert recorded.count(Kind.CLAIMS) == 1


def test_each_version_has_a_line_in_the_log_and_so_has_the_end(recorded: RecordedEvents) -> None:
    with capture_logs() as lines:
        recorded.unreadable()
        recorded.unreadable(message="x" * 100_000)
        recorded.quarantine.readable(Kind.CLAIMS, "ml/hostile")
    unreadable, readable = logs.OBJECT_UNREADABLE, logs.OBJECT_READABLE
    assert [each["event"] for each in lines] == [unreadable, unreadable, readable]
    assert all(each["key"] == "ml/hostile" for each in lines)
    assert max(len(each.get("error", "")) for each in lines) <= 500


def test_an_object_gets_an_event_every_ten_minutes(recorded: RecordedEvents) -> None:
    for _ in range(100):
        recorded.unreadable()
    ((reference, message),) = recorded.events
    assert reference == ObjectReference(
        api_version="resource.k8s.io/v1", kind="ResourceClaim", namespace="ml", name="hostile", uid="uid-1"
    )
    assert message.startswith("Dovetail cannot read this object, and does not use it until it changes: spec.devices:")
    recorded.clock.now += 601
    recorded.unreadable()
    assert len(recorded.events) == 2


def test_events_of_many_objects_are_bounded(recorded: RecordedEvents) -> None:
    for index in range(3000):
        recorded.unreadable(f"hostile-{index}")
    assert len(recorded.events) == 100
    assert recorded.count(Kind.CLAIMS) == 3000


def test_one_namespaces_objects_leave_the_others_their_events(recorded: RecordedEvents) -> None:
    for namespace in range(20):
        for index in range(150):
            recorded.unreadable(f"hostile-{index}", namespace=f"team-{namespace}")
    assert len(recorded.events) == 1000


def test_an_object_that_raises_where_it_is_seen_is_counted_and_stops_nothing(recorded: RecordedEvents) -> None:
    def see(_: object) -> None:
        raise KeyError("a defect")

    change = Change(kind=Kind.PODS, key=str(POD.id), value=POD)
    recorded.quarantine.isolate(change, see)
    recorded.quarantine.unreadable(Kind.PODS, DecodeError("pods", str(POD.id), "spec", "no int"))
    assert recorded.count(Kind.PODS) == 1
    recorded.quarantine.usable(change)
    assert recorded.count(Kind.PODS) == 1, "it still cannot be read"
    recorded.quarantine.readable(Kind.PODS, str(POD.id))
    assert recorded.count(Kind.PODS) == 0


def test_what_an_object_costs_does_not_grow_with_those_that_cannot_be_used_either() -> None:
    costs = []
    for count in (50, 900):
        recorded = RecordedEvents()
        for number in range(count):
            namespace = Name(f"team-{number // 90}")
            recorded.unreadable(Name(f"{number}"), namespace=namespace)
            change = Change(kind=Kind.CLAIMS, key=Name(f"{namespace}/{number}"), value=None)
            recorded.quarantine.unusable(change, "it raises")
        Name.used = 0
        with counted() as work:
            recorded.quarantine.unreadable(
                Kind.CLAIMS, DecodeError("claims", Name("team-0/last"), "spec", "no int", "uid-1")
            )
        assert len(recorded.events) == count + 1
        costs.append((work.lines, Name.used))
    assert costs[0] == costs[1]
