import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.change import Change, Kind, is_older
from scheduler.kube.decode.pieces import PIECE_BYTES, at_once
from scheduler.kube.errors import DecodeError, Gone, ServerError
from scheduler.kube.watching.list_watch import ListWatch, Received
from solver.domain import Claim, Namespace
from tests.support.kube_objects import bookmark, claim, encoded, line, namespace, page
from tests.support.received import take_lines, take_page


def listed(*items: dict[str, Any], version: int = 10, kind: Kind = Kind.NAMESPACES) -> ListWatch:
    mirrored = ListWatch(kind)
    mirrored.start_listing()
    take_page(mirrored, page(*items, version=version))
    return mirrored


def took(mirrored: ListWatch, *lines: bytes) -> Received:
    received = Received()
    take_lines(mirrored, list(lines), received)
    return received


def keys(changes: list[Change]) -> list[tuple[str, bool]]:
    return [(change.key, change.value is not None) for change in changes]


def test_a_page_gives_its_objects_and_where_to_go_on() -> None:
    mirrored = ListWatch(Kind.NAMESPACES)
    mirrored.start_listing()
    received = take_page(mirrored, page(namespace("a"), namespace("b"), version=10))
    assert keys(received.changes) == [("a", True), ("b", True)]
    assert (mirrored.resource_version, mirrored.needs_listing) == ("10", False)


def test_a_listing_in_pages_is_whole_with_the_last_one() -> None:
    mirrored = ListWatch(Kind.NAMESPACES)
    mirrored.start_listing()
    take_page(mirrored, page(namespace("a"), more="token"))
    assert mirrored.needs_listing
    assert mirrored.page_query() == {"limit": "500", "continue": "token"}
    take_page(mirrored, page(namespace("b"), version=11))
    assert (mirrored.resource_version, mirrored.needs_listing) == ("11", False)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (line("ADDED", namespace("b", version=12)), [("b", True)]),
        (line("MODIFIED", namespace("a", version=12)), [("a", True)]),
        (line("DELETED", namespace("a", version=12)), [("a", False)]),
        (line("DELETED", namespace("unheard-of", version=12)), []),
        (bookmark(12), []),
    ],
    ids=["added", "modified", "deleted", "deleted unknown", "bookmark"],
)
def test_each_event_changes_what_it_says_and_moves_the_version_on(event: bytes, expected: Any) -> None:
    mirrored = listed(namespace("a", version=3))
    assert keys(took(mirrored, event).changes) == expected
    assert mirrored.resource_version == "12"


def test_an_event_that_a_newer_server_may_send_is_passed_over() -> None:
    assert took(listed(), line("PROGRESS", {}), b"").changes == []


def test_an_object_that_has_not_changed_is_not_handed_over_again() -> None:
    mirrored = listed(namespace("a", version=3))
    mirrored.start_listing()
    assert take_page(mirrored, page(namespace("a", version=3))).changes == []


def test_a_new_listing_gives_deletions() -> None:
    mirrored = listed(namespace("a"), namespace("b"), namespace("c"))
    mirrored.start_listing()
    first = take_page(mirrored, page(namespace("c", version=4), more="token"))
    assert keys(first.changes) == [("c", True)]
    assert keys(take_page(mirrored, page(namespace("a"))).changes) == [("b", False)]


def test_a_listing_that_broke_off_counts_from_the_beginning() -> None:
    mirrored = listed(namespace("a"), namespace("b"))
    mirrored.start_listing()
    take_page(mirrored, page(namespace("a"), more="token"))
    mirrored.start_listing()
    assert keys(take_page(mirrored, page(namespace("b"))).changes) == [("a", False)]


def test_an_object_created_again_under_its_name_is_first_deleted() -> None:
    mirrored = listed(namespace("a", uid="first"))
    mirrored.start_listing()
    received = take_page(mirrored, page(namespace("a", uid="second", version=8)))
    assert keys(received.changes) == [("a", False), ("a", True)]


