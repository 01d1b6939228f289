"""Whatever is in the cluster: nothing raises, good pods are placed, plans are valid, claims keep their devices."""

from collections.abc import Sequence

import pytest

from e2e.hostile.objects.generator import generate
from e2e.hostile.offline.fuzz import PER_ROUND
from e2e.hostile.offline.reduction import report
from e2e.hostile.offline.rounds import Finding, Round, Tally
from scheduler.change import Kind

OBJECTS = 3000
_PARTS = 10
_SEED = 1
"""The same objects every time; `make hostile ARGS="--objects N"` makes others."""


def told(findings: Sequence[Finding]) -> str:
    """Say of the first finding of each sort which objects it takes, and how to run it again."""
    first = {each.signature: each for each in reversed(findings)}
    texts = []
    for finding in first.values():
        found = report(finding)
        numbers = ",".join(map(str, found.numbers))
        command = f'make hostile ARGS="--seed {finding.seed} --only-object {numbers}"'
        texts.append("\n".join((f"{finding.rule}: {finding.about}", *map(str, found.about), command)))
    return "\n\n".join(texts)


@pytest.mark.parametrize("part", range(_PARTS))
def test_hostile_objects_do_no_harm(part: int) -> None:
    seed, tally = _SEED, Tally()
    numbers = range(part, OBJECTS // PER_ROUND, _PARTS)
    rounds = [range(number * PER_ROUND, (number + 1) * PER_ROUND) for number in numbers]
    findings = [each for round_ in rounds for each in Round([generate(seed, one) for one in round_], tally).run()]
    assert not findings, told(findings)
    assert sum(tally.objects.values()) == len(rounds) * PER_ROUND


def test_every_kind_that_is_watched_is_made() -> None:
    assert {generate(1, number).kind for number in range(1000)} == set(Kind)
