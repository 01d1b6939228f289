r"""
Texts of any length that cost their reader work, and valid texts with random changes.

A shape repeats whole units, so that twice the length is twice as much of the same.
"""

import random
from collections.abc import Callable, Mapping
from itertools import count
from typing import Final

Shape = Callable[[int], str]
"""Makes a text of about so many characters."""


def repeated(unit: str, head: str = "", tail: str = "") -> Shape:
    """Repeat a text, in which `#` is the number of the repetition."""

    def made(length: int) -> str:
        parts, size = [head], 0
        for number in count():
            if size >= length:
                break
            parts.append(unit.replace("#", f"{number:04}"))
            size += len(parts[-1])
        return "".join((*parts, tail))

    return made


def enclosed(begin: str, inner: str, end: str, *, levels: int = 0, head: str = "") -> Shape:
    """Nest a text, as deep as the length allows, or in so many levels with repetitions inside."""

    def made(length: int) -> str:
        if not levels:
            depth = length // len(begin + end)
            return f"{head}{begin * depth}{inner}{end * depth}"
        return head + begin * levels + repeated(inner)(length) + end * levels

    return made


def _stairs(length: int) -> str:
    """A block in a block, each a column further to the right: as many characters as the square of its depth."""
    return "".join(f"{' ' * level}a:\n" for level in range(int((2 * length) ** 0.5)))


PLAIN: Final[Mapping[str, Shape]] = {
    each.replace("\n", "↵"): repeated(each)
    for each in (
        *("a", "9", " ", "\t", "\n", "\r", "\r\n", "\r\n\n\r", "\0", "\x0b\x0c\x1c\n", "\ufeff", "\x85", "\u2028", "é"),
        *("\U0001f600", "\udc80", "\\", "\\u", "\\ud800", "%", "_", "-", "#", "'", '"', "`", "(", ")", "[", "{", "]}"),
        *(",", ", ", ": ", "=", "!", "!=a,", "/", ".", "a.", "a-", "a/", "*", "&", "|", ">", "?", "? ", "- ", "59:"),
        *("9_", "1h", "0x", "1e", "+", "2026-01-01T00:00:00Z ", "a=b,", "a in (b),", "a in (b, ", "!a,", "a!=b,", "a "),
        *("namespace: a\n", "namespace:", "x && ", "x || ", "!x == ", "1 + ", "a.b(", "[1, ", "{1: ", "'a' + ", "a?b:"),
        *(
            "/*",
            "//\n",
            "r'",
            '"""',
            "b'\\377'",
            "size(",
            "has(a.b) && ",
            "device.attributes['a'] == 1 || ",
            "e",
            "eE9",
        ),
        *("\x1b[31m", "\u202e", "$(a)", "{{", "://", "@", "a@", "::", "[::1]:", "0.", "~", "..", "../", "xn--a.", "A"),
    )
}
"""Texts for readers of any language."""

