"""kube-scheduler and Dovetail give the same nodes for every pod, but for a closed list of differences that exist."""

from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import pytest_asyncio

from e2e.controlplane import build
from e2e.controlplane.plane import ControlPlane
from e2e.differential import groups, ours, report, run
from e2e.differential.comparison import Comparison
from e2e.differential.differences import DIFFERENCES
from e2e.differential.peer import Verdict
from e2e.differential.report import Tally
from solver.domain import Policy
from tests.support.difference_groups import shown

pytestmark = [  # kube-scheduler 1.37 mended differences that its older versions have
    pytest.mark.controlplane,
    pytest.mark.kubernetes(since="1.37"),
    pytest.mark.asyncio(loop_scope="module"),
]

SAMPLES = [range(first, first + 4) for first in range(0, 16, 4)]
"""Numbers of the groups that are compared here, 40 cases each; `make differential` goes on from there."""
SHOWN = shown()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def comparison() -> AsyncIterator[Comparison]:
    """Start a control plane of its own: both sides would see the pods and nodes of other tests."""
    build.controlplane_binary()
    with ControlPlane.start() as plane:
        async with run.comparing(plane) as made:
            yield made


@pytest.mark.parametrize("numbers", SAMPLES, ids=lambda each: f"{each.start}-{each.stop - 1}")
async def test_both_give_the_same_nodes(comparison: Comparison, numbers: range) -> None:
    tally = Tally()
    for number in numbers:
        group = groups.group(number)
        comparison.stage.refused.clear()
        tally.add(group, await comparison.run(group), comparison.stage.refused)
    assert not tally.defects, "\n".join(report.describe(seed, outcome) for seed, outcome in tally.defects)
    assert not tally.said_otherwise, "\n".join(report.counted(seed, outcome) for seed, outcome in tally.said_otherwise)
    assert tally.sizes["some"] > tally.cases // 5
    assert tally.refused.total() < tally.cases // 20, tally.refused


@pytest.mark.parametrize("name", [each.name for each in DIFFERENCES])
async def test_a_listed_difference_is_there(comparison: Comparison, name: str) -> None:
    (found,) = await comparison.run(SHOWN[name])
    assert not comparison.stage.refused
    assert [each.name for each in found.because] == [name], report.describe(0, found)


async def test_a_rule_that_one_side_does_not_know_is_noticed(
    comparison: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = groups.group(0, frozenset({"resources", "selector"})).first(10)
    everywhere = frozenset(each["metadata"]["name"] for each in group.cluster[0])
    asked = ours.verdicts

    async def careless(
        kubeconfig: Path, uids: Iterable[str], policy: Policy, workers: ProcessPoolExecutor
    ) -> dict[str, Verdict]:
        found = await asked(kubeconfig, uids, policy, workers)
        return {uid: Verdict(everywhere) for uid in found}

    monkeypatch.setattr(ours, "verdicts", careless)
    assert any(each.is_defect for each in await comparison.run(group))
