"""The generator of hostile objects, and the rounds that look for harm: they find what is broken."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

import solver
from e2e.hostile.__main__ import main
from e2e.hostile.objects.draw import written
from e2e.hostile.objects.generator import TABLES, Hostile, generate
from e2e.hostile.objects.kinds import (
    API_VERSIONS,
    GPU_DRIVER,
    MOST_PRIORITY,
    NAMESPACE,
    NAMESPACED,
    PRIORITIES,
    Manifest,
)
from e2e.hostile.offline import path, rounds
from e2e.hostile.offline.companions import companions
from e2e.hostile.offline.fuzz import Plan, fuzz
from e2e.hostile.offline.reduction import Report, reduced, report, save
from e2e.hostile.offline.rounds import Finding, Round, Tally
from e2e.hostile.online import collection
from scheduler.change import Kind
from solver.domain import Plan as SolverPlan
from solver.domain import Violation

MANY = [generate(7, number) for number in range(1500)]


def harmless() -> Iterator[Hostile]:
    """Budgets whose status is extreme, which do no harm."""
    return (each for each in MANY if each.kind is Kind.BUDGETS and each.about == ("a status of extreme numbers",))


def allocated() -> Hostile:
    """A claim that holds a device of the fleet and is otherwise fine."""
    twist = "allocated and reserved for very many"
    return next(each for each in MANY if each.kind is Kind.CLAIMS and each.about == (twist,))


# the generator


def test_the_same_pair_gives_the_same_object() -> None:
    again = [generate(7, number) for number in range(1500)]
    assert [written(each.manifest) for each in again] == [written(each.manifest) for each in MANY]


def test_other_pairs_give_other_objects() -> None:
    assert len({written(each.manifest) for each in MANY}) > 1400
    assert written(generate(8, 0).manifest) != written(generate(7, 0).manifest)


def test_every_kind_has_twists_of_which_some_are_admitted() -> None:
    assert {table.kind for table, _ in TABLES} == set(Kind)
    assert [table.kind for table, _ in TABLES if not any(each.is_admitted for each in table.twists)] == []


def test_every_twist_is_reached() -> None:
    told = Counter((each.kind, about) for each in MANY for about in each.about)
    missing = [
        (table.kind, each.about) for table, _ in TABLES for each in table.twists if (table.kind, each.about) not in told
    ]
    assert len(missing) <= 5, missing


def test_most_objects_are_expected_to_be_admitted() -> None:
    assert sum(each.is_admitted for each in MANY) > 0.6 * len(MANY)


def test_an_object_that_should_be_admitted_is_where_its_kind_belongs() -> None:
    for each in MANY:
        if each.is_admitted:
            version, kind = API_VERSIONS[each.kind]
            assert (each.manifest["apiVersion"], each.manifest["kind"]) == (version, kind)
            assert each.manifest["metadata"].get("namespace") == (NAMESPACE if each.kind in NAMESPACED else None)
            assert collection(each.kind).startswith(("/api/v1", f"/apis/{version}"))


def test_no_priority_is_above_the_most() -> None:
    assert max(PRIORITIES.values()) <= MOST_PRIORITY
    priorities = [
        each.manifest["spec"].get("priority", 0) for each in MANY if each.kind is Kind.PODS and each.is_admitted
    ]
    assert max(priorities) <= MOST_PRIORITY


def test_nested_values_are_written_as_deep_as_they_say() -> None:
    text = written({"a": "nested values: [3", "b": "nested values: {2"})
    assert json.loads(text) == {"a": [[[]]], "b": {"a": {"a": 0}}}


def test_a_claim_has_a_pod_that_uses_it() -> None:
    ((kind, pod),) = companions(allocated())
    assert kind is Kind.PODS
    assert pod["spec"]["resourceClaims"][0]["resourceClaimName"] == allocated().manifest["metadata"]["name"]


# a round finds what is broken


def test_a_round_without_harm_finds_nothing() -> None:
    tally = Tally()
    assert Round([*list(harmless())[:3], allocated()], tally).run() == []
    assert tally.placed >= rounds.GOOD_PODS


def test_what_raises_is_found_with_its_object(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = path.Path.receive

    def broken(self: path.Path, kind: Kind, event: str, manifest: Manifest) -> None:
        if kind is Kind.BUDGETS:
            raise ZeroDivisionError("broken")
        receive(self, kind, event, manifest)

    monkeypatch.setattr(path.Path, "receive", broken)
    one = next(harmless())
    found = Round([one, allocated()]).run()
    assert {each.number for each in found} == {one.number}
    assert "ZeroDivisionError: broken" in found[0].signature


def test_a_good_pod_that_waits_is_found() -> None:
    taint = {"key": "example.com/bad", "effect": "NoSchedule"}
    manifest = {"metadata": {"name": "all"}, "spec": {"deviceSelector": {"driver": GPU_DRIVER}, "taint": taint}}
    rule = next(each for each in MANY if each.kind is Kind.TAINT_RULES)
    found = Round([msgspec.structs.replace(rule, manifest=manifest)]).run()
    assert [each.rule for each in found] == ["a good pod is placed"] * rounds.GOOD_PODS


def test_a_plan_that_breaks_a_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Violation(rule="room", subject="a node", message="too full")
    monkeypatch.setattr(path, "check", lambda *_: (wrong,))
    found = Round([next(harmless())]).run()
    assert [(each.rule, each.about) for each in found] == [("a plan is valid", "room: a node: too full")]


def test_a_device_that_is_taken_from_a_claim_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = allocated()
    result = hostile.manifest["status"]["allocation"]["devices"]["results"][0]
    taken = (result["driver"], result["pool"], result["device"])

    def generous(*arguments: object) -> SolverPlan:
        """Give the device that is held to the first claim that gets any."""
        plan = solver.solve(*arguments)  # type: ignore[arg-type]  # as it was called
        if not plan.allocations:
            return plan
        first = plan.allocations[0]
        device = type(first.allocation.results[0].device)(*taken)
        changed = msgspec.structs.replace(first.allocation.results[0], device=device)
        allocation = msgspec.structs.replace(first.allocation, results=(changed,))
        given = msgspec.structs.replace(first, allocation=allocation)
        return msgspec.structs.replace(plan, allocations=(given, *plan.allocations[1:]))

    monkeypatch.setattr(path, "solve", generous)
    assert "a claim keeps its devices" in {each.rule for each in Round([hostile]).run()}


def test_what_stays_after_it_was_deleted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = path.Path.receive

    def deaf(self: path.Path, kind: Kind, event: str, manifest: Manifest) -> None:
        if event != "DELETED":
            receive(self, kind, event, manifest)

    monkeypatch.setattr(path.Path, "receive", deaf)
    assert {each.rule for each in Round([next(harmless())]).run()} == {"what is deleted leaves nothing behind"}


def test_a_claim_holds_devices_however_broken_the_rest_of_it_is() -> None:
    whole = allocated()
    broken = msgspec.structs.replace(whole, manifest={**whole.manifest, "spec": 5})
    assert list(rounds.held_devices(broken)) == list(rounds.held_devices(whole)) != []


# what is reported


def test_objects_that_a_finding_does_not_take_are_left_out() -> None:
    objects = MANY[:8]
    guilty = {objects[2].number, objects[5].number}

    def is_found(some: Sequence[Hostile], _: str) -> bool:
        return guilty <= {each.number for each in some}

    assert {each.number for each in reduced(objects, "x", is_found)} == guilty


def test_a_report_is_saved_with_what_runs_it_again(tmp_path: Path) -> None:
    one = next(harmless())
    finding = Finding(rule="r", about="a", seed=one.seed, numbers=(one.number,), number=one.number)
    saved = save(tmp_path, report(finding))
    read = msgspec.json.decode(saved.read_bytes(), type=Report)
    assert (read.finding.seed, read.numbers) == (one.seed, (one.number,))
    assert json.loads(read.objects[0]) == json.loads(written(one.manifest))


def test_an_object_is_run_again_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    one = next(harmless())
    assert main([f"--seed={one.seed}", f"--only-object={one.number}"]) == 0
    assert "nothing was found" in capsys.readouterr().out


def test_rounds_are_shared_among_processes(tmp_path: Path) -> None:
    lines: list[str] = []
    summary = fuzz(Plan(seed=7, objects=40, processes=2), tmp_path, lines.append)
    assert (summary.rounds, summary.tally.objects.total()) == (4, 40)


def test_a_round_that_hangs_is_ended_and_the_others_go_on(tmp_path: Path) -> None:
    summary = fuzz(Plan(seed=7, objects=24, processes=1, limit_seconds=0.0), tmp_path, lambda _: None)
    assert any("a round ends within 0 s" in each for each in summary.found)
    assert any("nothing was found" not in each for each in summary.lines())
