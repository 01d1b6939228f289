"""Literals of CEL, decoded from their source text by the language definition."""

import re
from typing import Final

from solver.feasibility.cel.errors import ExpressionError, Position, shortened
from solver.feasibility.cel.values import MAX_INT, MAX_UINT, MIN_INT, UInt, digits_of

_SIMPLE: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_NUMERIC: Final = re.compile(
    r"[xX](?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})", re.ASCII
)
_SURROGATES: Final = range(0xD800, 0xE000)
_LARGEST_CODE_POINT: Final = 0x10FFFF


def decode_int(text: str, position: Position) -> int:
    """Decode `12`, `-3`, `0x1F` as int64."""
    number = _number(text.removeprefix("-"), -MIN_INT)
    value = None if number is None else -number if text.startswith("-") else number
    if value is None or value > MAX_INT:
        raise ExpressionError(f"{shortened(text)} does not fit into int64", position)
    return value


def decode_uint(text: str, position: Position) -> UInt:
    """Decode `12u`, `0x1Fu` as uint64."""
    number = _number(text[:-1], MAX_UINT)
    if number is None:
        raise ExpressionError(f"{shortened(text)} does not fit into uint64", position)
    return UInt(number)


def _number(digits: str, most: int) -> int | None:
    """Give the number that decimal or hexadecimal digits write; None where it is beyond `most`."""
    if not digits.startswith("0x"):
        return digits_of(digits, most)
    number = int(digits, 16)
    return number if number <= most else None


def decode_float(text: str, position: Position) -> float:
    """Decode `1.5`, `-2e3`; what overflows is an error."""
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise ExpressionError(f"{shortened(text)} does not fit into a double", position)
    return value


def decode_string(text: str, position: Position) -> str:
    """Decode a string literal: plain, raw (`r`), single or triple quoted."""
    body, is_raw = _body(text)
    return body if is_raw or "\\" not in body else "".join(_characters(body, position))


def decode_bytes(text: str, position: Position) -> bytes:
    """Decode a bytes literal (`b"…"`): hexadecimal and octal escapes are bytes, other characters UTF-8."""
    body, is_raw = _body(text[1:])
    if is_raw or "\\" not in body:
        return body.encode()
    # Escapes below 256 stand for one byte each, and the characters around them for their UTF-8 bytes.
    parts = bytearray()
    at = 0
    while at < len(body):
        if body[at] != "\\":
            parts += body[at].encode()
            at += 1
            continue
        if body[at + 1 : at + 2] in {"u", "U"}:
            raise ExpressionError("bytes know no \\u escapes: write the UTF-8 bytes as \\x..", position)
        character, at = _escape(body, at, position)
        parts.append(ord(character))
    return bytes(parts)


def _body(text: str) -> tuple[str, bool]:
    """Strip prefix and quotes; say whether it is raw. Line ends become line feeds, as the language wants."""
    is_raw = text[0] in "rR"
    quoted = text[1:] if is_raw else text
    width = 3 if quoted[:3] in {'"""', "'''"} and len(quoted) >= 6 else 1  # noqa: PLR2004 - two triple quotes
    return quoted[width:-width].replace("\r\n", "\n").replace("\r", "\n"), is_raw


def _characters(body: str, position: Position) -> list[str]:
    """Decode the escapes of a string body."""
    characters: list[str] = []
    at = 0
    while at < len(body):
        if body[at] == "\\":
            character, at = _escape(body, at, position)
        else:
            character, at = body[at], at + 1
        characters.append(character)
    return characters


def _escape(body: str, at: int, position: Position) -> tuple[str, int]:
    """Decode the escape that begins at `at`; give the character and where the rest begins."""
    letter = body[at + 1 : at + 2]
    if letter in _SIMPLE:
        return _SIMPLE[letter], at + 2
    match = _NUMERIC.match(body, at + 1)
    if match is None:
        raise ExpressionError(
            f"\\{letter} is no escape of a string: write \\\\{letter}, or a raw string r'…' (regular expressions)",
            position,
        )
    code = int(match["octal"], 8) if match["octal"] else int(match["x"] or match["u"] or match["U"], 16)
    if code > _LARGEST_CODE_POINT or code in _SURROGATES:
        raise ExpressionError(f"\\{match.group()} is no Unicode character", position)
    return chr(code), match.end()
