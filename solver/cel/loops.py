"""Compiling macros: comprehensions, cel.bind, optMap, sortBy. Every step of a loop is charged."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from solver.cel import tree
from solver.cel.errors import EvaluationError
from solver.cel.frame import METER, UNSET, Closure, Compiler, Frame, Lazy, held, not_a_bool
from solver.cel.library.lists import sort_by
from solver.cel.meter import Meter
from solver.cel.tree import Loop
from solver.cel.values import NONE, DomainMap, Optional, Value, keys_of, map_key, type_name

_STEP_COST: Final = 2
_FAILURE_COST: Final = 8


class _Steps:
    """The slots of a loop's variables, and the cost of one step."""

    def __init__(self, compiler: Compiler, node: tree.Comprehension) -> None:
        self.ranged = compiler.compile(node.range)
        self.first = compiler.allocate()
        self.second = compiler.allocate() if node.second else 0
        bodies = tuple(body for body in (node.condition, node.transform) if body is not None)
        self.cost = _STEP_COST + sum(map(_weight, bodies))
        compiler.is_metered = True

    def run(self, frame: Frame) -> Iterator[None]:
        """Set the variables step by step."""
        ranged = self.ranged(frame)
        meter: Meter = frame[METER]
        for first, second in self._pairs(ranged):
            meter.charge(self.cost)
            frame[self.first] = first
            if self.second:
                frame[self.second] = second
            yield

    def _pairs(self, ranged: Value) -> Iterator[tuple[Value, Value]]:
        """Return index and item, or key and value; of one variable only the first of the pair is used."""
        if type(ranged) is list:
            return iter(enumerate(ranged)) if self.second else ((item, None) for item in ranged)
        if type(ranged) is dict or type(ranged) is DomainMap:
            return zip(keys_of(ranged), list(ranged.values()), strict=True)
        raise EvaluationError("a {} cannot be gone through: only lists and maps can", type_name(ranged))


def _weight(node: tree.AstNode) -> int:
    """Count the nodes of a loop's body without the bodies of inner loops, which are charged by these."""
    weight, waiting = 0, [node]
    while waiting:
        current = waiting.pop()
        weight += 1
        waiting += [current.range] if isinstance(current, tree.Comprehension) else current.children()
    return weight


def compile_comprehension(compiler: Compiler, node: tree.Comprehension) -> Closure:
    """Compile a macro over a list or map."""
    steps = _Steps(compiler, node)
    depth = len(compiler.scope)
    compiler.scope.append((node.first, steps.first))
    if node.second:
        compiler.scope.append((node.second, steps.second))
    condition = compiler.compile(node.condition) if node.condition is not None else None
    transform = compiler.compile(node.transform) if node.transform is not None else None
    del compiler.scope[depth:]
    return _MAKERS[node.loop](steps, condition, transform)


def _quantifier(steps: _Steps, condition: Closure | None, _transform: Closure | None, *, is_all: bool) -> Closure:
    """all() and exists() absorb failures as && and || do."""
    assert condition is not None  # noqa: S101 - the macro's shape
    decisive = not is_all

    def decide(frame: Frame) -> bool:
        failure: EvaluationError | None = None
        for _ in steps.run(frame):
            try:
                value = condition(frame)
            except EvaluationError as error:
                failure = failure or error
                frame[METER].charge(_FAILURE_COST)
                continue
            if value is decisive:
                return not is_all
            if value is not is_all:
                failure = failure or not_a_bool(value)
        if failure is not None:
            raise failure
        return is_all

    return decide


def _holds(condition: Closure | None, frame: Frame) -> bool:
    """Evaluate a filter; without one every step counts."""
    if condition is None:
        return True
    value = condition(frame)
    if value is not True and value is not False:
        raise not_a_bool(value)
    return bool(value)


def _exists_one(steps: _Steps, condition: Closure | None, _transform: Closure | None) -> Closure:
    return lambda frame: sum(_holds(condition, frame) for _ in steps.run(frame)) == 1


