"""What the watch of the event loop says of stretches that are planted in it."""

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType, ModuleType
from typing import Any

import pytest

from scheduler.change import Kind
from scheduler.observe import logs, loop_watch
from scheduler.observe.loop_watch import LoopWatch, Running
from scheduler.observe.metrics import Metrics
from tests.support.shell_clock import VirtualClock


def planted(name: str, source: str) -> ModuleType:
    """Make a module of this name."""
    module = ModuleType(name)
    exec(compile(source, name, "exec"), vars(module))  # noqa: S102 - this test's own text
    return module


DECODER = """
def decode(what):
    return what()
"""
REFLECTOR = """
class Reflector:
    def __init__(self, kind):
        self.kind = kind

    def receive(self, decode, what):
        return decode(what)
"""
decoder = planted("scheduler.kube.decode.planted", DECODER)
reflector = planted("scheduler.kube.planted", REFLECTOR)


def in_decoder(what: Callable[[], Any], kind: object = Kind.PODS) -> Any:
    """Call this as the decoder of a kind does."""
    return reflector.Reflector(kind).receive(decoder.decode, what)


def shown(metrics: Metrics) -> dict[tuple[str, str], float]:
    """The series that are not 0, by module and kind."""
    (family,) = metrics.event_loop_longest.collect()
    return {(each.labels["module"], each.labels["kind"]): each.value for each in family.samples if each.value}


@pytest.fixture
def logged() -> threading.Event:
    return threading.Event()


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch, logged: threading.Event) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    class Log:
        def warning(self, event: str, **fields: Any) -> None:
            found.append({"event": event, **fields})
            if fields["has_ended"] and fields["module"] == decoder.__name__:
                logged.set()

    monkeypatch.setattr(loop_watch, "_log", Log())
    return found