def test_a_malformed_object_takes_no_other_with_it() -> None:
    bad = namespace("bad")
    bad["metadata"]["labels"] = {"x": 1}
    mirrored = ListWatch(Kind.NAMESPACES)
    mirrored.start_listing()
    received = take_page(mirrored, page(namespace("a"), bad, namespace("b")))
    assert keys(received.changes) == [("a", True), ("bad", True), ("b", True)]
    assert [(problem.key, problem.field) for problem in received.problems] == [("bad", "metadata.labels[...]")]
    assert not mirrored.needs_listing


def unreadable(name: str, *, version: int = 12) -> dict[str, Any]:
    bad = namespace(name, version=version)
    bad["metadata"]["labels"] = {"x": 1}
    return bad


def test_an_object_that_becomes_malformed_keeps_its_last_readable_value() -> None:
    mirrored = listed(namespace("a", team="ml"))
    received = took(mirrored, line("MODIFIED", unreadable("a")))
    assert [change.value for change in received.changes] == [Namespace(name="a", labels=(("team", "ml"),))]
    assert len(received.problems) == 1
    assert mirrored.resource_version == "12"


def test_a_version_that_cannot_be_read_is_reported_once() -> None:
    mirrored = listed(unreadable("a"))
    mirrored.start_listing()
    received = take_page(mirrored, page(unreadable("a")))
    assert (received.changes, received.problems) == ([], [])


@pytest.mark.parametrize(
    "event", [line("MODIFIED", namespace("a", version=13)), line("DELETED", unreadable("a", version=13))]
)
def test_an_object_leaves_quarantine_when_it_can_be_read_or_is_gone(event: bytes) -> None:
    mirrored = listed(unreadable("a"))
    assert took(mirrored, event).readable == ["a"]
    assert took(mirrored, line("ADDED", namespace("a", version=14))).readable == []


def test_an_object_without_a_resource_version_is_read_each_time_and_moves_no_watch() -> None:
    mirrored = listed(namespace("a"))
    body = namespace("b")
    body["metadata"]["resourceVersion"] = ""
    assert keys(took(mirrored, line("ADDED", body), line("MODIFIED", body)).changes) == [("b", True), ("b", True)]
    assert mirrored.resource_version == "10"


def test_what_a_listing_did_not_show_stays_where_something_in_it_has_no_name() -> None:
    mirrored = listed(namespace("a"), namespace("b"))
    mirrored.start_listing()
    received = take_page(mirrored, page(namespace("a"), {"metadata": {"name": 7}}))
    assert (received.changes, len(received.nameless)) == ([], 1)
    mirrored.start_listing()
    assert keys(take_page(mirrored, page(namespace("a"))).changes) == [("b", False)]


def test_an_object_without_readable_metadata_is_reported_and_skipped() -> None:
    received = took(listed(), line("ADDED", {"metadata": []}), line("ADDED", namespace("b", version=11)))
    assert keys(received.changes) == [("b", True)]
    assert len(received.nameless) == 1


def test_an_expired_version_ends_the_watch_after_what_came_before_it() -> None:
    mirrored = listed()
    received = Received()
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    with pytest.raises(Gone, match="too old"):
        take_lines(mirrored, [line("ADDED", namespace("a", version=11)), line("ERROR", status)], received)
    assert keys(received.changes) == [("a", True)]


def test_another_error_in_the_stream_is_the_servers() -> None:
    with pytest.raises(ServerError):
        took(listed(), line("ERROR", {"kind": "Status", "code": 500, "reason": "InternalError"}))


@pytest.mark.parametrize("text", [b'{"type":"ADDED","obj', b"<html>", b"[]"])
def test_a_line_that_is_no_event_is_reported_and_the_next_ones_count(text: bytes) -> None:
    received = took(listed(), text, line("ADDED", namespace("b", version=11)))
    assert received.torn is not None
    assert "watch" in str(received.torn)
    assert keys(received.changes) == [("b", True)]


HARD = {
    "depth": lambda depth: b"[" * depth + b"]" * depth,
    "lone surrogate": lambda _: rb'"\ud800"',
}


