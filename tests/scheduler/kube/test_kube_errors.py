import datetime as dt
import json
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.kube import errors
from scheduler.kube.errors import ApiError, TooManyRequests, from_answer
from scheduler.kube.watching.reflector import RequestBackoff
from scheduler.unreadable import LONGEST_TEXT


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, errors.BadRequest),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (410, errors.Gone),
        (418, ApiError),
        (422, errors.Invalid),
        (429, errors.TooManyRequests),
        (500, errors.ServerError),
        (504, errors.ServerError),
    ],
)
def test_each_status_is_its_own_error(status: int, expected: type[ApiError]) -> None:
    assert type(from_answer(status, b"{}")) is expected


def test_the_servers_reason_and_message_stand_with_the_request() -> None:
    body = json.dumps({"kind": "Status", "reason": "AlreadyExists", "message": "it is there"}).encode()
    error = from_answer(409, body, request="POST /api/v1/pods")
    assert (error.reason, error.message) == ("AlreadyExists", "it is there")
    assert str(error) == "POST /api/v1/pods: 409 AlreadyExists: it is there"


@pytest.mark.parametrize("status", [400, 409, 422, 500])
def test_what_the_server_quotes_is_cut_in_the_text_and_whole_in_the_message(status: int) -> None:
    quoted = "x" * 100_000  # code looks for the server's own words behind it
    error = from_answer(status, json.dumps({"reason": "Invalid", "message": f"{quoted}: immutable"}).encode())
    assert len(str(error)) <= LONGEST_TEXT
    assert str(error).endswith("… (cut)")
    assert error.message.endswith(": immutable")


def test_a_body_that_is_no_status_is_the_message() -> None:
    assert from_answer(502, b"<html>bad gateway</html>").message == "<html>bad gateway</html>"


@pytest.mark.parametrize(
    ("header", "body", "seconds"),
    [
        ("7", b'{"details":{"retryAfterSeconds":3}}', 7.0),
        ("", b'{"details":{"retryAfterSeconds":3}}', 3.0),
        ("", b"{}", 1.0),
    ],
    ids=["header", "body", "neither"],
)
def test_throttling_says_how_long_to_wait(header: str, body: bytes, seconds: float) -> None:
    error = from_answer(429, body, retry_after=header)
    assert isinstance(error, TooManyRequests)
    assert error.retry_after_seconds == seconds


@pytest.mark.parametrize(
    ("header", "body", "seconds"),
    [
        ("86400", b"{}", errors.MOST_RETRY_AFTER_SECONDS),
        ("9" * 5000, b"{}", errors.MOST_RETRY_AFTER_SECONDS),
        ("Fri, 31 Dec 9999 23:59:59 GMT", b"{}", errors.MOST_RETRY_AFTER_SECONDS),
        ("Thu, 01 Jan 1970 00:00:00 GMT", b"{}", 1.0),
        ("Fri, 31 Dec 99999 23:59:59 GMT", b"{}", 1.0),
        ("-5", b"{}", 1.0),
        ("nan", b"{}", 1.0),
        ("inf", b"{}", 1.0),
        ("1e9", b"{}", 1.0),
        ("\u0665", b"{}", 1.0),
        ("soon", b'{"details":{"retryAfterSeconds":3}}', 3.0),
        ("", b'{"details":{"retryAfterSeconds":86400}}', errors.MOST_RETRY_AFTER_SECONDS),
        ("", b'{"details":{"retryAfterSeconds":1e300}}', errors.MOST_RETRY_AFTER_SECONDS),
        ("", b'{"details":{"retryAfterSeconds":-3}}', 1.0),
        ("", b'{"details":{"retryAfterSeconds":null}}', 1.0),
    ],
)
def test_no_answer_makes_the_scheduler_wait_longer_than_the_bound(header: str, body: bytes, seconds: float) -> None:
    assert from_answer(429, body, retry_after=header).retry_after_seconds == seconds


def test_a_date_says_how_long_to_wait() -> None:
    header = format_datetime(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=20), usegmt=True)
    assert 10 < from_answer(503, b"", retry_after=header).retry_after_seconds <= 20


@given(
    st.text() | st.integers().map(str) | st.datetimes().map(format_datetime), st.integers() | st.floats(), st.binary()
)
def test_whatever_a_server_asks_for_is_a_time_within_the_bound(header: str, asked: float, garbage: bytes) -> None:
    for body in (json.dumps({"details": {"retryAfterSeconds": asked}}).encode(), garbage):
        seconds = from_answer(429, body, retry_after=header).retry_after_seconds
        assert 0 < seconds <= errors.MOST_RETRY_AFTER_SECONDS


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.Unreachable(), False),
        (errors.AnswerLost(), True),
        (errors.Conflict(409), False),
        (errors.TooManyRequests(429), False),
        (errors.ServerError(504), True),
    ],
)
def test_only_a_lost_answer_and_a_failing_server_leave_open_whether_a_write_acted(
    error: errors.KubeError,
    expected: bool,  # noqa: FBT001 - a column
) -> None:
    assert error.may_have_acted is expected


def test_waiting_grows_with_each_failure_up_to_a_limit_and_starts_over() -> None:
    backoff = RequestBackoff(first=1.0, longest=4.0)
    waits = [backoff.seconds() for _ in range(5)]
    for wait, whole in zip(waits, (1, 2, 4, 4, 4), strict=True):
        assert whole / 2 <= wait <= whole
    backoff.reset()
    assert backoff.seconds() <= 1.0


def test_waiting_is_at_least_what_the_server_asks_for() -> None:
    assert RequestBackoff(first=0.1).seconds(TooManyRequests(429, retry_after_seconds=5.0)) >= 5.0
