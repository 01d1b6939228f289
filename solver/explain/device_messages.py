"""The sentence about one request: what it needs, how many devices match, and what excludes the others."""

from collections.abc import Iterator
from typing import Final

from solver.domain import OPTIONAL_NODE_OPERATIONS, Reason, ReasonCode, wording
from solver.domain.quantity import plain
from solver.explain.device_reasons import NamedAlternative
from solver.feasibility.claims import MAX_RESULTS
from solver.fleet.availability import Obstacle
from solver.fleet.request_counts import DeviceSupply
from solver.problem.problem import Problem
from solver.problem.requests.demand import Verdict

_MOST_TAINTS: Final = 2
_WORDS: Final = {
    Verdict.TAINTED: "tainted",
    Verdict.AVOIDED: "avoided because they did not get ready for a pod (retried later, as the last choice)",
    Verdict.CAPACITY: "too small for the requested capacity",
    Verdict.NOT_OWNED: "left to another scheduler by the configuration",
    Verdict.TOO_LARGE: "too large for their node",
    Verdict.UNDECLARED: f"on nodes that do not declare the feature {OPTIONAL_NODE_OPERATIONS}",
    Verdict.SPARED: "left out because they take resources of their node and other matching devices take none",
}


def shortage(problem: Problem, asked: NamedAlternative, supply: DeviceSupply) -> str:
    """Say what a request needs, how many devices match, and what excludes them."""
    verdicts, needed = supply.verdicts, asked.ask.needed
    matching = verdicts.total() - verdicts.get(Verdict.FAILED, 0)
    text = [f"needs {wording.counted(needed, 'device') if needed else 'all devices'}, {_matching(matching)}"]
    if matching:
        text.append(f"{supply.free} free")
    text += _excluded(problem, asked, supply)
    if 0 < supply.largest < min(needed, matching):
        text.append(f"no node has more than {supply.largest} of them")
    elif 0 < supply.most < supply.free and needed:
        text.append(f"at most {supply.most} of them on one node")
    return ", ".join(text)


def too_many(name: str, supply: DeviceSupply) -> Reason:
    """Return the reason of a request for all devices that exceeds the size of an allocation."""
    message = (
        f"{name}: allocation mode All matches {supply.largest} devices on a node, and an allocation holds at "
        f"most {MAX_RESULTS}: narrow its selectors, or use a count"
    )
    return Reason(code=ReasonCode.CLAIM_TOO_LARGE, message=message)


def _matching(count: int) -> str:
    return "none matches" if count == 0 else f"{count} match{'es' if count == 1 else ''}"


def _excluded(problem: Problem, asked: NamedAlternative, supply: DeviceSupply) -> Iterator[str]:
    """Return the numbers of devices by what excludes them."""
    verdicts = supply.verdicts
    for obstacle, count in sorted(supply.obstacles.items()):
        yield f"{count} {obstacle}{_short(supply) if obstacle is Obstacle.CAPACITY else ''}"
    for verdict, words in _WORDS.items():
        if verdicts.get(verdict):
            yield f"{verdicts[verdict]} {words}{_taints(problem, supply) if verdict is Verdict.TAINTED else ''}"
    if verdicts.get(Verdict.OFFERED_TWICE):
        resource = problem.requests.demands[asked.ask.demand].extended_resource
        both = f"as {resource}, the extended resource of class {asked.device_class}"
        yield f"{verdicts[Verdict.OFFERED_TWICE]} offered by a device plugin of their node too, {both}"


def _taints(problem: Problem, supply: DeviceSupply) -> str:
    """Name the taints of most devices: ` with example.com/faulty:NoSchedule`."""
    if not problem.policy.tells_inventory or not supply.taints:
        return ""
    names = [wording.quoted(str(taint)) for taint, _ in sorted(supply.taints.items(), key=_most_first)]
    return f" with {wording.shortened(names, _MOST_TAINTS)}"


def _most_first(item: tuple[object, int]) -> tuple[int, str]:
    return -item[1], str(item[0])


def _short(supply: DeviceSupply) -> str:
    """Say what a share asks for and what is left: ` (memory: 40Gi asked, at most 20Gi left on one device)`."""
    parts = [
        f"{name}: {plain(each.asked, each.like)} asked, at most {plain(each.left, each.like)} left on one device"
        for name, each in sorted(supply.short.items())
    ]
    return f" ({'; '.join(parts)})" if parts else ""
