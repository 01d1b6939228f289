"""`make upstream`: the edits, the events of `go test`, the table and its page (pure); starting a test needs minutes."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from rich.console import Console

from e2e.controlplane.build import BuildError
from e2e.upstream import compatibility, known, process, results, source, suites
from e2e.upstream.__main__ import main
from e2e.upstream.compatibility import Line
from e2e.upstream.known import Known
from e2e.upstream.results import UpstreamResult
from e2e.upstream.source import Edit
from e2e.versions import PAGE
from scheduler.settings import load


def events(*rows: tuple[str, str, str]) -> list[str]:
    return [json.dumps({"Action": action, "Test": test, "Output": text}) + "\n" for action, test, text in rows]


def result(name: str, outcome: results.Outcome = "pass") -> UpstreamResult:
    return UpstreamResult(name, outcome)


def by_name(found: Iterable[UpstreamResult]) -> dict[str, UpstreamResult]:
    return {each.name: each for each in found}


def test_an_edit_puts_its_lines_before_or_behind_the_line() -> None:
    before = Edit("f.go", re.compile("^b$", re.MULTILINE), "x\n")
    behind = Edit("f.go", re.compile("^b$", re.MULTILINE), "x\n", after=True)
    assert source.edited("a\nb\nc\n", before) == "a\nx\nb\nc\n"
    assert source.edited("a\nb\nc\n", behind) == "a\nb\nx\nc\n"


def test_an_edit_may_be_for_several_lines() -> None:
    edit = Edit("f.go", re.compile("^b$", re.MULTILINE), "x\n", after=True, count=2)
    assert source.edited("b\na\nb\n", edit) == "b\nx\na\nb\nx\n"


@pytest.mark.parametrize("text", ["a\n", "b\nb\n"])
def test_an_edit_that_does_not_fit_as_often_as_it_says_is_an_error(text: str) -> None:
    with pytest.raises(BuildError, match=r"f\.go of k8s\.io/kubernetes has [02] lines like"):
        source.edited(text, Edit("f.go", re.compile("^b$", re.MULTILINE), "x\n"))


def test_imports_of_copied_packages_are_ours_and_all_others_stay() -> None:
    text = '"k8s.io/kubernetes/test/integration/util"\n"k8s.io/kubernetes/test/integration/framework"\n'
    assert source.IMPORTED.sub(rf'"{source.OURS}/\1', text) == (
        '"dovetail/e2e/upstream/util"\n"k8s.io/kubernetes/test/integration/framework"\n'
    )


def test_only_messages_of_the_scheduler_are_compared_by_their_beginning() -> None:
    text = 'gomega.Equal("0/8 nodes are available: x") gomega.Equal(fmt.Sprintf("0/8 nodes are available: %s", x))'
    assert source.COMPARED.sub("beginsLike(", text).count("beginsLike(") == 2
    assert source.COMPARED.search('gomega.Equal(fmt.Sprintf("%d pods evicted", n))') is None


@pytest.mark.parametrize("kubernetes", suites.KUBERNETES)
def test_each_version_has_a_module_with_its_sums(kubernetes: str) -> None:
    module, sums = (source.SOURCE / f"{kubernetes}{suffix}" for suffix in (".mod", ".sum"))
    assert f"k8s.io/kubernetes v{kubernetes}." in module.read_text()
    assert f"k8s.io/kubernetes v{kubernetes}." in sums.read_text()


def test_dovetail_gets_the_names_time_out_and_preemption_that_a_test_asks_for(tmp_path: Path) -> None:
    asked = {
        "address": "127.0.0.1:12345",
        "profiles": [
            {"schedulerName": "default-scheduler", "bindingTimeoutSeconds": 3.0, "preemption": False},
            {"schedulerName": "second", "preemption": True},
        ],
    }
    path = tmp_path / "dovetail.yaml"
    path.write_text(json.dumps(process.configuration(asked)))
    settings = load(path)
    assert [profile.scheduler_name for profile in settings.profiles] == ["default-scheduler", "second"]
    assert [profile.preemption.enabled for profile in settings.profiles] == [False, True]
    assert settings.commit.binding_timeout_seconds == 3.0
    assert not settings.leader_election.enabled
    assert settings.health.bind_address == settings.metrics.bind_address == "127.0.0.1:12345"


def test_events_say_how_each_test_ended_and_what_it_said(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, UpstreamResult] = {}
    results.read(
        [
            "not an event\n",
            *events(
                ("run", "TestA", ""),
                ("output", "TestA", "    a.go:12: I1123 10:00:00.1] a log line\n"),
                ("output", "TestA", "    a.go:13: expected 1, got 2\n"),
                ("output", "TestA", "    b.go:14: Skipping metrics scrape because the context is canceled\n"),
                ("fail", "TestA", ""),
                ("run", "TestB", ""),
            ),
        ],
        found,
    )
    assert found["TestA"].outcome == "fail"
    assert found["TestA"].message == "expected 1, got 2"
    assert found["TestB"].outcome == "unfinished"
    assert capsys.readouterr().err == "  fail TestA (0.0 s)\n"


def test_a_test_with_sub_tests_is_told_only_where_it_fails_by_itself() -> None:
    found = by_name(
        [result("T", "fail"), result("T/a", "fail"), result("T/b"), result("U", "fail"), result("U/a"), result("V")]
    )
    assert sorted(results.telling(found)) == ["T/a", "T/b", "U", "U/a", "V"]


def test_a_failure_is_explained_by_its_entry_and_a_pass_contradicts_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "differences", lambda: (Known(r"T/[ab]", "An entry"),))
    peer = by_name(result(name) for name in ("T/a", "T/b", "T/c", "T/d"))
    peer["T/d"].outcome = "fail"
    ours = by_name([result("T/a", "fail"), result("T/b"), result("T/c", "unfinished"), result("T/d", "fail")])
    lines = compatibility.lines(peer, ours, "1.37")
    assert [line.test for line in lines if line.is_unexplained] == ["T/b", "T/c"]
    assert [line.because for line in lines] == ["An entry", "An entry", "", ""]


def test_the_sentence_counts_every_test_once() -> None:
    lines = [
        Line(test="a", kube_scheduler="pass", dovetail="pass"),
        Line(test="b", kube_scheduler="pass", dovetail="fail", because="An entry"),
        Line(test="c", kube_scheduler="pass", dovetail="skip"),
        Line(test="d", kube_scheduler="pass", dovetail="fail"),
    ]
    assert compatibility.summary(lines) == (
        "Of 4 tests kube-scheduler passes 4 and Dovetail 1; 1 differ on purpose, "
        "1 are not run with Dovetail, 1 are unexplained."
    )
    alone = [Line(test="a", dovetail="pass"), Line(test="b", dovetail="fail", because="An entry")]
    assert compatibility.summary(alone).startswith("Of 2 tests Dovetail passes 1; 1 differ on purpose, ")
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(compatibility.render(lines))
    assert "is not listed in known.toml" in capture.get()


@pytest.mark.parametrize("kubernetes", suites.KUBERNETES)
@pytest.mark.parametrize("suite", ["dra", "scheduler"])
def test_the_page_has_a_place_for_each_table(suite: str, kubernetes: str) -> None:
    begin, end = compatibility.marks(suite, kubernetes)
    assert PAGE.read_text().count(begin) == PAGE.read_text().count(end) == 1


def test_a_table_of_the_page_has_a_row_for_each_test() -> None:
    text = compatibility.markdown([Line(test="T/a", kube_scheduler="pass", dovetail="fail", because="An entry")])
    assert "| T/a | passes | fails | An entry |" in text.splitlines()


def test_a_long_table_of_the_page_has_what_is_unexplained_and_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility, "MOST_ROWS", 3)
    lines = [
        Line(test="T/a", kube_scheduler="pass", dovetail="pass"),
        Line(test="T/b", kube_scheduler="pass", dovetail="fail", because="An entry"),
        Line(test="T/c", kube_scheduler="pass", because="a reason"),
        Line(test="T/d", kube_scheduler="pass", dovetail="skip", because="a reason"),
        Line(test="T/e", kube_scheduler="pass", dovetail="fail"),
        Line(test="T/f", kube_scheduler="pass", dovetail="fail", because="An entry"),
    ]
    text = compatibility.markdown(lines)
    assert [row for row in text.splitlines() if row.startswith("| T")] == ["| T/e | passes | fails |  |"]
    assert "Different on purpose: An entry (2). Not run with Dovetail: a reason (2). `make upstream` names all." in text
    assert "| T/a | passes | passes |  |" in compatibility.markdown(lines[:3])


def test_every_known_difference_is_an_entry_of_the_page() -> None:
    assert {each.because for each in known.differences()} <= known.headings()


def test_the_parts_of_dra_are_chosen_by_gates() -> None:
    assert suites.packages("1.37", "dra", ["default", "ga"]) == ("dra/default", "dra/ga")
    assert suites.packages("1.37", "dra", []) == ("dra/all", "dra/default", "dra/ga")


def test_the_help_names_what_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert all(option in text for option in ("--kubernetes", "--gates", "--run", "--only", "--write"))


def test_a_package_leaves_out_only_its_own_tests_that_look_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "inside", lambda: (Known("queueing/.*", "a reason"), Known("filters/TestA", "another")))
    assert known.skipped("filters/") == "^TestA$"
    assert known.skipped("queueing/") == "^.*$"
    assert known.skipped("scoring/") == ""


def test_what_is_known_of_a_test_is_known_of_its_sub_tests() -> None:
    known_tests = Known("bind/TestA|bind/TestB", "a reason")
    assert known_tests.covers("bind/TestA/first_(case)/second", "1.37")
    assert not known_tests.covers("bind/TestAndMore", "1.37")


def test_what_is_known_of_one_version_is_not_known_of_another() -> None:
    known_tests = Known("T", "a reason", kubernetes="1.36")
    assert (known_tests.covers("T", "1.36"), known_tests.covers("T", "1.37")) == (True, False)


def test_the_short_part_runs_dovetail_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = "TestDRA/all/PodGroup/basic"
    monkeypatch.setattr(known, "differences", tuple)
    (tmp_path / "dra-all-Dovetail.jsonl").write_text("".join(events(("fail", name, ""))))
    assert main(["--short", "--show", str(tmp_path)]) == 1
    (tmp_path / "dra-all-Dovetail.jsonl").write_text("".join(events(("pass", name, ""))))
    assert main(["--short", "--show", str(tmp_path)]) == 0
    assert re.match(suites.SHORT, "TestDRA/all/PodGroup")
    assert not re.match(suites.SHORT, "TestDRA/all/PrioritizedListOther")


def test_a_skipped_test_says_why_in_the_table() -> None:
    skipped = UpstreamResult("T", "skip", lines=["    a.go:1: adds plugins of its own to the scheduler\n"])
    (line,) = compatibility.lines(by_name([result("T")]), by_name([skipped]), "1.37")
    assert line.because == "adds plugins of its own to the scheduler"
    assert not line.is_unexplained


@pytest.mark.parametrize(("outcome", "status"), [("pass", 0), ("fail", 1)])
def test_what_a_run_left_is_shown_again(
    outcome: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for scheduler, ended in (("kube-scheduler", "pass"), ("Dovetail", outcome)):
        text = "".join(events(("run", "TestDRA/ga/Pod", ""), (ended, "TestDRA/ga/Pod", "")))
        (tmp_path / f"dra-ga-{scheduler}.jsonl").write_text(text)
    assert main(["--gates", "ga", "--show", str(tmp_path)]) == status
    assert f"Of 1 tests kube-scheduler passes 1 and Dovetail {1 - status};" in capsys.readouterr().out