def _collect(steps: _Steps, condition: Closure | None, transform: Closure | None) -> Closure:
    """map(), filter() and transformList(): the list of transformed items that pass the filter."""
    first = steps.first

    def collect(frame: Frame) -> list[Value]:
        return [
            frame[first] if transform is None else transform(frame)
            for _ in steps.run(frame)
            if _holds(condition, frame)
        ]

    return collect


def _transform_map(steps: _Steps, condition: Closure | None, transform: Closure | None) -> Closure:
    assert transform is not None  # noqa: S101 - the macro's shape

    def collect(frame: Frame) -> dict[Value, Value]:
        return {map_key(frame[steps.first]): transform(frame) for _ in steps.run(frame) if _holds(condition, frame)}

    return collect


def _transform_map_entry(steps: _Steps, condition: Closure | None, transform: Closure | None) -> Closure:
    assert transform is not None  # noqa: S101 - the macro's shape

    def collect(frame: Frame) -> dict[Value, Value]:
        made: dict[Value, Value] = {}
        for _ in steps.run(frame):
            if not _holds(condition, frame):
                continue
            entries = transform(frame)
            if type(entries) is not dict and type(entries) is not DomainMap:
                raise EvaluationError("transformMapEntry() collects maps and not a {}", type_name(entries))
            frame[METER].charge(len(entries))
            for key, value in entries.items():
                if key in made:
                    raise EvaluationError("the key {!r} would be in the map twice", key)
                made[key] = value
        return made

    return collect


_Maker = Callable[[_Steps, Closure | None, Closure | None], Closure]
_MAKERS: Final[dict[Loop, _Maker]] = {
    Loop.ALL: partial(_quantifier, is_all=True),
    Loop.EXISTS: partial(_quantifier, is_all=False),
    Loop.EXISTS_ONE: _exists_one,
    Loop.MAP: _collect,
    Loop.FILTER: _collect,
    Loop.TRANSFORM_LIST: _collect,
    Loop.TRANSFORM_MAP: _transform_map,
    Loop.TRANSFORM_MAP_ENTRY: _transform_map_entry,
}


def compile_bind(compiler: Compiler, node: tree.Bind) -> Closure:
    """
    Compile cel.bind().

    The value is evaluated at its first use, and once; a failure is kept too, so that nested bindings cannot double the
    work. A variable for the map of one domain is resolved at compile time: an access through it stays one read.
    """
    domain = compiler.domain_of(node.value)
    if domain is not None and not domain.is_optional:
        return compiler.in_scope(node.name, domain, node.result)
    value, slot = compiler.compile(node.value), compiler.allocate()
    result = compiler.in_scope(node.name, Lazy(slot, value), node.result)

    def run(frame: Frame) -> Value:
        frame[slot] = UNSET
        return result(frame)

    return run


def compile_optional_map(compiler: Compiler, node: tree.OptionalMap) -> Closure:
    """Compile optMap() and optFlatMap()."""
    target, slot = compiler.compile(node.target), compiler.allocate()
    result = compiler.in_scope(node.name, slot, node.result)
    is_flat = node.is_flat

    def run(frame: Frame) -> Value:
        optional = held(target(frame))
        if not optional.has_value:
            return NONE
        frame[slot] = optional.value
        made = result(frame)
        return made if is_flat else Optional(made)

    return run


def compile_sort_by(compiler: Compiler, node: tree.SortBy) -> Closure:
    """Compile sortBy()."""
    target, slot = compiler.compile(node.target), compiler.allocate()
    key = compiler.in_scope(node.name, slot, node.key)
    cost = _STEP_COST + _weight(node.key)
    compiler.is_metered = True

    def run(frame: Frame) -> Value:
        items = target(frame)
        if type(items) is not list:
            raise EvaluationError("sortBy() sorts a list and not a {}", type_name(items))
        meter: Meter = frame[METER]
        keys: list[Value] = []
        for item in items:
            meter.charge(cost)
            frame[slot] = item
            keys.append(key(frame))
        return sort_by(meter, items, keys)

    return run
