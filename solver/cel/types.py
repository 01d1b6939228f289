"""Static types and their unification, by cel-go's rules."""

from typing import Final, NamedTuple


class Type(NamedTuple):
    """A type with its parameters; a type variable's name begins with `$`."""

    name: str
    parameters: "tuple[Type, ...]" = ()

    @property
    def is_variable(self) -> bool:
        """Whether it is a type variable."""
        return self.name.startswith("$")

    def __str__(self) -> str:
        """As messages name it: `list(string)`, `map(string, int)`, `Quantity`."""
        name = self.name.removeprefix("kubernetes.").removeprefix("google.protobuf.")
        name = "any" if self.is_variable else name
        if not self.parameters or name == "type":
            return name
        return f"{name}({', '.join(map(str, self.parameters))})"


DYN: Final = Type("dyn")
ERROR: Final = Type("error")
NULL: Final = Type("null_type")
BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
DURATION: Final = Type("google.protobuf.Duration")
TIMESTAMP: Final = Type("google.protobuf.Timestamp")
QUANTITY: Final = Type("kubernetes.Quantity")
SEMVER: Final = Type("kubernetes.Semver")
URL: Final = Type("kubernetes.URL")
IP: Final = Type("net.IP")
CIDR: Final = Type("net.CIDR")
FORMAT: Final = Type("kubernetes.NamedFormat")
DEVICE: Final = Type("kubernetes.DRADevice")
A: Final = Type("$A")
B: Final = Type("$B")


def list_of(item: Type) -> Type:
    """Return the type of a list."""
    return Type("list", (item,))


def map_of(key: Type, item: Type) -> Type:
    """Return the type of a map."""
    return Type("map", (key, item))


def optional_of(item: Type) -> Type:
    """Return the type of an optional."""
    return Type("optional_type", (item,))


def type_of(subject: Type) -> Type:
    """Return the type of a type."""
    return Type("type", (subject,))


NAMED: Final = {
    name: type_of(Type(name))
    for name in (
        "bool", "bytes", "double", "int", "null_type", "string", "uint", "type",
        "google.protobuf.Duration", "google.protobuf.Timestamp", "net.IP", "net.CIDR",
    )
} | {
    "list": type_of(list_of(DYN)),
    "map": type_of(map_of(DYN, DYN)),
    "optional_type": type_of(optional_of(DYN)),
}  # fmt: skip
"""The types that expressions name, as values, by their names."""


_NULLABLE: Final = frozenset(
    {"optional_type", "net.IP", "net.CIDR", *(kind.name for kind in (DURATION, TIMESTAMP, QUANTITY, SEMVER, URL))}
    | {FORMAT.name, DEVICE.name}
)
_WITH_PARAMETERS: Final = frozenset({"list", "map", "optional_type", "function"})


class Mapping(dict[str, Type]):
    """The substitution of type variables by name; a failed attempt can be rolled back to a mark."""

    def __init__(self) -> None:
        super().__init__()
        self._before: list[tuple[str, Type | None]] = []

    def __setitem__(self, name: str, kind: Type) -> None:
        self._before.append((name, self.get(name)))
        super().__setitem__(name, kind)

    @property
    def mark(self) -> int:
        """The current position, for `back_to`."""
        return len(self._before)

    def back_to(self, mark: int) -> None:
        """Roll back to a mark."""
        while len(self._before) > mark:
            name, kind = self._before.pop()
            if kind is None:
                del self[name]
            else:
                super().__setitem__(name, kind)


def is_too_deep(kind: Type) -> bool:
    """Whether a type is nested deeper than the functions on types may recurse."""
    level: tuple[Type, ...] = (kind,)
    for _ in range(_DEEPEST):
        level = tuple(parameter for each in level for parameter in each.parameters)
        if not level:
            return False
    return True


_DEEPEST: Final = 100


def is_dyn_or_error(kind: Type) -> bool:
    """Whether the type is unknown before run time."""
    return kind in {DYN, ERROR}


def is_assignable(mapping: Mapping, left: Type, right: Type) -> bool:
    """Whether two types unify; adds substitutions to `mapping`, also on failure."""
    if right.is_variable:
        valid, known = _is_valid_substitution(mapping, left, right)
        if valid or known:
            return valid
    if left.is_variable:
        return _is_valid_substitution(mapping, right, left)[0]
    if is_dyn_or_error(left) or is_dyn_or_error(right):
        return True
    if NULL in {left, right}:
        other = right if left == NULL else left
        return other == NULL or other.name in _NULLABLE
    if left.name != right.name:
        return False
    if left.name == "type" or left.name not in _WITH_PARAMETERS:
        return True
    return are_assignable(mapping, left.parameters, right.parameters)


def are_assignable(mapping: Mapping, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
    """Whether types unify one by one."""
    return len(left) == len(right) and all(is_assignable(mapping, *pair) for pair in zip(left, right, strict=True))


def _is_valid_substitution(mapping: Mapping, kind: Type, variable: Type) -> tuple[bool, bool]:
    """Whether `variable` can be substituted by `kind`, and whether it had a substitution before."""
    if kind == variable:
        return True, True
    known = mapping.get(variable.name)
    if known is not None:
        if kind == known:
            return True, True
        if not is_assignable(mapping, kind, known):
            return False, True
        general = most_general(kind, known)
        if not _occurs(mapping, variable, general):
            mapping[variable.name] = general
        return True, True
    if _occurs(mapping, variable, kind):
        return False, False
    mapping[variable.name] = kind
    return True, False


def _occurs(mapping: Mapping, variable: Type, within: Type) -> bool:
    if variable == within:
        return True
    if within.is_variable:
        known = mapping.get(within.name)
        return known is not None and _occurs(mapping, variable, known)
    return any(_occurs(mapping, variable, parameter) for parameter in within.parameters)


def most_general(left: Type, right: Type) -> Type:
    """Return the more general of two types that unify."""
    return left if _is_less_specific(left, right) else right


def _is_less_specific(left: Type, right: Type) -> bool:
    if left == DYN or left.is_variable:
        return True
    if right == DYN or right.is_variable or left.name != right.name:
        return False
    if left.name == "type":
        return True
    return len(left.parameters) == len(right.parameters) and all(
        _is_less_specific(*pair) for pair in zip(left.parameters, right.parameters, strict=True)
    )


def substitute(mapping: dict[str, Type], kind: Type, *, unknown_is_dyn: bool = False) -> Type:
    """Substitute variables; with `unknown_is_dyn` a variable without substitution becomes dyn."""
    while kind.is_variable and kind.name in mapping:
        kind = mapping[kind.name]
    if kind.is_variable:
        return DYN if unknown_is_dyn else kind
    if not kind.parameters:
        return kind
    parameters = tuple(substitute(mapping, item, unknown_is_dyn=unknown_is_dyn) for item in kind.parameters)
    return Type(kind.name, parameters)


def unwrap_optional(kind: Type) -> tuple[Type, bool]:
    """Return the type in an optional, and whether it is an optional."""
    return (kind.parameters[0], True) if kind.name == "optional_type" else (kind, False)


_SCALARS: Final = frozenset({BOOL, INT, STRING, SEMVER, DYN})


def is_attribute(kind: Type) -> bool:
    """Whether a value of this type can be a device attribute: a scalar, or a list of scalars."""
    return kind in _SCALARS or (kind.name == "list" and kind.parameters[0] in _SCALARS)
