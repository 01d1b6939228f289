"""
The compiler: a checked tree becomes closures, one per node, each a function of the evaluation's frame.

Failures are exceptions. `&&`, `||`, all() and exists() absorb them in either order, as CEL demands.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from solver.cel import calls, field_access, loops, tree
from solver.cel.check import Checked, check
from solver.cel.errors import EvaluationError, ExpressionError, Position, shortened
from solver.cel.frame import Closure, Compiler, Frame, Rules, constant, held, not_a_bool, with_room
from solver.cel.parse import parse
from solver.cel.reads import Reads
from solver.cel.values import Value, map_key


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """
    A compiled expression; `run` takes a frame of `size` slots.

    The first four slots are the meter, the device's maps, its driver and allowMultipleAllocations. `reads` has the
    slots of the values that the expression reads; the others are its variables. A program that is not metered needs
    no meter. `nodes` is the minimal cost of an evaluation, `bytes` the estimated size of the program.
    """

    run: Closure
    reads: Reads
    size: int
    is_metered: bool
    nodes: int
    bytes: int


def compile_expression(text: str) -> Program:
    """Compile an expression that selects devices; every failure is an ExpressionError."""
    return _guarded(lambda: parse(text), lambda root: compile_tree(check(root)))


def compile_value(text: str) -> Program:
    """Compile an expression that derives an attribute of a device; every failure is an ExpressionError."""
    return _guarded(lambda: parse(text), lambda root: compile_tree(check(root, is_attribute=True)))


def compile_part(root: tree.AstNode) -> Program:
    """Compile a subtree of a parsed expression; every failure is an ExpressionError."""
    return _guarded(lambda: root, lambda node: compile_tree(check(node)))


def _guarded(parsed: Callable[[], tree.AstNode], compiled: Callable[[tree.AstNode], Program]) -> Program:
    """Parse and compile; an internal error becomes an ExpressionError too, so that it affects no other expression."""
    position = Position(1, 1)
    try:
        root = parsed()
        position = root.position
        return with_room(lambda: compiled(root))
    except (ExpressionError, MemoryError):
        raise
    except RecursionError:
        raise ExpressionError("the expression is nested too deep: split it, or nest it less", position) from None
    except Exception as error:
        detail = shortened(f"{type(error).__name__}: {error}")
        raise ExpressionError(f"the expression cannot be compiled: internal error: {detail}", position) from error


def compile_tree(checked: Checked) -> Program:
    """Compile a checked expression; ExpressionError for constants that cannot be evaluated, such as int("x")."""
    compiler = Compiler(checked, _RULES)
    run = compiler.compile(checked.root)
    nodes = len(checked.types)
    size = nodes * _BYTES_OF_NODE + compiler.constants_bytes
    return Program(run, compiler.reads, compiler.size, compiler.is_metered, nodes, size)


_BYTES_OF_NODE: Final = 500


def _literal(compiler: Compiler, node: tree.Literal) -> Closure:
    compiler.known[node] = node.value
    return constant(node.value)


def _conditional(compiler: Compiler, node: tree.Conditional) -> Closure:
    condition, positive, negative = (compiler.compile(child) for child in node.children())

    def choose(frame: Frame) -> Value:
        decision = condition(frame)
        if decision is True:
            return positive(frame)
        if decision is False:
            return negative(frame)
        raise not_a_bool(decision)

    return choose


def _logic(compiler: Compiler, node: tree.Logic) -> Closure:
    """`&&` stops at the first false and `||` at the first true, whatever failed before."""
    terms = tuple(compiler.compile(term) for term in node.terms)
    decisive = not node.is_and

    def decide(frame: Frame) -> bool:
        failure: EvaluationError | None = None
        for term in terms:
            try:
                value = term(frame)
            except EvaluationError as error:
                failure = failure or error
                continue
            if value is decisive:
                return not node.is_and
            if value is True or value is False:
                continue
            failure = failure or not_a_bool(value)
        if failure is not None:
            raise failure
        return not decisive

    return decide


def _list(compiler: Compiler, node: tree.ListLiteral) -> Closure:
    items = tuple((compiler.compile(value), is_optional) for value, is_optional in node.items)
    if all(item.value in compiler.known and not item.is_optional for item in node.items):
        compiler.known[node] = [compiler.known[item.value] for item in node.items]
        return constant(compiler.known[node])
    if not any(is_optional for _, is_optional in items):
        plain = tuple(item for item, _ in items)
        return lambda frame: [item(frame) for item in plain]

    def make(frame: Frame) -> list[Value]:
        made: list[Value] = []
        for item, is_optional in items:
            value = item(frame)
            if not is_optional:
                made.append(value)
            elif held(value).has_value:
                made.append(value.value)
        return made

    return make


def _map(compiler: Compiler, node: tree.MapLiteral) -> Closure:
    entries = tuple((compiler.compile(key), compiler.compile(value), optional) for key, value, optional in node.entries)

    def make(frame: Frame) -> dict[Value, Value]:
        made: dict[Value, Value] = {}
        for key, item, is_optional in entries:
            name, value = map_key(key(frame)), item(frame)
            if not is_optional:
                made[name] = value
            elif held(value).has_value:
                made[name] = value.value
            else:
                made.pop(name, None)
        return made

    if all(child in compiler.known for child in node.children()) and not any(optional for _, _, optional in entries):
        compiler.known[node] = make([])
        return constant(compiler.known[node])
    return make


_RULES: Final[Rules] = {
    tree.Literal: _literal,
    tree.Ident: field_access.compile_ident,
    tree.Select: field_access.compile_select,
    tree.Index: field_access.compile_index,
    tree.Call: calls.compile_call,
    tree.Logic: _logic,
    tree.Conditional: _conditional,
    tree.ListLiteral: _list,
    tree.MapLiteral: _map,
    tree.Comprehension: loops.compile_comprehension,
    tree.Bind: loops.compile_bind,
    tree.OptionalMap: loops.compile_optional_map,
    tree.SortBy: loops.compile_sort_by,
}