@pytest.mark.parametrize("depth", [1000, 2400, 9000])
@pytest.mark.parametrize("hard", HARD.values(), ids=HARD)
def test_what_the_decoder_cannot_skip_hides_no_other_object(hard: Any, depth: int) -> None:
    """Row 4: opaque parameters and managedFields come as their users wrote them; the server admits 10,000 levels."""
    body = encoded(namespace("hard")).replace(b'"f:spec":{}', b'"f:spec":' + hard(depth))
    mirrored = ListWatch(Kind.NAMESPACES)
    mirrored.start_listing()
    received = take_page(
        mirrored,
        b'{"metadata":{"resourceVersion":"7"},"items":[%s,%s,%s]}'
        % (encoded(namespace("a")), body, encoded(namespace("b"))),
    )
    assert keys(received.changes) == [("a", True), ("hard", True), ("b", True)]
    assert received.problems == []
    assert mirrored.resource_version == "7"
    event = b'{"type":"MODIFIED","object":' + body.replace(b'"resourceVersion":"1"', b'"resourceVersion":"8"') + b"}"
    assert keys(took(mirrored, event).changes) == [("hard", True)]


def test_a_page_that_is_no_list_is_an_error() -> None:
    with pytest.raises(DecodeError, match="list"):
        take_page(ListWatch(Kind.NODES), encoded([]))


def test_pods_that_have_ended_are_not_asked_for() -> None:
    mirrored = listed(kind=Kind.PODS)
    expected = "status.phase!=Succeeded"
    assert {query["fieldSelector"] for query in (mirrored.page_query(), mirrored.watch_query(1))} == {expected}


def test_a_watch_goes_on_from_the_last_version_with_bookmarks() -> None:
    assert listed(version=77).watch_query(300) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
        "resourceVersion": "77",
    }


@given(st.integers(0, 2**32))
def test_whatever_happens_the_changes_add_up_to_what_is_there(seed: int) -> None:
    """Random histories with watches, broken listings and re-listings: the consumer always ends with the truth."""
    source = random.Random(seed)  # noqa: S311 - a test's dice
    truth: dict[str, dict[str, Any]] = {}
    believed: dict[str, object] = {}
    mirrored = ListWatch(Kind.NAMESPACES)
    mirrored.start_listing()
    version = 0

    def take(received: Received) -> None:
        for change in received.changes:
            if change.value is None:
                del believed[change.key]
            else:
                believed[change.key] = change.value

    for _ in range(30):
        version += 1
        name = source.choice("abcd")
        if name in truth and source.random() < 0.5:
            event = line("DELETED", truth.pop(name) | {"metadata": namespace(name, version=version)["metadata"]})
        else:
            kind = "MODIFIED" if name in truth else "ADDED"
            uid = truth[name]["metadata"]["uid"] if name in truth else f"uid-{version}"
            truth[name] = namespace(name, version=version, uid=uid, step=str(version))
            event = line(kind, truth[name])
        if source.random() < 0.3:
            mirrored.start_listing()  # the event was missed
        if not mirrored.needs_listing:
            take(took(mirrored, event))
            continue
        items = list(truth.values())
        if source.random() < 0.3 and items:
            take(take_page(mirrored, page(*items[:1], more="token")))
            mirrored.start_listing()
        cut = source.randint(0, len(items))
        take(take_page(mirrored, page(*items[:cut], more="token")))
        take(take_page(mirrored, page(*items[cut:], version=version)))
        assert set(believed) == set(truth)
    if not mirrored.needs_listing:
        assert {key: dict(value.labels) for key, value in believed.items()} == {  # type: ignore[attr-defined] # Namespace
            key: value["metadata"]["labels"] for key, value in truth.items()
        }


