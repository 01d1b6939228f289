"""Compares the API server's and Dovetail's reading of mutated manifests."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from e2e.reading import differences, judges, mutations
from e2e.reading.mutations import Mutant

VERSION: Final = f"1.{mutations.MINOR}"


@dataclass(slots=True)
class Tally:
    """How often both take and refuse, the known differences, and the rest in words."""

    cases: int = 0
    taken: int = 0
    refused: int = 0
    skipped: int = 0
    known: list[str] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)


def compare(request: judges.Request, count: int, seed: int = 0, kinds: Sequence[str] = ()) -> Tally:
    """Judge `count` manifests by both."""
    tally = Tally()
    for mutant in mutations.mutants(count, seed, kinds):
        tally.cases += 1
        _judge(request, mutant, tally)
    return tally


def _judge(request: judges.Request, mutant: Mutant, tally: Tally) -> None:
    server = judges.of_server(request, mutant.body)
    if not server.is_known:
        tally.skipped += 1
        return
    ours = judges.of_dovetail(mutant.body, VERSION)
    if bool(server.refusal) != bool(ours.refusal):
        said = f"the server: {server.refusal or 'takes it'}\n  Dovetail: {ours.refusal or 'takes it'}"
        _disagree(mutant, said, tally)
    elif server.refusal:
        tally.refused += 1
    elif unequal := _unequal(mutant.body, server.stored, ours.stored):
        _disagree(mutant, f"read: {unequal}", tally)
    else:
        tally.taken += 1


def _disagree(mutant: Mutant, said: str, tally: Tally) -> None:
    name = differences.known(mutant.body, mutant.changes, said)
    if name:
        tally.known.append(name)
    else:
        tally.disagreements.append(f"{mutant.body['kind']} {'; '.join(mutant.changes)}\n  {said}")


def _unequal(body: dict[str, Any], stored: dict[str, Any], ours: Any) -> str:
    """Say which fields are read otherwise from what the server has stored than from the manifest."""
    theirs = judges.read(body, stored)
    if theirs is None or ours is None:
        return ""
    one, other = differences.comparable(judges.as_built(theirs)), differences.comparable(judges.as_built(ours))
    wrong = [
        f"{name}: {str(one.get(name))[:200]} and {str(other.get(name))[:200]}"
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    ]
    return "; ".join(wrong)
