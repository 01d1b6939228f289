import io
import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from scheduler.observe import logs, terminal
from scheduler.observe.tracebacks import traceback_text
from scheduler.settings import LogFormat, Logging, LogLevel


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where lines go during a test; the process's own logging stands as before afterwards."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield io.StringIO()
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_json_with_time_level_event_and_fields(stream: io.StringIO) -> None:
    logs.configure(Logging(), stream)
    logs.logger(pod="a/b").info(logs.CYCLE, pods=3)
    (line,) = _lines(stream)
    time = datetime.fromisoformat(line.pop("timestamp"))
    assert line == {"level": "info", "event": "cycle", "pod": "a/b", "pods": 3}
    assert time.tzinfo == UTC
    assert abs((datetime.now(UTC) - time).total_seconds()) < 60


def test_a_logger_from_before_the_configuration_follows_it(stream: io.StringIO) -> None:
    early = logs.logger(part="early")
    logs.configure(Logging(), stream)
    early.info(logs.STARTED)
    assert [(line["event"], line["part"]) for line in _lines(stream)] == [("started", "early")]


def test_time_level_and_event_stand_first(stream: io.StringIO) -> None:
    logs.configure(Logging(), stream)
    logs.logger(a=1).info(logs.CYCLE)
    assert list(_lines(stream)[0]) == ["timestamp", "level", "event", "a"]


def test_libraries_come_out_the_same_way(stream: io.StringIO) -> None:
    logs.configure(Logging(), stream)
    logging.getLogger("library").warning("%s broke", "it", extra={"part": "x"})
    (line,) = _lines(stream)
    assert (line["event"], line["level"], line["part"]) == ("it broke", "warning", "x")


def test_what_libraries_say_for_themselves_stays_out(stream: io.StringIO) -> None:
    logs.configure(Logging(), stream)
    logging.getLogger("aiohttp.access").info("GET /metrics")
    assert _lines(stream) == []


def test_less_severe_lines_are_not_written(stream: io.StringIO) -> None:
    logs.configure(Logging(level=LogLevel.WARNING), stream)
    logs.logger().info(logs.CYCLE)
    logs.logger().warning(logs.NO_WORKER)
    assert [line["event"] for line in _lines(stream)] == ["no_worker"]


def test_an_exception_is_one_line(stream: io.StringIO) -> None:
    logs.configure(Logging(), stream)
    try:
        int("x")
    except ValueError:
        logs.logger().exception(logs.CRASHED)
    (line,) = _lines(stream)
    assert line["exception"].startswith("Traceback")


@pytest.mark.parametrize("form", LogFormat)
def test_an_exception_does_not_show_the_values_of_variables(stream: io.StringIO, form: LogFormat) -> None:
    logs.configure(Logging(format=form), stream)
    token = "held-in-a-variable"
    try:
        int(f"{len(token)}!")
    except ValueError:
        logs.logger().exception(logs.CRASHED)
    assert "ValueError: invalid literal" in stream.getvalue()
    assert token not in stream.getvalue()


def test_a_value_that_json_does_not_know_is_written_as_text(stream: io.StringIO) -> None:
    logs.configure(Logging(), stream)
    logs.logger(path=Path("/a")).info(logs.STARTED)
    assert _lines(stream)[0]["path"] == "/a"


def test_people_get_aligned_text_without_colours_where_no_terminal_is(stream: io.StringIO) -> None:
    logs.configure(Logging(format=LogFormat.CONSOLE), stream)
    logs.logger(pods=3).info(logs.CYCLE)
    assert stream.getvalue().rstrip().endswith("[info     ] cycle              pods=3")


@pytest.mark.parametrize("form", LogFormat)
def test_a_line_that_cannot_be_written_raises_nothing(stream: io.StringIO, form: LogFormat) -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise RuntimeError

        __repr__ = __str__

    logs.configure(Logging(format=form), stream)
    logs.logger().info(logs.CYCLE, value=Unprintable())
    assert "could not be written: RuntimeError" in stream.getvalue()
    stream.close()
    logs.logger().info(logs.CYCLE)


def test_every_event_has_a_name_of_its_own() -> None:
    names = [value for key, value in vars(logs).items() if key.isupper() and isinstance(value, str)]
    assert len(names) == len(set(names)) > 20