async def test_a_planted_stall_shows_with_what_ran_while_it_lasts_and_after(
    lines: Sequence[dict[str, Any]], logged: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No time is asserted: the loop is held until the thread has seen it. On a slow machine there are other stalls."""
    monkeypatch.setattr(loop_watch, "_LOG_PAUSE_SECONDS", 0.0)
    metrics = Metrics()
    labels = (decoder.__name__, "pods")

    def hold() -> None:
        pause = threading.Event()
        while not shown(metrics).get(labels, 0.0) > loop_watch._LOGGED_SECONDS:  # noqa: SLF001 - as long as logged
            pause.wait(0.01)

    with LoopWatch(metrics).watching():
        in_decoder(hold)
        assert await asyncio.to_thread(logged.wait, 60)
    line = next(each for each in lines if each["has_ended"] and each["module"] == decoder.__name__)
    assert (line["event"], line["module"], line["kind"]) == (logs.EVENT_LOOP_STALLED, *labels)
    assert line["stack"] == "scheduler.kube.planted > scheduler.kube.decode.planted"
    assert shown(metrics)[labels] >= loop_watch._LOGGED_SECONDS  # noqa: SLF001 - the same


class Watched:
    """A watch whose beats and looks a test makes, by a clock that it moves."""

    def __init__(self) -> None:
        self.clock, self.metrics = VirtualClock(), Metrics()
        self.watch = LoopWatch(self.metrics, self.clock)

    def stall(self, seconds: float, frame: FrameType | None = None, *, looks: int = 1) -> None:
        """Let the loop do one thing for so long after its beat was due."""
        self.clock.advance(0.1)
        for _ in range(looks):
            self.clock.advance(seconds / looks)
            self.watch.look(lambda: frame)
        self.watch._beat()  # noqa: SLF001 - what the event loop calls
        self.watch.look(_no_look)


def _no_look() -> FrameType | None:
    raise AssertionError("the stack is read although no beat is overdue")


def frame_of(kind: object = Kind.PODS) -> FrameType:
    """A stack within the decoder of a kind."""
    frame = in_decoder(lambda: sys._getframe(1), kind)  # noqa: SLF001 - documented
    assert isinstance(frame, FrameType)
    return frame


def test_a_loop_that_beats_costs_no_look_at_its_stack() -> None:
    watched = Watched()
    for _ in range(100):
        watched.clock.advance(0.1)
        watched.watch._beat()  # noqa: SLF001 - what the event loop calls
        assert watched.watch.look(_no_look) >= 0.1
    assert shown(watched.metrics) == {}


def test_the_longest_of_each_is_shown_and_goes_after_a_while(lines: Sequence[object]) -> None:
    watched = Watched()
    for seconds in (0.2, 0.4, 0.3):
        watched.stall(seconds, frame_of())
    watched.stall(0.25, frame_of(Kind.NODES))
    module = "scheduler.kube.decode.planted"
    assert shown(watched.metrics) == {(module, "pods"): pytest.approx(0.4), (module, "nodes"): pytest.approx(0.25)}
    watched.clock.advance(121.0)
    watched.watch._beat()  # noqa: SLF001 - what the event loop calls
    watched.watch.look(_no_look)
    watched.watch.look(_no_look)
    module_free = {each for each in shown(watched.metrics) if each[0] == module}
    assert module_free == set()
    assert len(lines) <= 1


def test_a_loop_that_never_comes_back_is_shown_and_logged_once(lines: Sequence[dict[str, Any]]) -> None:
    watched, frame = Watched(), frame_of()
    watched.clock.advance(0.1)
    for _ in range(20):
        watched.clock.advance(1.0)
        watched.watch.look(lambda: frame)
    assert shown(watched.metrics) == {("scheduler.kube.decode.planted", "pods"): pytest.approx(20.0)}
    assert [(each["module"], each["has_ended"]) for each in lines] == [("scheduler.kube.decode.planted", False)]


def test_many_stalls_are_a_few_lines_that_count_the_others(lines: Sequence[dict[str, Any]]) -> None:
    watched = Watched()
    for _ in range(40):
        watched.stall(0.6, frame_of())
    assert 2 <= len(lines) <= 4
    assert sum(each["unlogged"] for each in lines[1:]) >= 20


def test_a_stall_in_nothing_of_ours_is_other(lines: Sequence[dict[str, Any]]) -> None:
    watched = Watched()
    watched.stall(0.6, None)
    assert shown(watched.metrics) == {("other", ""): pytest.approx(0.6)}
    assert lines[0]["stack"] == ""


def test_a_collection_that_took_most_of_a_stall_is_named(lines: Sequence[object]) -> None:
    watched = Watched()
    watched.clock.advance(0.1)
    watched.watch._note_collection("start", {})  # noqa: SLF001 - what the collector calls
    watched.clock.advance(0.4)
    watched.watch._note_collection("stop", {})  # noqa: SLF001 - the same
    watched.watch._beat()  # noqa: SLF001 - what the event loop calls
    watched.watch.look(_no_look)
    assert shown(watched.metrics) == {("gc", ""): pytest.approx(0.4)}
    assert not lines


def test_labels_are_bounded(lines: Sequence[object]) -> None:
    watched = Watched()
    for number in range(100):
        module = planted(f"scheduler.planted{number}", DECODER)
        watched.stall(0.2, module.decode(lambda: sys._getframe(1)))  # noqa: SLF001 - documented
    assert len(shown(watched.metrics)) <= 33
    assert not lines


def test_a_kind_is_only_one_of_ours() -> None:
    assert Running.of(frame_of("a text of a tenant")).kind == ""
    assert Running.of(frame_of(Kind.CLAIMS)).kind == "resourceclaims"


async def test_what_was_registered_is_removed() -> None:
    before = list(gc.callbacks)
    with LoopWatch(Metrics()).watching():
        assert len(gc.callbacks) == len(before) + 1
    assert gc.callbacks == before
    assert "loop-watch" not in {each.name for each in threading.enumerate()}
