"""Claims in the form that the API server stores them in, put together by hand."""

import pytest

from scheduler.kube import protobuf
from scheduler.kube.errors import DecodeError
from solver.domain import ConsumerReference


def field(number: int, payload: bytes) -> bytes:
    length = len(payload)
    size = bytes([length]) if length < 128 else bytes([length & 127 | 128, length >> 7])
    return bytes([number << 3 | 2]) + size + payload


def number(number: int, value: int) -> bytes:
    return bytes([number << 3, value])


def stored(metadata: bytes, spec: bytes = b"", status: bytes = b"") -> bytes:
    claim = field(1, metadata) + field(2, spec) + field(3, status)
    return b"k8s\x00" + field(1, b"type") + field(2, claim) + field(3, b"") + field(4, b"")


NAME = field(1, b"claim")
SPEC = (
    field(9, b'{"a": 1, "b": "<&>"}' * 10)
    + number(7, 3)
    + bytes([8 << 3 | 1])
    + b"12345678"
    + bytes([10 << 3 | 5])
    + b"1234"
)
ALLOCATION = field(1, b'{ "blanks": 1 }')
REPORTED = field(4, b"devices")


def consumer(name: str) -> bytes:
    return field(2, field(3, b"pods") + field(4, name.encode()) + field(5, f"uid-{name}".encode()))


def test_a_finalizer_is_appended_and_the_version_set_and_all_else_stays() -> None:
    before = stored(NAME + field(6, b"41") + field(14, b"other"), SPEC, ALLOCATION)
    after = protobuf.with_finalizer(before, "42", "ours")
    assert after == stored(NAME + field(14, b"other") + field(14, b"ours") + field(6, b"42"), SPEC, ALLOCATION)


def test_an_annotation_is_set_and_all_else_stays() -> None:
    def entry(key: bytes, value: bytes) -> bytes:
        return field(12, field(1, key) + field(2, value))

    before = stored(NAME + entry(b"ours", b"old") + entry(b"other", b"ours"), SPEC, ALLOCATION)
    after = protobuf.with_annotation(before, "42", "ours", "new")
    expected = NAME + entry(b"other", b"ours") + entry(b"ours", b"new") + field(6, b"42")
    assert after == stored(expected, SPEC, ALLOCATION)


def test_consumers_come_and_go_and_all_else_stays() -> None:
    before = stored(NAME, SPEC, ALLOCATION + consumer("a") + consumer("b") + REPORTED)
    added = [ConsumerReference(resource="pods", name="c", uid="uid-c")]
    after = protobuf.with_consumers(before, "42", added=added, removed={"uid-a"})
    assert after == stored(NAME + field(6, b"42"), SPEC, ALLOCATION + consumer("b") + REPORTED + consumer("c"))


def test_a_group_is_a_consumer_with_its_api_group() -> None:
    group = ConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="g", uid="u")
    after = protobuf.with_consumers(stored(NAME), "42", added=[group])
    expected = field(1, b"scheduling.k8s.io") + field(3, b"podgroups") + field(4, b"g") + field(5, b"u")
    assert after == stored(NAME + field(6, b"42"), b"", field(2, expected))


@pytest.mark.parametrize(
    "broken",
    [b"", b"{}", b"k8s\x00\x12\x05ab", b"k8s\x00\x80", b"k8s\x00\x0b"],
    ids=["nothing", "json", "cut off", "cut off in a number", "unknown wire type"],
)
def test_other_bytes_are_refused(broken: bytes) -> None:
    with pytest.raises(DecodeError):
        protobuf.with_finalizer(broken, "42", "ours")