HOSTILE = "\x1b[2J\u202eevil\nforged line\x9b"


def test_the_console_shows_texts_of_users_escaped(stream: io.StringIO) -> None:
    logs.configure(Logging(format=LogFormat.CONSOLE), stream)
    logs.logger(pod=HOSTILE).info(logs.CYCLE, error=HOSTILE, some=[HOSTILE], kind={HOSTILE: 1})
    logging.getLogger("library").warning(HOSTILE)
    written = stream.getvalue()
    assert len(written.splitlines()) == 2
    assert terminal.escaped(written, keep="\n") == written
    assert "\\x1b[2J\\u202eevil\\nforged line\\x9b" in written


def test_the_console_escapes_the_messages_of_exceptions(stream: io.StringIO) -> None:
    logs.configure(Logging(format=LogFormat.CONSOLE), stream)
    logs.logger().error(logs.CRASHED, exc_info=ValueError(HOSTILE))
    assert terminal.escaped(stream.getvalue(), keep="\n") == stream.getvalue()
    assert "ValueError: \\x1b[2J\\u202eevil" in stream.getvalue()


def test_json_lines_hold_the_exact_value_and_nothing_a_terminal_acts_on(stream: io.StringIO) -> None:
    logs.configure(Logging(), stream)
    logs.logger(pod=HOSTILE).info(logs.CYCLE)
    assert _lines(stream)[0]["pod"] == HOSTILE
    assert terminal.escaped(stream.getvalue(), keep="\n") == stream.getvalue()


LONG = "x" * 100_000


class _Holder(msgspec.Struct):
    text: str


def _raised(text: str) -> Exception:
    """An exception as libraries raise it: its message, its note and its cause's message are a user's."""
    found: Exception | None = None
    try:
        try:
            int(text)
        except ValueError as cause:
            raise TypeError(text) from cause
    except TypeError as error:
        error.add_note(text)
        found = error
    assert found is not None
    return found


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(LONG, id="text"),
        pytest.param([LONG, LONG], id="list"),
        pytest.param((LONG,), id="tuple"),
        pytest.param({LONG}, id="set"),
        pytest.param({LONG: [LONG]}, id="mapping"),
        pytest.param(_Holder(LONG), id="struct"),
        pytest.param(ValueError(LONG), id="exception"),
        pytest.param(traceback_text(_raised(LONG)), id="traceback"),
        pytest.param(traceback_text(_raised(f"{LONG}\n" * 10)), id="traceback with lines"),
    ],
)
@pytest.mark.parametrize("form", LogFormat)
def test_no_field_holds_more_than_500_characters_of_a_text(stream: io.StringIO, form: LogFormat, value: object) -> None:
    logs.configure(Logging(format=form), stream)
    logs.logger().info(logs.CYCLE, value=value)
    logging.getLogger("library").warning("%s", value)
    logging.getLogger("library").warning("broke", extra={"value": value})
    written = stream.getvalue()
    assert "x" * 100 in written
    assert "…" in written
    assert not re.search(r"x{500}", written)


@pytest.mark.parametrize("form", LogFormat)
def test_messages_of_logged_exceptions_are_cut(stream: io.StringIO, form: LogFormat) -> None:
    logs.configure(Logging(format=form), stream)
    error = _raised(LONG)
    logs.logger().error(logs.CRASHED, exc_info=error)
    logging.getLogger("library").error("broke", exc_info=error)
    written = stream.getvalue()
    assert written.count("TypeError: x") == 2
    assert not re.search(r"x{500}", written)


def test_a_traceback_keeps_its_frames() -> None:
    text = traceback_text(_raised("short"))
    assert "raise TypeError(text) from cause" in text
    assert text.endswith("TypeError: short\nshort\n")


@pytest.mark.parametrize("form", LogFormat)
def test_texts_of_users_are_cut_and_can_act_on_no_terminal(stream: io.StringIO, form: LogFormat) -> None:
    logs.configure(Logging(format=form), stream)
    hostile = "\x1b[2J\u202e\n" * 100_000
    logs.logger().info(logs.CYCLE, error=hostile, reasons=[hostile] * 1000, pod="a/b")
    written = stream.getvalue()
    assert len(written) < 2_000_000
    assert written.count("\n") == 1
    assert written.rstrip("\n").isprintable()
    assert "a/b" in written
