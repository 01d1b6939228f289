"""
Whether a regular expression can backtrack without bound, from its structure (Weber and Seidl 1991).

The pattern becomes a position automaton (Glushkov) over representative characters. Two different runs over one word
from a state back to itself are exponential work. A run that can stay in one loop or go on to another with the same
word is quadratic work. Counted repetitions are cut to three copies, which keeps either.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from re import _constants as kinds
from re import _parser as parser
from typing import Any

_SAMPLES = "aZz09_-. \t\n\r\u00e9\u4e00\U0001f600"
_MOST_COPIES = 3
_UNBOUNDED = kinds.MAXREPEAT
_SPACES = " \t\n\r\f\v"


@dataclass
class _Part:
    """What a part of the pattern can begin and end with, with the number of ways, and whether it can be empty."""

    first: Counter[int] = field(default_factory=Counter)
    last: Counter[int] = field(default_factory=Counter)
    is_empty: bool = True


class _Automaton:
    """Positions of a pattern: the characters of each, and which follow, with the number of ways."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.flags = pattern.flags
        self.tree = parser.parse(pattern.pattern, pattern.flags)
        self.alphabet = sorted({*_SAMPLES, *_characters(self.tree)})
        self.chars: list[frozenset[str]] = []
        self.follow: dict[int, Counter[int]] = defaultdict(Counter)
        self.looks: list[Any] = []

    def sequence(self, nodes: Iterable[Any]) -> _Part:
        made = _Part()
        for node in nodes:
            made = self.joined(made, self._node(node))
        return made

    def loop(self, characters: frozenset[str]) -> _Part:
        """Add a state that repeats characters: what `search` does in front of a pattern."""
        return self._repeated(self._position(characters))

    def _position(self, characters: frozenset[str]) -> _Part:
        self.chars.append(characters)
        number = len(self.chars) - 1
        return _Part(Counter([number]), Counter([number]), is_empty=False)

    def joined(self, one: _Part, other: _Part) -> _Part:
        for start, ways in one.last.items():
            for end, more in other.first.items():
                self.follow[start][end] += ways * more
        first = one.first + other.first if one.is_empty else one.first
        last = other.last + one.last if other.is_empty else other.last
        return _Part(first, last, is_empty=one.is_empty and other.is_empty)

    def _repeated(self, part: _Part) -> _Part:
        self.joined(part, part)
        return _Part(part.first, part.last, is_empty=True)

    def _node(self, node: Any) -> _Part:
        kind, value = node
        if kind in {kinds.LITERAL, kinds.NOT_LITERAL, kinds.ANY, kinds.IN}:
            return self._position(frozenset(each for each in self.alphabet if _matches(node, each, self.flags)))
        if kind is kinds.SUBPATTERN:
            return self.sequence(value[3])
        if kind is kinds.BRANCH:
            return self._either([self.sequence(each) for each in value[1]])
        if kind in {kinds.MAX_REPEAT, kinds.MIN_REPEAT}:
            return self._copies(*value)
        if kind in {kinds.ASSERT, kinds.ASSERT_NOT}:
            self.looks.append(value[1])
            return _Part()
        if kind is kinds.AT:
            return _Part()
        raise NotImplementedError(f"{kind} in a regular expression")

    def _either(self, parts: list[_Part]) -> _Part:
        made = _Part(is_empty=any(each.is_empty for each in parts))
        for each in parts:
            made.first += each.first
            made.last += each.last
        return made

    def _copies(self, low: int, high: Any, nodes: Any) -> _Part:
        made = _Part()
        for _ in range(min(low, _MOST_COPIES - 1)):
            made = self.joined(made, self.sequence(nodes))
        if high is _UNBOUNDED:
            return self.joined(made, self._repeated(self.sequence(nodes)))
        rest = _Part()
        for _ in range(min(high, _MOST_COPIES) - min(low, _MOST_COPIES - 1)):  # x{0,2} is (x(x)?)?
            part = self.joined(self.sequence(nodes), rest)
            rest = _Part(part.first, part.last, is_empty=True)
        return self.joined(made, rest)


def work(pattern: re.Pattern[str], *, is_searched: bool) -> str:
    """Return "linear", "quadratic" (or a higher power) or "exponential": the work on a text that does not match."""
    made = _Automaton(pattern)
    part = made.sequence(made.tree)
    if is_searched and not _is_anchored(made.tree):
        made.joined(made.loop(frozenset(made.alphabet)), part)
    steps = _steps(made)
    loops = _components(steps)
    if _is_exponential(made, steps, loops):
        return "exponential"
    if _is_polynomial(steps, loops):
        return "quadratic"
    for look in made.looks:
        if _unbounded(look) and (is_searched or _within_loop(made.tree)):
            return "quadratic"
    return "linear"


_Steps = dict[int, dict[str, set[int]]]


def _steps(made: _Automaton) -> _Steps:
    found: _Steps = {number: defaultdict(set) for number in range(len(made.chars))}
    for start, ends in made.follow.items():
        for end in ends:
            for character in made.chars[end]:
                found[start][character].add(end)
    return found


def _components(steps: _Steps) -> dict[int, int]:
    """Return the strongly connected component of each state that lies on a loop."""
    reach = {start: _reached(steps, start) for start in steps}
    return {
        state: min(other for other in reach[state] if state in reach[other]) for state in steps if state in reach[state]
    }


