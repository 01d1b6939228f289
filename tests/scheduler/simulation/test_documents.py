"""Files to documents."""

import json
from pathlib import Path

import pytest

from scheduler.simulation.manifests import documents
from scheduler.simulation.manifests.documents import Problem
from tests.support import manifests as m


def read(path: Path, text: str) -> documents.Reading:
    path.write_text(text, encoding="utf-8")
    return documents.read([path])


def names(reading: documents.Reading) -> list[str]:
    return [each.body["metadata"]["name"] for each in reading.documents]


def sources(reading: documents.Reading, path: Path) -> list[str]:
    return [each.source.removeprefix(f"{path}: ") for each in reading.documents]


POD = "apiVersion: v1\nkind: Pod\nmetadata: {{name: {}}}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(POD.format("a"), ["document 1"], id="one"),
        pytest.param(f"---\n{POD.format('a')}---\n{POD.format('b')}", ["document 1", "document 2"], id="two"),
        pytest.param(f"# words\n---\n{POD.format('a')}...\n", ["document 1"], id="comments and an end"),
        pytest.param(
            f"--- # words\n{POD.format('a')}---\n---\n{POD.format('b')}",
            ["document 1", "document 2"],
            id="an empty one",
        ),
        pytest.param("{apiVersion: v1, kind: Pod, metadata: {name: a}}", ["document 1"], id="flow style"),
        pytest.param(json.dumps(m.pod()) + "\n" + json.dumps(m.pod()), ["document 1", "document 2"], id="JSON lines"),
        pytest.param(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": [m.pod("a"), m.pod("b")]}),
            ["document 1, item 1", "document 1, item 2"],
            id="a list",
        ),
        pytest.param(
            json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]}),
            ["document 1, item 1"],
            id="a list of one kind",
        ),
    ],
)
def test_documents_are_numbered_as_a_reader_counts_them(text: str, expected: list[str], tmp_path: Path) -> None:
    path = tmp_path / "f"
    reading = read(path, text)
    assert (sources(reading, path), reading.problems) == (expected, [])


def test_folders_are_read_in_order_with_those_below(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.yaml", "a.yml", "sub/c.json", "ignored.txt"):
        (tmp_path / name).write_text(json.dumps(m.pod(name)), encoding="utf-8")
    assert names(documents.read([tmp_path])) == ["a.yml", "b.yaml", "sub/c.json"]


def test_times_and_versions_stay_as_they_are_written(tmp_path: Path) -> None:
    (found,) = read(tmp_path / "f", POD.format("a") + "at: 2026-01-01T00:00:00Z\nday: 2026-01-01\n").documents
    assert (found.body["at"], found.body["day"]) == ("2026-01-01T00:00:00Z", "2026-01-01")


def test_keys_are_texts(tmp_path: Path) -> None:
    (found,) = read(tmp_path / "f", POD.format("a") + "labels: {1: a, true: b, on: c}\n").documents
    assert found.body["labels"] == {"1": "a", "true": "b", "on": "c"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("a: [", "document 1: not YAML: did not find expected node content at line 2, column 1", id="cut"),
        pytest.param(
            f"{POD.format('a')}---\na: 1\nb: 2\na: 3\n",
            "document 2: not YAML: the key 'a' stands twice at line 7, column 1",
            id="a key twice",
        ),
        pytest.param("- a", "document 1: (whole document): expected a mapping with apiVersion and kind", id="a list"),
        pytest.param(
            "kind: Pod", "document 1: apiVersion: missing: a manifest starts with apiVersion and kind", id="no version"
        ),
        pytest.param("# nothing\n", "holds no document", id="nothing"),
        pytest.param(
            '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "\\ud83d"}}',
            "document 1: (whole document): holds what JSON cannot",
            id="half a character",
        ),
    ],
)
def test_a_problem_says_where_and_what(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    (found,) = read(path, text).problems
    assert str(found).startswith(f"{path}: {problem}")


def test_an_empty_folder_is_a_problem(tmp_path: Path) -> None:
    expected = Problem(str(tmp_path), "", "", "the folder holds no .yaml, .yml or .json file")
    assert documents.read([tmp_path]).problems == [expected]