YAML: Final[Mapping[str, Shape]] = {
    "an anchor often": repeated("&a "),
    "an alias often": repeated("*a "),
    "tags": repeated("!!str "),
    "comments": repeated("# c\n"),
    "banners": repeated("#---\n"),
    "directives": repeated("%FOO # \n"),
    "tag directives": repeated("%TAG !t#! tag:x#\n", tail="---\na: 1\n"),
    "tag directives behind returns": repeated("%TAG !t#! tag:x#\r", tail="---\ra: 1\r"),
    "separators": repeated("---\n"),
    "ends": repeated("...\n"),
    "documents": repeated("---\na: #\n"),
    "words as documents": repeated("--- a\n"),
    "documents that are cut": repeated("--- [\n"),
    "documents with a wrong byte": repeated("---\na: \udcff\n"),
    "documents behind returns": repeated("---\ra: 1\r"),
    "objects": repeated("---\napiVersion: v1\nkind: X\nmetadata: {name: a#}\n"),
    "lists in a list": repeated("- {kind: List, items: []}\n", "apiVersion: v1\nkind: List\nitems:\n"),
    "brackets that close": enclosed("[", "x", "]"),
    "braces that close": enclosed("{a: ", "x", "}"),
    "JSON that is cut": repeated('{"a":'),
    "blocks in blocks": _stairs,
    "deep and wide": enclosed("[", "v#, ", "]", levels=190),
    "deep pairs": enclosed("[", '"v#": 1, ', "]", levels=190),
    "deep dashes": enclosed("- ", "a# ", "\n", levels=190),
    "a key often": repeated("k: v\n"),
    "keys": repeated("k#: v\n"),
    "empty keys": repeated("#:\n"),
    "numbers as keys": repeated("#.5: v\n"),
    "keys in braces": repeated("k#: v, ", "{", "}"),
    "a list": repeated("- #\n"),
    "empty entries": repeated("-\n"),
    "entries in brackets": repeated("v#, ", "[", "]"),
    "entries on lines": repeated("v#,\n", "[", "]"),
    "maps in a list": repeated("- a: #\n  b: x\n"),
    "maps in maps": repeated("{a: {b: [#]}}, ", "[", "]"),
    "keys with question marks": repeated("? k#\n: v\n"),
    "a long text": repeated("x", 'a: "', '"\n'),
    "a text on lines": repeated("x\n ", 'a: "', '"\n'),
    "a quote on lines": repeated("x\n ", "a: '", "'\n"),
    "quotes in a quote": repeated("''", "a: '", "'\n"),
    "escapes": repeated("\\n", 'a: "', '"\n'),
    "code points": repeated("\\u0041", 'a: "', '"\n'),
    "half pairs": repeated("\\ud800", 'a: "', '"\n'),
    "long code points": repeated("\\U0001f600", 'a: "', '"\n'),
    "a literal": repeated("  x\n", "a: |\n"),
    "a folded text": repeated("  x\n", "a: >\n"),
    "a literal of blank lines": repeated("\n", "a: |\n"),
    "a plain text on lines": repeated("  x\n", "a: x\n"),
    "a plain text with blank lines": repeated("\n", "a: x\n", "  y\n"),
    "plain words": repeated("x ", "a: "),
    "comments below a key": repeated("# c\n", "a:\n", "  b: 1\n"),
    "anchors": repeated("k#: &a# v\n"),
    "anchored maps": repeated("k#: &a# {x: 1}\n"),
    "aliases of a word": repeated("k#: *a\n", "a: &a x\n"),
    "aliases in brackets": repeated("*a, ", "a: &a x\nb: [", "]\n"),
    "aliases below open anchors": repeated(
        "*a, ", "a: &a x\nb: " + "".join(f"&b{level} [" for level in range(180)), "]" * 180
    ),
    "a merge often": repeated("  <<: *a\n", "a: &a {x: y}\nb:\n"),
    "merges in a list": repeated("*a, ", "a: &a {x: y}\nb: {<<: [", "]}\n"),
    "maps that merge": repeated("k#: {<<: *a, z: 1}\n", "a: &a {x: 1}\n"),
    "own tags": repeated("k#: !t# v\n"),
    "maps with a tag": repeated("- !t {a: #}\n"),
    "a set": repeated("  ? k#\n", "a: !!set\n"),
    "an ordered map": repeated("- k#: 1\n", "a: !!omap\n"),
    "binary": repeated("QUFB", "a: !!binary ", "\n"),
    "a number with a tag": repeated("7", "a: !!int "),
    "a number": repeated("7", "a: "),
    "a fraction": repeated("7", "a: 0."),
    "numbers": repeated("0x7f, 1_000, 010, 1e308, 1e400, .5, ", "a: [", "]"),
    "words of a truth": repeated("y, no, On, ~, null, ", "a: [", "]"),
    "JSON documents": repeated("{}"),
    "JSON with blanks": repeated("{}\n\n\n\n\n\n"),
    "JSON lines": repeated('{"a": #}\n'),
    "JSON lines and no JSON": repeated('{"a": #}\n', tail="{"),
    "JSON behind blanks": repeated(" ", "{}", "{}"),
    "JSON with numbers": repeated("1,", '{"a": [', "1]}"),
    "JSON with fractions": repeated("1.5e3,", '{"a": [', "1]}"),
    "JSON with no numbers": repeated("NaN,", '{"a": [', "1]}"),
    "JSON with a number": repeated("7", '{"a": ', "}"),
    "JSON with a key often": repeated('"a": 1,', "{", '"a": 1}'),
    "JSON with keys": repeated('"k#": 1,', "{", '"z": 1}'),
    "JSON with a text": repeated("\\u0041", '{"a": "', '"}'),
    "JSON with half pairs": repeated("\\ud800", '{"a": "', '"}'),
    "JSON that is deep": enclosed("[", "1", "]", head='{"a": '),
    "a JSON list": repeated(
        '{"apiVersion":"v1","kind":"X"},', '{"apiVersion":"v1","kind":"List","items":[', '{"kind":"X"}]}'
    ),
}
"""Texts in YAML and JSON, and such as look like it."""

