"""How the reflector reacts to answers that a real server gives on a bad day only: told as bytes, by a script."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, cast

import pytest

from scheduler.change import Change, Kind
from scheduler.kube.client import Client
from scheduler.kube.errors import (
    AnswerTooLarge,
    DecodeError,
    Gone,
    KubeError,
    Unreachable,
    VersionWentBack,
    WatchSilent,
)
from scheduler.kube.http import page_size
from scheduler.kube.watching.reflector import Reflector
from scheduler.kube.watching.watch_ages import WatchAges
from tests.support.kube_objects import bookmark, line, namespace, page
from tests.support.shell_clock import VirtualClock

LIMIT_SECONDS = 180.0
Answer = bytes | list[bytes] | KubeError
EXPIRED = line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})


class Script:
    """In the place of a client: gives the answers in turn, then nothing any more; notes what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.asked: list[Mapping[str, str]] = []
        self.finished = asyncio.Event()
        self._answers = list(answers)

    async def request(self, _method: str, _path: str, *, query: Mapping[str, str], most_bytes: int | None) -> bytes:
        answer = await self._next(query)
        assert isinstance(answer, bytes)
        if most_bytes is not None and len(answer) > most_bytes:
            raise AnswerTooLarge("too large")
        return answer

    async def stream_lines(
        self,
        _path: str,
        query: Mapping[str, str],
        *,
        read_timeout_seconds: float,
    ) -> AsyncGenerator[list[bytes], None]:
        assert read_timeout_seconds == LIMIT_SECONDS / 2
        if not (self._answers and isinstance(self._answers[0], KubeError)):
            yield []
        answer = await self._next(query)
        assert isinstance(answer, list)
        if answer:
            yield answer

    async def _next(self, query: Mapping[str, str]) -> bytes | list[bytes]:
        self.asked.append(query)
        if not self._answers:
            self.finished.set()
            await asyncio.Event().wait()
        answer = self._answers.pop(0)
        if isinstance(answer, KubeError):
            raise answer
        return answer


