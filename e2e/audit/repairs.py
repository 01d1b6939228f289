"""
Repairs in the history: no pod is evicted without the room of its successor, or twice, and no room is held for too long.

A move counts from the write that notes it in the status of its RepairPlan. What preemption evicts is noted in none.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from e2e.audit.reading import Finding, Json, Key
from e2e.audit.writes import Write

LATE_SECONDS: Final = 60.0
"""A hold may outlive its deadline by so much: the next leader has to take over and to read its watches first."""
_AGAIN_SECONDS: Final = 10.0
"""Within this time an eviction may be sent again: the answer to the first one may have been lost."""
_EVICTING: Final = "Evicting"
_FAILED: Final = "Failed"


@dataclass(slots=True)
class RepairMoves:
    """RepairPlans and DeviceHolds by name, as they are stored at a time, and the evictions so far."""

    judged: int = 0
    """Evictions of pods that a repair moves."""
    _plans: dict[str, Json] = field(default_factory=dict)
    _holds: dict[str, Json] = field(default_factory=dict)
    _unknown: set[str] = field(default_factory=set)
    """Names of holds of which a write has an unknown outcome: they may be there or gone."""
    _sent: dict[str, float] = field(default_factory=dict)
    """When pods were evicted, by uid."""

    def see(self, write: Write) -> Iterator[Finding]:
        """See the next write, in the order of versions."""
        if write.resource == "deviceholds":
            yield from self._see_hold(write)
        elif write.resource == "repairplans":
            yield from self._see_plan(write)
        elif (write.resource, write.subresource) == ("pods", "eviction") and write.is_known:
            yield from self._see_eviction(write)

    def end(self, seconds: float) -> Iterator[Finding]:
        """See the end of the log."""
        for name, hold in self._holds.items():
            yield from _late(name, hold, seconds, "still there")

    @property
    def states(self) -> dict[str, int]:
        """How many moves are in which state."""
        states = [each["state"] for plan in self._plans.values() for each in _progress(plan)]
        return {state: states.count(state) for state in sorted(set(states))}

    def _see_hold(self, write: Write) -> Iterator[Finding]:
        name = write.key.name
        if write.stored and not write.is_gone:
            self._holds[name] = write.stored
            self._unknown.discard(name)
        elif write.subresource:
            return
        elif not write.is_known:
            self._holds.pop(name, None)
            self._unknown.add(name)
        elif (hold := self._holds.pop(name, None)) is not None:  # a deletion answers with a Status
            yield from _late(name, hold, write.seconds, "deleted")

    def _see_plan(self, write: Write) -> Iterator[Finding]:
        name = write.key.name
        if not write.stored or write.is_gone:
            if write.is_known and not write.subresource:
                self._plans.pop(name, None)
            return
        before = {each["uid"] for each in _progress(self._plans.get(name, {}))}
        self._plans[name] = write.stored
        others = [plan for other, plan in self._plans.items() if other != name]
        moved = {each["uid"] for plan in others for each in _progress(plan) if each["state"] != _FAILED}
        for uid in sorted({each["uid"] for each in _progress(write.stored)} - before & moved):
            yield Finding("twice", name, f"it moves pod {uid}, which another plan has moved")

    def _see_eviction(self, write: Write) -> Iterator[Finding]:
        for name, plan in self._plans.items():
            noted = {each["uid"]: each for each in _progress(plan) if each["state"] == _EVICTING}
            for move in plan["spec"]["moves"]:
                if move["uid"] in noted and Key(move["namespace"], move["name"]) == write.key:
                    self.judged += 1
                    yield from self._judge(name, move, noted[move["uid"]], write.seconds)

    def _judge(self, plan: str, move: Json, progress: Json, seconds: float) -> Iterator[Finding]:
        pod = f"{move['namespace']}/{move['name']}"
        first = self._sent.setdefault(move["uid"], seconds)
        if seconds > first + _AGAIN_SECONDS:
            yield Finding("twice", pod, f"{plan} evicts it again after {seconds - first:.0f} s")
        if not move.get("to") or any(each.startswith(f"{plan}-") for each in self._unknown):
            return
        alike = [each for each in self._plans[plan]["spec"]["moves"] if _controller(each) == _controller(move)]
        nodes = {each["to"] for each in alike if each.get("to")}
        missing = self._missing_room(progress.get("place", ""), nodes, seconds)
        if missing:
            yield Finding("no room", pod, f"{plan} evicts it, and {missing}")

    def _missing_room(self, place: str, nodes: Collection[str], seconds: float) -> str:
        """Say why a place is not held on one of some nodes; empty where it is."""
        uid, _, index = place.rpartition("/")
        hold = next((each for each in self._holds.values() if each["metadata"]["uid"] == uid), None)
        if hold is None:
            return f"there is no hold of its successor's place {place!r}"
        status = hold.get("status", {})
        gone = {*status.get("used", ()), *(each["place"] for each in status.get("lost", ()))}
        if int(index) in gone:
            return f"place {place} is used or lost"
        if seconds > _deadline(hold):
            return f"the deadline of place {place} has passed"
        places = [each for group in hold["spec"]["groups"] for each in group["places"]]
        node = places[int(index)]["node"]
        return "" if node in nodes else f"place {place} is on {node}, not on {' or '.join(sorted(nodes))}"


def _progress(plan: Json) -> list[Json]:
    return list(plan.get("status", {}).get("moves", ()))


def _controller(move: Json) -> tuple[str, str]:
    """Return what the successors of moves have in common that may swap their places; a pod without one is alone."""
    return move["namespace"], move.get("controllerUID") or move["uid"]


def _deadline(hold: Json) -> float:
    return datetime.fromisoformat(hold["spec"]["deadline"]).timestamp()


def _late(name: str, hold: Json, seconds: float, what: str) -> Iterator[Finding]:
    late = seconds - _deadline(hold)
    if late > LATE_SECONDS:
        yield Finding("late", name, f"{what} {late:.0f} s after its deadline")
