"""A stored claim with every field, and some of later versions, in protobuf: a write changes what it means alone."""

from collections.abc import Callable

import pytest

from e2e.controlplane import versions
from scheduler.kube import protobuf
from solver.domain import ConsumerReference
from tests.support.corpus import corpus

LATER = b"\xfa\x7f\x05later"
"""A field of number 2047, which no version has."""
METADATA, SPEC, STATUS = 1, 2, 3
ENVELOPE_BYTES = 4
OBJECT = 2
OTHER = ConsumerReference(resource="pods", name="other", uid="other-uid")

Write = Callable[[bytes], bytes]


def fields(message: bytes) -> list[tuple[int, bytes, bytes]]:
    """Number, payload and all bytes of each field."""
    return list(protobuf._fields(message))


def field(number: int, payload: bytes) -> bytes:
    """Encode a field whose payload has less than 16,384 bytes, with the length in two bytes."""
    length = len(payload)
    return bytes([number << 3 | 2, length & 127 | 128, length >> 7]) + payload


def with_later_fields(stored: bytes) -> bytes:
    """Add an unknown field to a claim, its metadata and spec, its status and everything in that."""

    def of_claim(claim: bytes) -> bytes:
        return b"".join(field(number, of_part(number, part)) for number, part, _ in fields(claim)) + LATER

    def of_part(number: int, part: bytes) -> bytes:
        if number == STATUS:
            part = b"".join(field(inner, each + LATER) for inner, each, _ in fields(part))
        return part + LATER

    envelope = fields(stored[ENVELOPE_BYTES:])
    changed = (field(number, of_claim(part)) if number == OBJECT else whole for number, part, whole in envelope)
    return stored[:ENVELOPE_BYTES] + b"".join(changed)


def parts(stored: bytes) -> dict[int, set[bytes]]:
    """Return the fields of metadata, spec and status, each as its bytes, and the claim's own unknown ones."""
    claim = next(part for number, part, _ in fields(stored[ENVELOPE_BYTES:]) if number == OBJECT)
    known = {METADATA, SPEC, STATUS}
    found = {number: {whole for _, _, whole in fields(part)} for number, part, _ in fields(claim) if number in known}
    return {**found, 0: {whole for number, _, whole in fields(claim) if number not in known}}


WRITES: dict[str, tuple[Write, dict[int, int]]] = {
    "finalizer": (lambda stored: protobuf.with_finalizer(stored, "99", "ours"), {METADATA: 1}),
    "annotation": (lambda stored: protobuf.with_annotation(stored, "99", "ours", "new"), {METADATA: 1}),
    "consumer": (lambda stored: protobuf.with_consumers(stored, "99", added=[OTHER]), {METADATA: 1}),
    "release": (lambda stored: protobuf.with_consumers(stored, "99", removed=["uid"]), {METADATA: 1, STATUS: 1}),
}
"""Each with the number of fields that it replaces or removes: the resourceVersion, and the consumer that goes."""


@pytest.mark.parametrize("kubernetes", versions.SUPPORTED)
@pytest.mark.parametrize("name", WRITES)
def test_a_stored_claim_keeps_every_field_of_its_own_and_of_later_versions(kubernetes: str, name: str) -> None:
    write, gone = WRITES[name]
    stored = with_later_fields(corpus(kubernetes).claim)
    before, after = parts(stored), parts(write(stored))
    assert all(LATER in each for each in before.values())
    assert {number: len(before[number] - after[number]) for number in before} == {0: 0, 1: 0, 2: 0, 3: 0} | gone