def test_opaque_parameters_are_handed_on_as_they_came_beside_other_claims() -> None:
    """A page is softened as a whole; each claim gets its own parameters back."""
    deep = {name: f'{{"{name}":' + "[" * 2000 + "]" * 2000 + "}" for name in "abc"}
    bodies = []
    for name, parameters in deep.items():
        config = [{"opaque": {"driver": "d", "parameters": "HERE"}}]
        bodies.append(encoded(claim(name, config=config)).replace(b'"HERE"', parameters.encode()))
    mirrored = ListWatch(Kind.CLAIMS)
    mirrored.start_listing()
    received = take_page(mirrored, b'{"metadata":{},"items":[' + b",".join((*bodies, encoded(claim("d")))) + b"]}")
    assert (received.problems, len(received.changes)) == ([], 4)
    given = {each.value.id.name: each.value.config for each in received.changes if isinstance(each.value, Claim)}
    assert {name: config[0].parameters for name, config in given.items() if config} == deep
    assert given["d"] == ()


def test_a_page_that_is_no_json_is_an_error_and_deletes_nothing() -> None:
    """The API server checks the JSON that it passes on: what is broken was broken on the way, so it lists again."""
    mirrored = listed(namespace("a"), version=6)
    mirrored.start_listing()
    items = (encoded(namespace("a")), b'{"metadata":{"name":"bad","labels":{"x":nonsense}}}')
    received = Received()
    with pytest.raises(DecodeError, match="namespaces list"):
        at_once(
            mirrored.receive_page(b'{"metadata":{"resourceVersion":"7"},"items":[' + b",".join(items) + b"]}", received)
        )
    assert received.changes == []
    assert mirrored.needs_listing


def test_a_bookmark_that_goes_back_is_reported_and_not_gone_on_from() -> None:
    mirrored = listed(version=10)
    assert took(mirrored, bookmark(12)).went_back is None
    went_back = took(mirrored, bookmark(11)).went_back
    assert str(went_back) == "namespaces went back from resourceVersion 12 to 11"
    assert mirrored.resource_version == "12"


def test_a_listing_that_goes_back_deletes_nothing() -> None:
    mirrored = listed(namespace("a", version=3), version=10)
    mirrored.start_listing()
    received = take_page(mirrored, page(version=9))
    assert str(received.went_back) == "namespaces went back from resourceVersion 10 to 9"
    assert received.changes == []
    assert mirrored.needs_listing


def test_after_it_went_back_a_listing_of_any_version_is_taken_with_objects_of_the_same_version() -> None:
    """A restored etcd gives out versions again that other contents had before."""
    mirrored = listed(namespace("a", version=3), namespace("b", version=4), version=10)
    mirrored.distrust()
    received = take_page(mirrored, page(namespace("a", version=2), namespace("b", version=4), version=9))
    assert received.went_back is None
    assert keys(received.changes) == [("a", True), ("b", True)]
    assert mirrored.resource_version == "9"


def test_an_object_that_was_made_again_may_have_any_version() -> None:
    mirrored = listed(namespace("a", version=7, uid="first"), version=10)
    received = took(mirrored, line("ADDED", namespace("a", version=6, uid="second")))
    assert received.went_back is None
    assert keys(received.changes) == [("a", False), ("a", True)]


@pytest.mark.parametrize(
    ("version", "other", "expected"),
    [("9", "10", True), ("10", "9", False), ("10", "10", False), ("18446744073709551616", "18446744073709551617", True)]
    + [(odd, "10", False) for odd in ("", "a1", "-1")]
    + [("1", odd, False) for odd in ("", "0", "b")],
)
def test_versions_are_compared_as_numbers_where_they_are_some(version: str, other: str, expected: bool) -> None:  # noqa: FBT001 - a table
    assert is_older(version, other) is expected


def test_no_version_is_passed_before_its_object_was_received() -> None:
    """A new leader waits until the watch has passed a version: what had it must be in the cache by then."""
    mirrored, received = listed(version=10), Received()
    large = namespace("large", version=12, text="x" * PIECE_BYTES)
    for _ in mirrored.receive_lines([line("ADDED", namespace("a", version=11)), line("ADDED", large)], received):
        seen = {each.key for each in received.changes}
        assert mirrored.resource_version == ("11" if "a" in seen else "10")
        assert "large" not in seen or mirrored.resource_version == "12"
    assert mirrored.resource_version == "12"
