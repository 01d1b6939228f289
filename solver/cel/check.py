"""
The type checker: resolves names, chooses overloads, and requires a result of type bool or dyn.

The rules are cel-go's (unification with dyn; several overloads if a dyn argument fits them), so that an expression that
the API server accepts is accepted here. The messages are in `checker_hints`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from solver.cel import checker_hints, tree, types
from solver.cel.errors import ExpressionError
from solver.cel.library import FUNCTIONS, string_format
from solver.cel.library.overloads import Overload
from solver.cel.tree import Loop
from solver.cel.types import Type
from solver.cel.values import TypeValue

_ATTRIBUTES: Final = types.map_of(types.STRING, types.map_of(types.STRING, types.DYN))
_CAPACITY: Final = types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY))

DEVICE_FIELDS: Final = {
    "driver": types.STRING,
    "allowMultipleAllocations": types.BOOL,
    "attributes": _ATTRIBUTES,
    "capacity": _CAPACITY,
}
"""The fields of the one variable, `device`."""


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """
    The results of the checker, by node.

    `overloads`: the possible overloads of a call. `functions`: the function name of `a.b(c)` if `a.b` is one.
    `constants`: identifiers that name types.
    """

    root: tree.AstNode
    types: dict[tree.AstNode, Type]
    overloads: dict[tree.AstNode, tuple[Overload, ...]]
    functions: dict[tree.AstNode, str]
    constants: dict[tree.AstNode, TypeValue]


def check(root: tree.AstNode, *, is_attribute: bool = False) -> Checked:
    """Check an expression that selects, or that gives an attribute; ExpressionError describes the first error."""
    checker = _Checker(root)
    found = checker.check(root)
    checker.finish()
    result = checker.resolved(found)
    if is_attribute and not types.is_attribute(result):
        wanted = "a derived attribute is a string, int, bool, semver or a list of them"
        raise ExpressionError(f"{wanted}, and this is {checker_hints.a(result)}", root.position)
    if not is_attribute and result not in {types.BOOL, types.DYN}:
        wanted = f"a selector is true or false, and this expression is {checker_hints.a(result)}"
        raise ExpressionError(wanted + checker_hints.for_result(root, result), root.position)
    return checker.found


class _Checker:
    def __init__(self, root: tree.AstNode) -> None:
        self.found = Checked(root, {}, {}, {}, {})
        self.mapping = types.Mapping()
        self.scopes: list[dict[str, Type]] = []
        self.literals: list[tree.ListLiteral | tree.MapLiteral] = []
        self.variables = 0
        self.in_format = 0

    def check(self, node: tree.AstNode) -> Type:
        """Find the types of a subtree."""
        kind = _RULES[type(node)](self, node)
        if kind.parameters and types.is_too_deep(kind):
            raise ExpressionError("the value is nested too deep: nest fewer lists, maps and optionals", node.position)
        self.found.types[node] = kind
        return kind

    def finish(self) -> None:
        """Check what depends on the substitution of all type variables."""
        for node, kind in self.found.types.items():
            self.found.types[node] = self.resolved(kind)
        for literal in self.literals:
            self._check_homogeneous(literal)
        for node in self.found.types:
            string_format.check_format(node, self.found.types)

    def resolved(self, kind: Type) -> Type:
        """Substitute the type variables of a type."""
        return types.substitute(self.mapping, kind, unknown_is_dyn=True)

    def _known(self, kind: Type) -> Type:
        return types.substitute(self.mapping, kind)

    def _fresh(self) -> Type:
        self.variables += 1
        return Type(f"${self.variables}")

    def _assignable(self, left: Type, right: Type) -> bool:
        mark = self.mapping.mark
        if types.is_assignable(self.mapping, left, right):
            return True
        self.mapping.back_to(mark)
        return False

    def _expect_bool(self, node: tree.AstNode, what: str) -> None:
        kind = self.check(node)
        if not self._assignable(types.BOOL, kind):
            raise ExpressionError(
                f"{what} must be true or false, and this is {checker_hints.a(self.resolved(kind))}"
                + checker_hints.for_result(node, self.resolved(kind)),
                node.position,
            )

    def _literal(self, node: tree.Literal) -> Type:
        return _LITERALS[type(node.value).__name__]

    def _ident(self, node: tree.Ident) -> Type:
        kind = self._named(node, node.name)
        if kind is None:
            hint = checker_hints.for_name(node.name.removeprefix("."))
            raise ExpressionError(f"{node.name} is not known{hint}", node.position)
        return kind

    def _named(self, node: tree.AstNode, name: str) -> Type | None:
        """Resolve `a` or `a.b.c`. A macro's variable a hides both; `.a` is never one, and then names no type either."""
        plain = name.removeprefix(".")
        first = plain.partition(".")[0]
        local = next((scope[first] for scope in reversed(self.scopes) if first in scope), None)
        if local is not None and name == plain:
            return local if name == first else None
        if plain in types.NAMED and local is None:
            self.found.constants[node] = TypeValue(plain)
            return types.NAMED[plain]
        return types.DEVICE if plain == "device" else None

    def _select(self, node: tree.Select) -> Type:
        qualified = None if node.is_test or node.is_optional else tree.qualified_name(node)
        named = self._named(node, qualified) if qualified is not None else None
        if named is not None:
            return named
        operand, was_optional = types.unwrap_optional(self._known(self.check(node.operand)))
        field = self._field(node, operand)
        if node.is_test:
            return types.BOOL
        return types.optional_of(field) if was_optional or node.is_optional else field

    def _field(self, node: tree.Select, operand: Type) -> Type:
        if operand.name == "map":
            return operand.parameters[1]
        if operand == types.DEVICE:
            if node.field not in DEVICE_FIELDS:
                raise ExpressionError(checker_hints.for_device_field(node.field), node.position)
            return DEVICE_FIELDS[node.field]
        if operand.is_variable:
            self._assignable(types.DYN, operand)
            return types.DYN
        if not types.is_dyn_or_error(operand):
            raise ExpressionError(checker_hints.for_field(node.field, operand), node.position)
        return types.DYN

    def _index(self, node: tree.Index) -> Type:
        arguments = (self.check(node.operand), self.check(node.key))
        return self._resolve(node, "_[?_]" if node.is_optional else "_[_]", arguments, is_method=False)

    def _call(self, node: tree.Call) -> Type:
        is_format = node.function == "format" and node.target is not None
        self.in_format += is_format
        arguments = tuple(self.check(argument) for argument in node.arguments)
        if node.target is None:
            kind = self._resolve(node, node.function.removeprefix("."), arguments, is_method=False)
        else:
            kind = self._method(node, node.target, arguments)
        self.in_format -= is_format
        return kind

    def _method(self, node: tree.Call, target: tree.AstNode, arguments: tuple[Type, ...]) -> Type:
        prefix = tree.qualified_name(target)
        name = f"{prefix}.{node.function}".removeprefix(".")
        if prefix is not None and name in FUNCTIONS:
            self.found.functions[node] = name
            return self._resolve(node, name, arguments, is_method=False)
        return self._resolve(node, node.function, (self.check(target), *arguments), is_method=True)

    def _resolve(self, node: tree.AstNode, name: str, arguments: tuple[Type, ...], *, is_method: bool) -> Type:
        """Choose the overloads that take these arguments; the result is dyn if their results differ."""
        if name not in FUNCTIONS:
            raise ExpressionError(checker_hints.for_function(name, tuple(map(self.resolved, arguments))), node.position)
        chosen: list[Overload] = []
        result: Type | None = None
        for overload in FUNCTIONS[name]:
            if overload.is_member is not is_method:
                continue
            parameters, returned = self._instantiate(overload)
            mark = self.mapping.mark
            if not types.are_assignable(self.mapping, arguments, parameters):
                self.mapping.back_to(mark)
                continue
            chosen.append(overload)
            returned = self._known(returned)
            if result is None:
                result = returned
            elif result not in {types.DYN, returned}:
                result = types.DYN
        if result is None:
            resolved = tuple(map(self.resolved, arguments))
            raise ExpressionError(checker_hints.for_overload(name, resolved, is_method=is_method), node.position)
        self.found.overloads[node] = tuple(chosen)
        return result

    def _instantiate(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """Return an overload's types with fresh type variables."""
        fresh = {name: self._fresh() for name in ("$A", "$B")}
        return (
            tuple(types.substitute(fresh, parameter) for parameter in overload.parameters),
            types.substitute(fresh, overload.result),
        )

    def _logic(self, node: tree.Logic) -> Type:
        for term in node.terms:
            self._expect_bool(term, "a side of && and ||")
        return types.BOOL

    def _conditional(self, node: tree.Conditional) -> Type:
        arguments = tuple(self.check(child) for child in node.children())
        return self._resolve(node, "_?_:_", arguments, is_method=False)

    def _list(self, node: tree.ListLiteral) -> Type:
        item: Type | None = None
        for value, is_optional in node.items:
            item = self._join(item, self._item_type(value, self.check(value), is_optional=is_optional))
        if not self.in_format:
            self.literals.append(node)
        return types.list_of(item if item is not None else self._fresh())

    def _map(self, node: tree.MapLiteral) -> Type:
        key_type: Type | None = None
        value_type: Type | None = None
        for key, value, is_optional in node.entries:
            kind = self._known(self.check(key))
            if kind.name in {"list", "map"}:
                raise ExpressionError(f"{checker_hints.a(kind)} cannot be the key of a map", key.position)
            key_type = self._join(key_type, kind)
            value_type = self._join(value_type, self._item_type(value, self.check(value), is_optional=is_optional))
        if not self.in_format:
            self.literals.append(node)
        if key_type is None or value_type is None:
            return types.map_of(self._fresh(), self._fresh())
        return types.map_of(key_type, value_type)

    def _item_type(self, node: tree.AstNode, kind: Type, *, is_optional: bool) -> Type:
        if not is_optional:
            return kind
        inner, was_optional = types.unwrap_optional(self._known(kind))
        if not was_optional:
            raise ExpressionError(
                f"after ? stands an optional, and this is {checker_hints.a(self.resolved(kind))}: "
                "leave the ? out, or write optional.of(…)",
                node.position,
            )
        return inner

    def _join(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        return types.most_general(previous, current) if self._assignable(previous, current) else types.DYN

    def _check_homogeneous(self, literal: tree.ListLiteral | tree.MapLiteral) -> None:
        """All items of a literal have one type, except inside of format()."""
        if isinstance(literal, tree.ListLiteral):
            columns = [[(item.value, item.is_optional) for item in literal.items]]
        else:
            columns = [
                [(entry.key, False) for entry in literal.entries],
                [(entry.value, entry.is_optional) for entry in literal.entries],
            ]
        for column in columns:
            kinds = [(node, self._literal_item(node, is_optional=optional)) for node, optional in column]
            for node, kind in kinds[1:]:
                if kind != kinds[0][1]:
                    raise ExpressionError(
                        f"all items of a literal have one type: {checker_hints.a(kinds[0][1])} comes first, "
                        f"and this is {checker_hints.a(kind)}",
                        node.position,
                    )

    def _literal_item(self, node: tree.AstNode, *, is_optional: bool) -> Type:
        kind = self.found.types[node]
        return types.unwrap_optional(kind)[0] if is_optional else kind

    def _comprehension(self, node: tree.Comprehension) -> Type:
        ranged = self._known(self.check(node.range))
        first, second = self._loop_variables(node, ranged)
        self.scopes.append({node.first: first} | ({node.second: second} if node.second else {}))
        if node.condition is not None:
            self._expect_bool(node.condition, f"the condition of {node.loop.value}()")
        made = self.check(node.transform) if node.transform is not None else first
        self.scopes.pop()
        return self._loop_result(node, first, made)

    def _loop_variables(self, node: tree.Comprehension, ranged: Type) -> tuple[Type, Type]:
        if ranged.name == "list":
            item = ranged.parameters[0]
            return (types.INT, item) if node.second else (item, types.DYN)
        if ranged.name == "map":
            return ranged.parameters[0], ranged.parameters[1]
        if ranged.is_variable:
            self._assignable(types.DYN, ranged)
        elif not types.is_dyn_or_error(ranged):
            raise ExpressionError(
                f"{node.loop.value}() goes through a list or map, and this is {checker_hints.a(ranged)}",
                node.range.position,
            )
        return types.DYN, types.DYN

    def _loop_result(self, node: tree.Comprehension, first: Type, made: Type) -> Type:
        match node.loop:
            case Loop.ALL | Loop.EXISTS | Loop.EXISTS_ONE:
                return types.BOOL
            case Loop.MAP | Loop.FILTER | Loop.TRANSFORM_LIST:
                return types.list_of(made)
            case Loop.TRANSFORM_MAP:
                return types.map_of(first, made)
            case Loop.TRANSFORM_MAP_ENTRY:
                result = types.map_of(self._fresh(), self._fresh())
                if not self._assignable(result, made):
                    raise ExpressionError(
                        "transformMapEntry() collects maps, as in {key: value}, and this is "
                        + checker_hints.a(self.resolved(made)),
                        node.position,
                    )
                return self._known(result)

    def _bind(self, node: tree.Bind) -> Type:
        value = self.check(node.value)
        self.scopes.append({node.name: value})
        result = self.check(node.result)
        self.scopes.pop()
        return result

    def _optional_map(self, node: tree.OptionalMap) -> Type:
        name = "optFlatMap" if node.is_flat else "optMap"
        inner, was_optional = types.unwrap_optional(self._known(self.check(node.target)))
        if not was_optional and not types.is_dyn_or_error(inner):
            raise ExpressionError(checker_hints.for_overload(name, (inner,), is_method=True), node.position)
        self.scopes.append({node.name: inner})
        result = self.check(node.result)
        self.scopes.pop()
        if not node.is_flat:
            return types.optional_of(result)
        flat = types.optional_of(self._fresh())
        if not self._assignable(flat, result):
            raise ExpressionError(
                f"optFlatMap() gives an optional, and this is {checker_hints.a(self.resolved(result))}: write optMap()",
                node.result.position,
            )
        return self._known(result)

    def _sort_by(self, node: tree.SortBy) -> Type:
        target = self._known(self.check(node.target))
        if target.name != "list" and not types.is_dyn_or_error(target):
            raise ExpressionError(f"sortBy() sorts a list, and this is {checker_hints.a(target)}", node.position)
        item = target.parameters[0] if target.name == "list" else types.DYN
        self.scopes.append({node.name: item})
        key = self.check(node.key)
        self.scopes.pop()
        self._resolve(node, "sort", (types.list_of(key),), is_method=True)
        return target if target.name == "list" else types.list_of(types.DYN)


_LITERALS: Final = {
    "bool": types.BOOL,
    "int": types.INT,
    "UInt": types.UINT,
    "float": types.DOUBLE,
    "str": types.STRING,
    "bytes": types.BYTES,
    "NoneType": types.NULL,
}

_RULES: Final[dict[type[tree.AstNode], Callable[[_Checker, Any], Type]]] = {
    tree.Literal: _Checker._literal,  # noqa: SLF001 - the checker's own table
    tree.Ident: _Checker._ident,  # noqa: SLF001 - the same
    tree.Select: _Checker._select,  # noqa: SLF001 - the same
    tree.Index: _Checker._index,  # noqa: SLF001 - the same
    tree.Call: _Checker._call,  # noqa: SLF001 - the same
    tree.Logic: _Checker._logic,  # noqa: SLF001 - the same
    tree.Conditional: _Checker._conditional,  # noqa: SLF001 - the same
    tree.ListLiteral: _Checker._list,  # noqa: SLF001 - the same
    tree.MapLiteral: _Checker._map,  # noqa: SLF001 - the same
    tree.Comprehension: _Checker._comprehension,  # noqa: SLF001 - the same
    tree.Bind: _Checker._bind,  # noqa: SLF001 - the same
    tree.OptionalMap: _Checker._optional_map,  # noqa: SLF001 - the same
    tree.SortBy: _Checker._sort_by,  # noqa: SLF001 - the same
}
