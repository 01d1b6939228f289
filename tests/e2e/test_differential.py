"""What the differential test rests on, without a control plane: its cases, its list, its extender."""

import copy
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
import yaml

from e2e.controlplane.plane import REPOSITORY
from e2e.differential import document, groups, peer, repairs
from e2e.differential.comparison import Outcome
from e2e.differential.differences import (
    DIFFERENCES,
    OF_ALLOCATIONS,
    More,
    by_sign,
    directions,
)
from e2e.differential.extender import REFUSAL, Extender
from e2e.differential.groups import WEIGHTS, Case
from e2e.differential.peer import Verdict
from tests.support.allocation_differences import Difference as AllocationDifference
from tests.support.difference_groups import shown

SEEDS = range(40)
THEIRS = Verdict(frozenset({"a", "b"}))


def test_the_same_number_gives_the_same_group() -> None:
    assert groups.group(3) == groups.group(3)
    assert groups.group(3) != groups.group(4)


def test_every_feature_is_drawn() -> None:
    drawn = Counter(feature for seed in SEEDS for feature in groups.group(seed).features)
    assert set(drawn) == set(WEIGHTS)


def test_features_can_be_chosen() -> None:
    assert groups.group(1, frozenset({"ports"})).features == {"ports"}


def test_names_are_unique_within_a_group_and_between_groups() -> None:
    names = [
        (each["kind"], each["metadata"]["name"])
        for seed in SEEDS
        for found in (groups.group(seed),)
        for each in (
            *(each for phase in found.cluster for each in phase),
            *(each for case in found.cases for each in (case.pod, *case.objects)),
        )
    ]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_a_case_under_another_name_asks_for_claims_of_its_own() -> None:
    case = next(each for seed in SEEDS for each in groups.group(seed).cases if each.objects)
    again = case.renamed("-again")
    assert again.name == f"{case.name}-again"
    named = {each.get("resourceClaimName") for each in again.pod["spec"]["resourceClaims"]}
    assert {each["metadata"]["name"] for each in again.objects} <= named
    assert case == next(each for seed in SEEDS for each in groups.group(seed).cases if each.objects)


def test_the_documentation_shows_the_list() -> None:
    page = (REPOSITORY / "docs" / "differences.md").read_text(encoding="utf-8")
    assert page == document.markdown(), "run: .venv/bin/python -m e2e.differential --list > docs/differences.md"


def test_the_list_names_each_difference_once_and_shows_it() -> None:
    names = [each.name for each in document.ENTRIES]
    assert len(set(names)) == len(names)
    assert set(shown()) == {each.name for each in DIFFERENCES}
    of_the_allocator = {str(each) for each in AllocationDifference}
    assert {each.name for each in OF_ALLOCATIONS} <= of_the_allocator <= set(names)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each.name.replace(" ", "-"))
def test_each_difference_can_be_told(difference: object) -> None:
    assert difference in DIFFERENCES
    (each,) = (found for found in DIFFERENCES if found is difference)
    assert each.can_be_repaired or each.sign or each.our_sign


@pytest.mark.parametrize(
    ("name", "repair"),
    [(each.name, each.repair) for each in DIFFERENCES if each.repair],
    ids=lambda each: str(each)[:20],
)
def test_a_repair_changes_the_case_that_shows_its_difference(name: str, repair: object) -> None:
    (case,) = shown()[name].cases
    before = copy.deepcopy(case)
    assert callable(repair)
    repair(case)
    assert case != before


def test_without_admin_access_a_pod_leaves_the_claims_that_have_it_and_that_others_may_use() -> None:
    features = frozenset({"devices", "shared claims", "admin access"})
    every = [each for seed in SEEDS for each in groups.group(seed, features).cases]
    repaired = 0
    for case in (each for each in every if each.common):
        spec = case.pod["spec"]
        before = [each.get("resourceClaimName") for each in spec["resourceClaims"]]
        gone = {each["metadata"]["name"] for each in case.common if "adminAccess" in str(each["spec"])}
        repairs.remove_admin_access(case)
        assert [each.get("resourceClaimName") for each in spec["resourceClaims"]] == [
            each for each in before if each not in gone
        ]
        entries = {each["name"] for each in spec["resourceClaims"]}
        containers = (*spec.get("initContainers", ()), *spec["containers"])
        used = {each["name"] for one in containers for each in one.get("resources", {}).get("claims", ())}
        assert used <= entries
        repaired += len(gone & set(before))
    assert repaired


def test_a_sign_counts_only_where_the_right_side_finds_more() -> None:
    failed = Verdict(frozenset(), "CEL runtime error: no such key", is_error=True)
    assert [each.name for each in by_sign(failed, Verdict(frozenset({"a"})))] == ["selector error"]
    assert by_sign(failed, failed) == ()
    assert by_sign(Verdict(frozenset({"a"}), "CEL runtime error"), Verdict(frozenset())) == ()


def test_directions_say_which_scheduler_finds_more() -> None:
    assert directions(THEIRS, THEIRS) == frozenset()
    assert directions(THEIRS, Verdict(frozenset({"a"}))) == {More.KUBE_SCHEDULER}
    assert directions(THEIRS, Verdict(frozenset({"a", "c"}))) == {More.KUBE_SCHEDULER, More.DOVETAIL}


def test_a_disagreement_that_nothing_explains_is_a_defect() -> None:
    case = Case({"metadata": {"name": "p"}})
    ours = Verdict(frozenset({"a"}))
    assert not Outcome(case, THEIRS, THEIRS).is_defect
    assert Outcome(case, THEIRS, ours).is_defect
    assert not Outcome(case, THEIRS, ours, (DIFFERENCES[0],)).is_defect
    assert Outcome(case, THEIRS, Verdict(THEIRS.nodes, "contradicts itself", is_error=True)).is_defect


async def test_the_extender_notes_the_nodes_of_the_first_attempt_and_refuses_them() -> None:
    async with Extender().serving() as extender, aiohttp.ClientSession() as session:
        for names in (["a", "b"], ["c"]):
            body = {"Pod": {"metadata": {"uid": "u", "name": "p"}, "spec": {}}, "Nodes": None, "NodeNames": names}
            async with session.post(f"{extender.url}/filter", json=body) as answer:
                said = await answer.json()
            assert said["NodeNames"] == []
            assert said["FailedNodes"] == dict.fromkeys(names, REFUSAL)
        assert extender.noted == {"u": frozenset({"a", "b"})}


def test_kube_scheduler_looks_at_all_nodes_and_changes_nothing(tmp_path: Path) -> None:
    written = yaml.safe_load(peer.write_config(tmp_path / "config.yaml", "http://127.0.0.1:1").read_text())
    assert written["percentageOfNodesToScore"] == 100
    assert written["extenders"][0]["filterVerb"] == "filter"
    (profile,) = written["profiles"]
    assert profile["plugins"] == {"postFilter": {"disabled": [{"name": "*"}]}}


def test_a_message_about_a_listed_difference_may_begin_otherwise() -> None:
    case = Case({"metadata": {"name": "p"}})
    theirs = Verdict(frozenset(), "0/2 nodes are available: 2 Too many pods.")
    listed = Verdict(frozenset(), "0/2 nodes are available. claim c holds device d, which has taint hot now.")
    assert Outcome(case, theirs, Verdict(frozenset(), "0/2 nodes are available.")).says_otherwise
    assert not Outcome(case, theirs, listed).says_otherwise
