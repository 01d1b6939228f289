"""The words in which reasons about devices are given, and which code stands for which obstacle."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from solver.domain import Reason, ReasonCode
from solver.explain.hints import HINT
from solver.explain.supply import CAPACITY, COUNTERS, USED, Asked, Supply
from solver.feasibility.claims import MOST_RESULTS
from solver.problem.devices.inventory import Mask
from solver.problem.requests.demand import Verdict


def joined(reasons: Iterable[Reason]) -> Iterator[Reason]:
    """Add up the nodes of equal reasons."""
    counts: Counter[Reason] = Counter()
    for each in reasons:
        counts[msgspec.structs.replace(each, node_count=0)] += each.node_count
    yield from (msgspec.structs.replace(each, node_count=count) for each, count in counts.items())


def hinted(reason: Reason, hint: str) -> Reason:
    """Append a hint."""
    return msgspec.structs.replace(reason, message=reason.message + HINT + hint) if hint else reason


def sees(reach: frozenset[int] | None, roomy: Mask) -> bool:
    """Whether some of the nodes see what has this reach."""
    return bool(roomy.any()) and (reach is None or bool(roomy[list(reach)].any()))


def outranked(*, is_proven: bool, to: Sequence[str] = ()) -> Reason:
    """Say that a pod lost, to whom among others, and whether no plan places more."""
    if is_proven:
        winners = f" (such as {', '.join(to)})" if to else ""
        message = (
            "alone it would fit, but pods of the same or a higher priority that are decided with it get the room"
            f"{winners}, and no plan places more of them"
        )
        return Reason(code=ReasonCode.OUTRANKED, message=message)
    message = "alone it would fit, but no plan that places it too was found in time, and none was ruled out"
    return Reason(code=ReasonCode.BUDGET, message=message)


def nearness(asked: Asked, supply: Supply) -> tuple[int, int]:
    """How near an alternative is to fitting: devices missing (negative), then devices that match at all."""
    return (supply.most - asked.ask.needed, supply.verdicts.total())


def too_many(name: str, supply: Supply) -> Reason:
    """Say that a request takes more devices than an allocation holds."""
    message = (
        f"{name}: allocation mode All matches {supply.largest} devices on a node, and an allocation holds at "
        f"most {MOST_RESULTS}: narrow its selectors, or use a count"
    )
    return Reason(code=ReasonCode.CLAIM_TOO_LARGE, message=message)


def pools_by_number(invalid: int, partial: int) -> Iterator[Reason]:
    """Say how many pools cannot be used, for readers to whom they are not named."""
    for code, count, text in (
        (ReasonCode.POOL_INVALID, invalid, "not used: what drivers publish of {} is contradictory"),
        (ReasonCode.POOL_INCOMPLETE, partial, "being published"),
    ):
        if count:
            what = text.format("it" if count == 1 else "them")
            message = f"{count} pool{' is' if count == 1 else 's are'} {what}"
            yield Reason(code=code, message=message)


OBSTACLES: Final = {
    USED: ReasonCode.DEVICES_IN_USE,
    CAPACITY: ReasonCode.DEVICES_CAPACITY,
    COUNTERS: ReasonCode.DEVICES_COUNTERS,
}
WORDS: Final = {
    Verdict.TAINTED: "tainted",
    Verdict.AVOIDED: "avoided after not getting ready for a pod (tried again after a rest, and given last then)",
    Verdict.CAPACITY: "too small for the requested capacity",
    Verdict.NOT_OWNED: "left to another scheduler by the configuration",
    Verdict.TOO_LARGE: "that takes more of its node than it has",
    Verdict.SPARED: "left aside for what it takes of its node, where others take nothing",
}


def devices_of(count: int) -> str:
    """Give a number of devices in words."""
    return f"{count} device{'s' if count != 1 else ''}"


def matching_of(count: int) -> str:
    """Say how many devices match."""
    return "none matches" if count == 0 else f"{count} match{'es' if count == 1 else ''}"


def code_of(supply: Supply, needed: int) -> ReasonCode:
    """Name the first hurdle that too few devices passed."""
    if supply.verdicts.get(Verdict.YES):
        if supply.largest < needed:
            return ReasonCode.DEVICES_NONE
        hurdles = [code for word, code in OBSTACLES.items() if supply.obstacles.get(word)]
        is_too_large = not needed and bool(supply.verdicts.get(Verdict.TOO_LARGE))
        otherwise = ReasonCode.DEVICES_NONE if is_too_large else ReasonCode.DEVICES_IN_USE
        return hurdles[0] if hurdles else otherwise
    for verdict, code in (
        (Verdict.TAINTED, ReasonCode.DEVICES_TAINTED),
        (Verdict.AVOIDED, ReasonCode.DEVICES_AVOIDED),
        (Verdict.NOT_OWNED, ReasonCode.DEVICES_NOT_OWNED),
        (Verdict.OFFERED_TWICE, ReasonCode.DEVICES_OFFERED_TWICE),
        (Verdict.FAILED, ReasonCode.SELECTOR_FAILED),
    ):
        if supply.verdicts.get(verdict):
            return code
    return ReasonCode.DEVICES_NONE
