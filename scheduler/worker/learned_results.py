"""What a child learned about selectors, encoded for its parent; only the worker's processes use it."""

from typing import Final

import msgspec

from solver import SelectorResults

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(tuple[SelectorResults, ...])


def encode_learned(learned: tuple[SelectorResults, ...]) -> bytes:
    """Encode the new cache entries of a child, for its parent."""
    return _encoder.encode(learned)


def decode_learned(body: bytes | memoryview) -> tuple[SelectorResults, ...]:
    """Decode the new cache entries of a child."""
    learned: tuple[SelectorResults, ...] = _decoder.decode(body)
    return learned
