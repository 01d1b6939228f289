"""Runs are kept with the code that made them."""

from pathlib import Path

import pytest

from e2e.traces import kept_runs
from e2e.traces.kept_runs import fingerprint, kept


def test_a_run_of_the_same_code_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, numbers = tmp_path / "some" / "first-fit.json", iter(range(9))

    def run(*, whatever_code: bool = False) -> int:
        return kept(path, int, ("e2e/traces",), lambda: next(numbers), whatever_code=whatever_code)

    assert [run(), run()] == [0, 0]
    monkeypatch.setattr(kept_runs, "fingerprint", lambda _: "other code")
    assert run(whatever_code=True) == 0
    assert [run(), run()] == [1, 1]
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_fingerprint_is_of_names_and_texts_of_the_code(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "one.py").write_text("1")
    (tmp_path / "a" / "note.md").write_text("any")
    found = []
    for change in (lambda: None, lambda: (tmp_path / "a" / "note.md").write_text("other")):
        change()
        found.append(fingerprint.__wrapped__(("a",), tmp_path))
    assert len(set(found)) == 1
    (tmp_path / "a" / "b" / "one.py").write_text("2")
    found.append(fingerprint.__wrapped__(("a",), tmp_path))
    (tmp_path / "a" / "b" / "one.py").rename(tmp_path / "a" / "b" / "two.py")
    found.append(fingerprint.__wrapped__(("a",), tmp_path))
    assert len(set(found)) == 3