def _reached(steps: _Steps, start: int) -> set[int]:
    found: set[int] = set()
    left = [start]
    while left:
        for ends in steps[left.pop()].values():
            left += ends - found
            found |= ends
    return found


def _is_exponential(made: _Automaton, steps: _Steps, loops: dict[int, int]) -> bool:
    for start, ends in made.follow.items():
        for end, ways in ends.items():
            if ways > 1 and made.chars[end] and start in loops and loops.get(end) == loops[start]:
                return True
    return any(_splits_and_meets(steps, state, loops) for state in loops)


def _splits_and_meets(steps: _Steps, state: int, loops: dict[int, int]) -> bool:
    seen = {(state, state)}
    left = [(state, state)]
    while left:
        one, other = left.pop()
        for character, ends in steps[one].items():
            for pair in ((a, b) for a in ends for b in steps[other].get(character, ())):
                if pair == (state, state) and one != other:
                    return True
                if pair not in seen and loops.get(pair[0]) == loops.get(pair[1]) == loops[state]:
                    seen.add(pair)
                    left.append(pair)
    return False


def _is_polynomial(steps: _Steps, loops: dict[int, int]) -> bool:
    return any(
        _stays_or_goes(steps, one, other, loops)
        for one in loops
        for other in loops
        if loops[one] != loops[other] and other in _reached(steps, one)
    )


def _stays_or_goes(steps: _Steps, one: int, other: int, loops: dict[int, int]) -> bool:
    """Whether one word leads from `one` to itself, from `one` to `other`, and from `other` to itself."""
    begin, end = (one, one, other), (one, other, other)
    seen = {begin}
    left = [begin]
    while left:
        here = left.pop()
        for character, ends in steps[here[0]].items():
            for a in ends:
                if loops.get(a) != loops[one]:
                    continue
                for b in steps[here[1]].get(character, ()):
                    for c in steps[here[2]].get(character, ()):
                        if loops.get(c) != loops[other]:
                            continue
                        if (a, b, c) == end:
                            return True
                        if (a, b, c) not in seen:
                            seen.add((a, b, c))
                            left.append((a, b, c))
    return False


def _matches(node: Any, character: str, flags: int) -> bool:
    kind, value = node
    if kind is kinds.ANY:
        return bool(flags & re.DOTALL) or character != "\n"
    if kind is kinds.IN:
        is_negated = value[0][0] is kinds.NEGATE
        return any(_matches(each, character, flags) for each in value[is_negated:]) != is_negated
    variants = {character, character.lower(), character.upper()} if flags & re.IGNORECASE else {character}
    if kind is kinds.RANGE:
        return any(len(each) == 1 and value[0] <= ord(each) <= value[1] for each in variants)
    if kind is kinds.CATEGORY:
        return _in_category(value, character)
    return any(len(each) == 1 and ord(each) == value for each in variants) != (kind is kinds.NOT_LITERAL)


def _in_category(category: Any, character: str) -> bool:
    name = str(category)
    is_in = {
        "DIGIT": character.isdecimal(),
        "SPACE": character in _SPACES,
        "WORD": character.isalnum() or character == "_",
    }[name.rpartition("_")[2]]
    return is_in != ("NOT" in name)


def _characters(nodes: Any) -> Iterator[str]:
    """Return each character that a pattern names, and those beside its ranges."""
    for kind, value in nodes:
        if kind in {kinds.LITERAL, kinds.NOT_LITERAL}:
            yield chr(value)
        elif kind is kinds.RANGE:
            yield from (chr(each) for each in (value[0] - 1, *value, value[1] + 1) if 0 <= each < 0x110000)
        elif kind is kinds.IN:
            yield from _characters(value)
    for nested in _nested(nodes):
        yield from _characters(nested)


def _nested(nodes: Any) -> Iterator[Any]:
    for kind, value in nodes:
        if kind is kinds.SUBPATTERN:
            yield value[3]
        elif kind is kinds.BRANCH:
            yield from value[1]
        elif kind in {kinds.MAX_REPEAT, kinds.MIN_REPEAT}:
            yield value[2]
        elif kind in {kinds.ASSERT, kinds.ASSERT_NOT}:
            yield value[1]


def _unbounded(nodes: Any) -> bool:
    return any(kind in {kinds.MAX_REPEAT, kinds.MIN_REPEAT} and value[1] is _UNBOUNDED for kind, value in nodes) or any(
        _unbounded(each) for each in _nested(nodes)
    )


def _within_loop(nodes: Any) -> bool:
    """Whether a pattern looks ahead inside of a repetition."""
    return any(kind in {kinds.MAX_REPEAT, kinds.MIN_REPEAT} and _looks(value[2]) for kind, value in nodes) or any(
        _within_loop(each) for each in _nested(nodes)
    )


def _looks(nodes: Any) -> bool:
    return any(kind in {kinds.ASSERT, kinds.ASSERT_NOT} for kind, _ in nodes) or any(map(_looks, _nested(nodes)))


def _is_anchored(nodes: Any) -> bool:
    return bool(nodes) and nodes[0] in ((kinds.AT, kinds.AT_BEGINNING), (kinds.AT, kinds.AT_BEGINNING_STRING))
