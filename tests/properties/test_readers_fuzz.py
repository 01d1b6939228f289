"""
Whatever a text holds, its reader ends with an answer or the error that it promises, after work like its length.

Work is counted: lines of Python, and characters of texts whose methods go through them. Regular expressions are judged
by `tests/house`. Changed texts are others in each run: SEED repeats them.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.page import fit_process
from scheduler.page.fit_questions import FitQuestion, FitSource
from scheduler.settings import default, untrusted_yaml
from scheduler.simulation.manifests import api_validation, documents
from scheduler.visibility import VisibleNamespaces
from tests.support import manifests as m
from tests.support import valid_texts
from tests.support.hostile_texts import PLAIN, REPEATING, YAML, repeated
from tests.support.text_readers import READERS, TextReader
from tests.support.work import Work, counted

SHORT, LONG = 256, 2048
GROWTH = 1.15
"""A character of the long text costs at most so many times what one of the short text does."""
MORE_LINES, MORE_PASSES = 3000, 4
"""What a limit may cost that only the long text meets: lines, and how often it is gone through."""
CHANGED = 80
"""Changed texts for each reader."""
QUESTIONS = 60
DOCUMENTS = 10
MOST_REPEATED, LINES_OF_A_VALUE = 20_000, 5


def dice() -> random.Random:
    return random.Random(random.getrandbits(64))  # noqa: S311 - a test's dice


def work_of(reader: TextReader, text: str, folder: Path) -> Work:
    with counted(scans=True) as work:
        reader.answer(text.encode("utf-8", "surrogateescape"), folder)
    return work


def is_linear(nothing: int, short: int, long: int, more: int) -> bool:
    return long - nothing <= GROWTH * LONG / SHORT * max(0, short - nothing) + more


def growing(reader: TextReader, folder: Path) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Return the shapes whose work grows faster than their length, with the work for no, a short and a long text."""
    work_of(reader, "", folder)  # what is imported and cached at the first time does not count
    nothing, found = work_of(reader, "", folder), {}
    for shape, made in reader.shapes.items():
        short, long = (work_of(reader, made(length), folder) for length in (SHORT, LONG))
        if not is_linear(nothing.lines, short.lines, long.lines, MORE_LINES):
            found[shape, "lines"] = nothing.lines, short.lines, long.lines
        if not is_linear(nothing.scanned, short.scanned, long.scanned, MORE_PASSES * LONG):
            found[shape, "scanned"] = nothing.scanned, short.scanned, long.scanned
    return found


@pytest.mark.parametrize("name", READERS)
def test_work_grows_like_the_text(name: str, tmp_path: Path) -> None:
    assert growing(READERS[name], tmp_path) == {}


@pytest.mark.parametrize("name", READERS)
def test_a_changed_text_is_read_or_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_validation, "MOST_PODS", 100)
    reader, chance = READERS[name], dice()
    texts = reader.valid(tmp_path)
    assert not all(reader.answer(each, tmp_path) for each in texts)
    for text in valid_texts.varied(chance, texts, CHANGED):
        try:
            answer = reader.answer(text, tmp_path)
        except Exception as error:
            raise AssertionError(f"{name}: {error!r} for {text!r}") from error
        assert not answer or not reader.names_file or answer.startswith(str(tmp_path)), (answer, text)


@pytest.mark.parametrize("name", REPEATING)
def test_aliases_cost_no_more_than_what_they_may_repeat(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted_yaml, "MOST_REPEATED", MOST_REPEATED)
    for length in (320, 2560):
        with counted() as work:
            documents.parsed("---\n".join([REPEATING[name](length)] * DOCUMENTS).encode(), "text")
        assert work.lines <= LINES_OF_A_VALUE * (DOCUMENTS * length + MOST_REPEATED)


def test_a_question_of_the_page_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_validation, "MOST_PODS", 10)
    cluster = m.write_json(tmp_path / "cluster.json", [m.node(), m.slice_of(), m.device_class(), m.template()])
    solver = replace(default().solver, budget_seconds=0.2)
    source = FitSource(files=(str(cluster),), settings=replace(default(), solver=solver))
    own = "\n".join(json.dumps(each) for each in (m.template("own", 3), m.pod("p", template_name="own"))).encode()
    chance = dice()
    texts = [own, *valid_texts.varied(chance, [own, own, *valid_texts.manifests()], QUESTIONS)]
    shapes = chance.sample(sorted({**PLAIN, **YAML}.items(), key=lambda pair: pair[0]), QUESTIONS)
    for text in (*texts, *(made(SHORT).encode("utf-8", "surrogateescape") for _, made in shapes)):
        question = FitQuestion(
            source=source,
            content=text,
            namespace="red",
            wanted=None,
            namespaces=VisibleNamespaces(everything=True),
            sees_nodes=True,
        )
        try:
            msgspec.json.encode(fit_process.answer(question))
        except Exception as error:
            raise AssertionError(f"{error!r} for {text!r}") from error


def _lines_before(text: bytes) -> list[int]:
    return [text.count(b"\n", 0, at) for at, byte in enumerate(text) if byte == ord("b")]


def _pairs(text: bytes) -> int:
    words = text.split()
    return sum(1 for one in words for other in words if one < other)


@pytest.mark.parametrize(("read", "measure"), [(_lines_before, "scanned"), (_pairs, "lines")])
def test_the_measure_finds_work_that_grows_faster(
    read: Callable[[bytes], object], measure: str, tmp_path: Path
) -> None:
    reader = TextReader(lambda text, _: read(text), (), {"words": repeated("ab\n"), "9": PLAIN["9"]}, lambda _: ())
    assert set(growing(reader, tmp_path)) == {("words", measure)}
