"""The history finds evictions of repairs without a successor's room, evictions twice, and room held for too long."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.audit.history import History
from e2e.audit.reading import Json, Key
from e2e.audit.repairs import LATE_SECONDS
from e2e.audit.writes import Write

DEADLINE = 2000.0


class Log:
    """Writes, one a second, of one plan that moves the pod `a` to the node `n2`, whose room `hold-1` keeps."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.seconds = 1000.0

    def _add(self, resource: str, name: str, stored: Json, *, namespace: str = "", **more: Any) -> None:
        version = len(self.writes) + 1
        metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
        self.writes.append(
            Write(
                version=version,
                seconds=self.seconds,
                user="dovetail",
                credential="token",
                resource=resource,
                subresource=more.get("subresource", ""),
                key=Key(namespace, name),
                stored={"metadata": metadata, **stored} if stored else {},
                is_gone=False,
                is_known=more.get("is_known", True),
            )
        )
        self.seconds += 1

    def hold(self, node: str = "n2", **status: Any) -> None:
        deadline = datetime.fromtimestamp(DEADLINE, UTC).isoformat()
        spec = {"deadline": deadline, "groups": [{"places": [{"node": node}]}]}
        self._add("deviceholds", "hold-1", {"spec": spec, "status": status})

    def hold_deleted(self, **more: Any) -> None:
        self._add("deviceholds", "hold-1", {}, **more)

    def noted(self, state: str = "Evicting", *, plan: str = "hold", place: str = "uid-hold-1/0") -> None:
        moves = [{"namespace": "team", "name": "a", "uid": "uid-a", "to": "n2"}]
        progress = [{"uid": "uid-a", "state": state, "place": place}]
        self._add("repairplans", plan, {"spec": {"moves": moves}, "status": {"moves": progress}}, subresource="status")

    def swapped(self, *, controllers: Sequence[str]) -> None:
        """Note that `a`, which goes to n2, has got the place of `b` on n3."""
        moves = [
            {"namespace": "team", "name": name, "uid": f"uid-{name}", "controllerUID": controller, "to": node}
            for (name, node), controller in zip((("a", "n2"), ("b", "n3")), controllers, strict=True)
        ]
        progress = [{"uid": "uid-a", "state": "Evicting", "place": "uid-hold-1/0"}]
        self._add(
            "repairplans", "hold", {"spec": {"moves": moves}, "status": {"moves": progress}}, subresource="status"
        )

    def evicted(self, **more: Any) -> None:
        self._add("pods", "a", {}, namespace="team", subresource="eviction", **more)

    def history(self) -> History:
        return History.of(self.writes, lease=Key("dovetail-system", "dovetail"), left_seconds=1e9)

    def findings(self) -> Sequence[str]:
        return [f"{each.rule}: {each.message}" for each in self.history().findings]


@pytest.fixture
def log() -> Log:
    """The room is held, and the eviction noted."""
    found = Log()
    found.hold()
    found.noted()
    return found


def test_an_eviction_into_held_room_is_right(log: Log) -> None:
    log.evicted()
    log.noted("Moved")
    log.hold_deleted()

    assert log.findings() == []
    assert (log.history().repairs.judged, log.history().repairs.states) == (1, {"Moved": 1})


def test_an_eviction_without_room_is_found(log: Log) -> None:
    log.hold_deleted()
    log.evicted()

    assert log.findings() == ["no room: hold evicts it, and there is no hold of its successor's place 'uid-hold-1/0'"]


@pytest.mark.parametrize("status", [{"used": [0]}, {"lost": [{"place": 0, "message": "taken"}]}])
def test_room_that_others_have_is_none(log: Log, status: Json) -> None:
    log.hold(**status)
    log.evicted()

    assert log.findings() == ["no room: hold evicts it, and place uid-hold-1/0 is used or lost"]


def test_room_whose_time_has_passed_or_on_another_node_is_none(log: Log) -> None:
    log.hold(node="n3")
    log.evicted()
    assert log.findings() == ["no room: hold evicts it, and place uid-hold-1/0 is on n3, not on n2"]

    log.hold()
    log.seconds = DEADLINE + 1
    log.noted("Evicting")
    log.evicted()
    assert "no room: hold evicts it, and the deadline of place uid-hold-1/0 has passed" in log.findings()


def test_successors_of_one_controller_may_swap_their_places_those_of_others_may_not(log: Log) -> None:
    log.hold(node="n3")
    log.swapped(controllers=("rs", "rs"))
    log.evicted()
    assert log.findings() == []

    log.swapped(controllers=("rs", "other"))
    log.evicted()
    assert log.findings() == ["no room: hold evicts it, and place uid-hold-1/0 is on n3, not on n2"]


def test_a_hold_of_which_a_write_has_an_unknown_outcome_is_not_judged(log: Log) -> None:
    log.hold_deleted(is_known=False)
    log.evicted()

    assert log.findings() == []


def test_preemption_evicts_without_a_plan() -> None:
    log = Log()
    log.evicted()

    assert (log.findings(), log.history().repairs.judged) == ([], 0)


def test_an_eviction_long_after_the_first_is_found_and_one_whose_answer_was_lost_is_not(log: Log) -> None:
    log.evicted()
    log.evicted()
    assert log.findings() == []

    log.seconds += 20
    log.evicted()
    assert log.findings() == ["twice: hold evicts it again after 22 s"]


def test_two_plans_that_move_one_pod_are_found_unless_the_first_never_evicted_it(log: Log) -> None:
    log.noted("Failed")
    log.noted(plan="other")
    assert log.findings() == []

    log.noted("Moved")
    log.noted(plan="third")
    assert log.findings() == ["twice: it moves pod uid-a, which another plan has moved"]


@pytest.mark.parametrize("is_deleted", [True, False])
def test_room_that_is_held_long_after_its_deadline_is_found(log: Log, *, is_deleted: bool) -> None:
    log.seconds = DEADLINE + LATE_SECONDS + 5
    if is_deleted:
        log.hold_deleted()
    else:
        log.noted("Failed")

    (found,) = log.findings()
    assert found.startswith("late: deleted" if is_deleted else "late: still there")
