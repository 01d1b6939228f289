"""Files to documents."""

import json
from pathlib import Path

import pytest

from scheduler.simulation.manifests import documents
from scheduler.simulation.manifests.documents import ManifestProblem
from tests.support import manifests as m


def read(path: Path, text: str) -> documents.ManifestFiles:
    path.write_text(text, encoding="utf-8")
    return documents.read([path])


def names(reading: documents.ManifestFiles) -> list[str]:
    return [each.body["metadata"]["name"] for each in reading.documents]


def sources(reading: documents.ManifestFiles, path: Path) -> list[str]:
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
        pytest.param(f"{'#' * 40}\n{POD.format('a')}", ["document 1"], id="a banner"),
        pytest.param(f"# {'-' * 78}\n# Team: a\n" * 9 + POD.format("a"), ["document 1"], id="banners"),
        pytest.param(f"%YAML 1.1\n---\n{POD.format('a')}...\n\n# end\n", ["document 1"], id="a directive"),
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
    (found,) = read(tmp_path / "f", POD.format("a") + "labels: {1: a, no: b, on: c, 'y': d}\n").documents
    assert found.body["labels"] == {"1": "a", "false": "b", "true": "c", "y": "d"}


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


def test_a_name_that_is_too_long_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 300)
    assert documents.read([path]).problems == [ManifestProblem(str(path), "", "", "cannot be read: File name too long")]


def test_a_number_that_is_too_large_for_json_is_the_text_that_it_is_in_yaml(tmp_path: Path) -> None:
    (found,) = read(tmp_path / "f", '{"apiVersion": "v1", "kind": "Pod", "a": 1e400, "b": 1e30}').documents
    assert (found.body["a"], found.body["b"]) == ("1e400", 1e30)


def test_an_empty_folder_is_a_problem(tmp_path: Path) -> None:
    expected = ManifestProblem(str(tmp_path), "", "", "the folder holds no .yaml, .yml or .json file")
    assert documents.read([tmp_path]).problems == [expected]


# What a small text makes large or deep


BOMB = "a: &a [{}]\n".format(",".join(["x"] * 9)) + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(BOMB, "aliases repeat more than 1000000 values and characters", id="an alias of aliases"),
        pytest.param(
            f"a: &a {'x' * 100_000}\nb: [{','.join(['*a'] * 11)}]\n",
            "aliases repeat more than 1000000 values and characters",
            id="a long text often",
        ),
        pytest.param("a: &a [*a]\n", "the alias *a stands inside of what it repeats", id="an alias of itself"),
        pytest.param("a: " + "[" * 100_000, "nested deeper than 200 levels: write it flatter", id="brackets"),
        pytest.param("- " * 100_000, "nested deeper than 200 levels", id="dashes"),
        pytest.param("? " * 100_000, "nested deeper than 200 levels", id="keys"),
        pytest.param('{"a":' * 100_000, "nested deeper than 200 levels", id="JSON that is cut"),
        pytest.param('{"a":' * 100_000 + "1" + "}" * 100_000, "nested deeper than 200 levels", id="JSON"),
        pytest.param('{"a":' * 300 + "1" + "}" * 300, "nested deeper than 200 levels", id="JSON that Python can read"),
        pytest.param("a: !!int x\n", "a value does not fit its tag", id="a tag of another type"),
        pytest.param("a: !!bool x\n", "a value does not fit its tag", id="no bool"),
        pytest.param("a: !!python/object:os.system x\n", "could not determine a constructor for the tag", id="code"),
        pytest.param(f"a: !!int {'9' * 5000}\n", "a value does not fit its tag", id="a number of thousands of digits"),
        pytest.param("a: .inf\n", ".inf is no number in JSON: put it in quotes", id="infinity"),
    ],
)
def test_a_text_that_would_end_the_process_is_a_problem_and_the_next_document_counts(
    text: str, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.yaml").write_text(f"{POD.format('p')}---\n{text}\n---\n{POD.format('q')}", encoding="utf-8")
    reading = documents.read([tmp_path / "bad.yaml"])
    assert names(reading) == ["p", "q"]
    (found,) = reading.problems
    assert str(found).startswith(f"{tmp_path / 'bad.yaml'}: document 2: not YAML: ")
    assert problem in found.message


def test_json_that_is_too_deep_leaves_what_stands_before_it(tmp_path: Path) -> None:
    text = json.dumps(m.pod("a")) + "\n" + '{"a":' * 100_000 + "1" + "}" * 100_000
    reading = read(tmp_path / "f.json", text)
    assert names(reading) == ["a"]
    assert [each.source for each in reading.problems] == [f"{tmp_path / 'f.json'}: document 2"]


def test_aliases_and_depth_in_use_are_read(tmp_path: Path) -> None:
    text = (
        f"{POD.format('a')}labels: &l {{x: v}}\nagain: [*l, *l]\nmore: {{<<: *l, z: 1}}\ndeep: {'[' * 190}{']' * 190}\n"
    )
    (found,) = read(tmp_path / "f", text).documents
    assert (found.body["again"], found.body["more"]) == ([{"x": "v"}] * 2, {"x": "v", "z": 1})


def test_a_wrong_byte_costs_its_document_only(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    bad = b"apiVersion: v1\nkind: Pod\nmetadata: {name: b\xff}\n"
    path.write_bytes(POD.format("a").encode() + b"---\n" + bad + b"---\n" + POD.format("c").encode())
    reading = documents.read([path])
    assert names(reading) == ["a", "c"]
    told = "cannot be read: the byte 0xff at line 7, column 19 is not UTF-8: save the file as UTF-8"
    assert reading.problems == [ManifestProblem(f"{path}: document 2", "", "", told)]


def test_a_wrong_byte_in_json_costs_its_document_only(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    good, bad = (json.dumps(m.pod(name)).encode() for name in ("a", "bad"))
    path.write_bytes(good + b"\n" + bad.replace(b"bad", b"b\xffd") + b"\n" + good)
    reading = documents.read([path])
    assert names(reading) == ["a", "a"]
    (problem,) = reading.problems
    assert problem.source == f"{path}: document 2"
    assert "the byte 0xff at line 2, column " in problem.message


def test_a_file_that_is_too_large_is_named_and_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_MOST_BYTES", 2**20)
    path = tmp_path / "f.yaml"
    path.write_bytes(b"#" * (2**20 + 1))
    reading = documents.read([path, Path("/dev/zero")])
    told = "is larger than 1 MiB: split it into several files"
    assert reading.problems == [ManifestProblem(str(path), "", "", told), ManifestProblem("/dev/zero", "", "", told)]