Played = tuple[Script, list[tuple[str, bool]], list[Exception]]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a reflector through the script, without its pauses, and give what it asked, handed over and told."""
    pauses: list[float] = []

    async def no_pause(seconds: float) -> None:
        pauses.append(seconds)

    async def played(*answers: Answer) -> Played:
        script, changes, errors = Script(*answers), list[Change](), list[Exception]()
        reflector = Reflector(
            cast("Client", script),
            Kind.NAMESPACES,
            changes.extend,
            lambda _, error: errors.append(error),
            ages=WatchAges(LIMIT_SECONDS),
        )
        monkeypatch.setattr(asyncio, "sleep", no_pause)
        task = asyncio.create_task(reflector.run())
        await asyncio.wait_for(script.finished.wait(), 60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert reflector.synced.is_set()
        return script, [(change.key, change.value is not None) for change in changes], errors

    played.pauses = pauses  # type: ignore[attr-defined] # for the test that counts them
    return played


LISTED = page(namespace("a", version=3), version=5)


def listings(script: Script) -> list[bool]:
    """Return which requests were for a page of a listing."""
    return ["limit" in query for query in script.asked]


async def test_a_listing_is_followed_by_a_watch_that_is_resumed_where_it_ended(play: Any) -> None:
    script, changes, errors = await play(LISTED, [line("ADDED", namespace("b", version=8))], [bookmark(9)])
    assert changes == [("a", True), ("b", True)]
    assert [query.get("resourceVersion") for query in script.asked] == [None, "5", "8", "9"]
    assert errors == []


async def test_a_listing_comes_in_pages_and_not_in_a_watch(play: Any) -> None:
    """The API server sends each object of a streamed listing (KEP-3157) alone: four times the CPU for slices."""
    script, changes, errors = await play(page(namespace("a"), more="token"), page(namespace("b"), version=7))
    assert changes == [("a", True), ("b", True)]
    assert listings(script) == [True, True, False]
    assert script.asked[1]["continue"] == "token"
    assert script.asked[2]["resourceVersion"] == "7"
    assert errors == []


async def test_an_expired_version_leads_to_a_new_listing_with_deletions(play: Any) -> None:
    script, changes, errors = await play(LISTED, [EXPIRED], page(version=20))
    assert changes == [("a", True), ("a", False)]
    assert listings(script) == [True, False, True, False]
    assert [type(error) for error in errors] == [Gone]


async def test_what_came_before_the_expiry_is_handed_over(play: Any) -> None:
    _, changes, _ = await play(
        LISTED,
        [line("ADDED", namespace("b", version=8)), EXPIRED],
        page(namespace("b", version=8), version=20),
    )
    assert changes == [("a", True), ("b", True), ("a", False)]


async def test_a_page_that_failed_is_asked_for_again(play: Any) -> None:
    pages = page(namespace("a"), more="token"), page(namespace("b"), version=7)
    script, changes, errors = await play(pages[0], Unreachable("x"), pages[1])
    assert [query.get("continue") for query in script.asked[:3]] == [None, "token", "token"]
    assert changes == [("a", True), ("b", True)]
    assert [type(error) for error in errors] == [Unreachable]


async def test_a_continue_token_that_has_expired_starts_the_pages_over(play: Any) -> None:
    pages = page(namespace("a"), more="token"), page(namespace("a"), namespace("b"), version=7)
    script, changes, _ = await play(pages[0], Gone(410), pages[1])
    assert "continue" not in script.asked[2]
    assert changes == [("a", True), ("b", True)]


async def test_a_watch_that_failed_goes_on_where_it_was(play: Any) -> None:
    script, _, errors = await play(LISTED, Unreachable("x"), [])
    assert [query.get("resourceVersion") for query in script.asked] == [None, "5", "5", "5"]
    assert [type(error) for error in errors] == [Unreachable]


async def test_nonsense_in_a_watch_leads_to_a_new_listing(play: Any) -> None:
    script, _, errors = await play(LISTED, [b"<html>"], LISTED)
    assert listings(script) == [True, False, True, False]
    assert [type(error) for error in errors] == [DecodeError]


async def test_watches_that_end_at_once_are_not_repeated_without_a_pause(play: Any) -> None:
    await play(LISTED, [], [], [])
    assert len(play.pauses) == 3
    assert play.pauses[2] > play.pauses[0]


async def test_a_malformed_object_is_reported_and_the_rest_handed_over(play: Any) -> None:
    bad = namespace("bad")
    bad["metadata"]["labels"] = {"x": 1}
    _, changes, errors = await play(page(bad, namespace("a", version=3), version=5))
    assert changes == [("bad", True), ("a", True)]
    assert [str(error)[:15] for error in errors] == ["namespaces bad:"]


async def test_a_line_that_cannot_be_read_leads_to_one_new_listing_and_no_more(play: Any) -> None:
    """The server would send it again and again; what it was about stays as it was."""
    torn = b'{"type":"MODIFIED","object":{"metadata":'
    script, changes, errors = await play(
        LISTED,
        [torn, line("ADDED", namespace("b", version=8))],
        page(namespace("a", version=3), namespace("b", version=8), version=8),
        [torn, line("ADDED", namespace("c", version=9))],
    )
    assert listings(script) == [True, False, True, False, False]
    assert changes == [("a", True), ("b", True), ("c", True)]
    assert [type(error) for error in errors] == [DecodeError] * 2


async def test_whatever_is_raised_where_changes_are_taken_the_task_goes_on_and_gives_them_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script, given, errors, pauses = Script(LISTED, LISTED), list[str](), list[Exception](), list[float]()

    def take(changes: Sequence[Change]) -> None:
        given.extend(change.key for change in changes)
        if len(given) == 1:
            raise RuntimeError("a defect")

    async def no_pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", no_pause)
    ages = WatchAges(LIMIT_SECONDS)
    reflector = Reflector(
        cast("Client", script), Kind.NAMESPACES, take, lambda _, error: errors.append(error), ages=ages
    )
    task = asyncio.create_task(reflector.run())
    await asyncio.wait_for(script.finished.wait(), 60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (given, len(errors), len(pauses)) == (["a", "a"], 1, 1)


async def test_a_defect_long_after_others_costs_no_more_than_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each defect doubles the pause, until a watch goes on."""
    healthy = [line("ADDED", namespace("b", version=8))]
    script, pauses, errors = (
        Script(*[LISTED] * 8, healthy, [line("ADDED", namespace("c", version=9))]),
        list[float](),
        0,
    )

    def take(changes: Sequence[Change]) -> None:
        nonlocal errors
        if errors < 7 or changes[0].key == "c":
            errors += 1
            raise RuntimeError("a defect")

    async def no_pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", no_pause)
    reflector = Reflector(
        cast("Client", script), Kind.NAMESPACES, take, lambda _, __: None, ages=WatchAges(LIMIT_SECONDS)
    )
    task = asyncio.create_task(reflector.run())
    await asyncio.wait_for(script.finished.wait(), 60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (errors, len(pauses)) == (8, 8)
    assert pauses[7] <= 0.5 < pauses[6]


async def test_a_watch_that_was_silent_for_too_long_leads_to_a_new_listing(play: Any) -> None:
    script, changes, errors = await play(LISTED, WatchSilent("nothing came"), page(version=20))
    assert listings(script) == [True, False, True, False]
    assert changes == [("a", True), ("a", False)]
    assert [type(error) for error in errors] == [WatchSilent]


async def test_an_old_listing_is_not_believed_but_a_second_one_is(play: Any) -> None:
    """The first may be an old answer; where the second says the same, etcd was restored."""
    old = page(namespace("b", version=2), version=4)
    script, changes, errors = await play(LISTED, [EXPIRED], old, old)
    assert [type(error) for error in errors] == [Gone, VersionWentBack]
    assert changes == [("a", True), ("b", True), ("b", True), ("a", False)]
    assert [query.get("resourceVersion") for query in script.asked] == [None, "5", None, None, "4"]


async def test_an_old_object_of_a_listing_is_not_handed_over(play: Any) -> None:
    old = page(namespace("a", version=2, team="old"), version=9)
    _, changes, errors = await play(LISTED, [EXPIRED], old, page(namespace("a", version=3), version=9))
    assert [type(error) for error in errors] == [Gone, VersionWentBack]
    assert str(errors[1]) == "namespaces went back from resourceVersion 3 to 2"
    assert changes == [("a", True), ("a", True)]


async def test_the_ages_hear_of_a_kind_at_the_end_of_its_listing_and_with_each_line_of_its_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A listing that has not ended says nothing of what was deleted, and an old one nothing at all."""
    clock, heard = VirtualClock(), list[tuple[str, float]]()
    ages = WatchAges(LIMIT_SECONDS, clock)

    class Slow(Script):
        async def _next(self, query: Mapping[str, str]) -> bytes | list[bytes]:
            heard.append((ages.newest().get(Kind.NAMESPACES, "never"), ages.age(Kind.NAMESPACES)))
            clock.advance(10.0)
            return await super()._next(query)

    changed = [bookmark(6), line("ADDED", namespace("b", version=8))]
    script = Slow(page(namespace("a"), more="token"), LISTED, changed, Gone(410), page(version=4), LISTED)
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    reflector = Reflector(cast("Client", script), Kind.NAMESPACES, lambda _: None, lambda _, __: None, ages=ages)
    task = asyncio.create_task(reflector.run())
    await asyncio.wait_for(script.finished.wait(), 60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    expired, old = heard[4:6]
    assert heard[:4] == [("never", 0.0), ("never", 0.0), ("5", 0.0), ("8", 0.0)]
    assert expired[0] == old[0] == "8"
    assert expired[1] > 10.0
    assert old[1] > 20.0
    assert heard[6] == ("8", 0.0)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(
            line("ERROR", {"kind": "Status", "code": 500, "reason": "InternalError", "message": "watch cache"}),
            id="an error",
        ),
        pytest.param(b"<html>maintenance</html>", id="a page of a proxy"),
        pytest.param(b"", id="empty lines"),
    ],
)
async def test_a_watch_that_says_nothing_of_its_objects_is_not_heard_of_and_asked_for_with_pauses(
    monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    """Each answer comes with status 200, so only its lines say that the watch goes on, or does not."""
    clock = VirtualClock()
    began, ages, script = clock(), WatchAges(LIMIT_SECONDS, clock), Script(LISTED, *[[answer]] * 3)
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    reflector = Reflector(cast("Client", script), Kind.NAMESPACES, lambda _: None, lambda _, __: None, ages=ages)
    reflector._relisted_at = float("inf")  # noqa: SLF001 - a line that cannot be read has led to a listing already
    task = asyncio.create_task(reflector.run())
    await asyncio.wait_for(script.finished.wait(), 60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(script.asked) == 5
    assert len(clock.slept) == 3
    assert ages.age(Kind.NAMESPACES) == clock() - began


async def test_a_page_that_is_too_large_is_asked_for_with_fewer_objects_until_it_is_small(
    play: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list is bounded by its bytes, too; a page of one object is taken whatever its size."""
    monkeypatch.setattr(page_size, "_LARGEST_PAGE", 1000)
    large = namespace("large") | {"spec": {"text": "x" * 2000}}
    script, changes, errors = await play(
        page(namespace("small"), large, more="token"),
        page(namespace("small"), large, more="token"),
        page(large, more="token"),
        page(namespace("small"), version=5),
    )
    assert [each.get("limit") for each in script.asked[:4]] == ["100", "12", "1", "500"]
    assert (changes, errors) == ([("large", True), ("small", True)], [])