JSON: Final[Mapping[str, Shape]] = {
    **{name: shape for name, shape in YAML.items() if "JSON" in name},
    **{name: PLAIN[name] for name in ("9", "\\", "[", "{", "[1, ", "\0", "\udc80", '"')},
}
"""Texts for readers that are written in C: only what they accept, and their errors, are ours."""


def _chain(link: str, head: str) -> Shape:
    """Make links of which each names the one before it."""

    def made(length: int) -> str:
        parts, size = [head], 0
        for number in count(1):
            if size >= length:
                break
            parts.append(link.format(number=number, before=number - 1))
            size += len(parts[-1])
        return "".join(parts)

    return made


def _wide_merges(length: int) -> str:
    keys = repeated("k#: 1, ", "a: &a {", "}\n")(length // 2)
    return keys + repeated("*a, ", "b: {<<: [", "]}\n")(length // 2)


REPEATING: Final[Mapping[str, Shape]] = {
    "a billion laughs": _chain("a{number}: &a{number} [*a{before}, *a{before}]\n", "a0: &a0 [x, x, x]\n"),
    "laughs in a text": _chain("a{number}: &a{number} [*a{before}, *a{before}]\n", f"a0: &a0 {'x' * 200}\n"),
    "laughs in merges": _chain("a{number}: &a{number} {{<<: [*a{before}, *a{before}]}}\n", "a0: &a0 {x: 1, y: 2}\n"),
    "merges of all before": _chain("a{number}: &a{number} {{<<: *a{before}, k{number}: 1}}\n", "a0: &a0 {k: 1}\n"),
    "merges of many keys": _wide_merges,
}
"""Texts whose aliases stand for much more than they are long."""

_PIECES: Final = (
    *(b"[", b"{", b"]", b"}", b":", b"- ", b"\n", b"\t", b"\0", b"\xff", b"\xed\xa0\x80", b"&a ", b"*a", b"!!int "),
    *(b"!!binary ", b"<<: ", b"|", b">", b"'", b'"', b"#", b"%", b"~", b"null", b"true", b"-1", b"1e400", b"9" * 500),
    *(b"\\ud800", b"\xef\xbb\xbf", b"---\n", b"...", b"\r", b"\xe2\x80\xa8", b"\xc2\x85", b"0x", b"=", b".inf", b"[]"),
    *(b"{}", b"18446744073709551616", b"1.5", b"x" * 300, b"/", b"a" * 5000, b"\xc3\xa9", b"[" * 2000, b'{"a":' * 2000),
)


def mutated(chance: random.Random, text: bytes) -> bytes:
    """Change a text in one or some places: bytes are put in, taken out, repeated, or stand for a value."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(text) + 1)
        end = min(len(text), at + chance.choice((0, 1, 2, 5, 20, 200)))
        match chance.randrange(4):
            case 0:
                made = chance.choice(_PIECES)
            case 1:
                made = b""
            case 2:
                start = chance.randrange(len(text) + 1)
                made, end = text[start : start + chance.choice((5, 50, 500))], at
            case _:
                at = text.find(b":", at) + 1
                rest = text[at:].split(b"\n", 1)[0].split(b",", 1)[0].split(b"}", 1)[0]
                made, end = b" " + chance.choice(_PIECES), at + len(rest)
        text = text[:at] + made + text[end:]
    return text
