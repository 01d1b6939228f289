"""
Random expressions, reproducible by their seed: mostly well typed, sometimes on purpose not.

Nothing in them depends on the order of a map's keys, which the real environment leaves to chance.
"""

import random
from collections.abc import Sequence
from typing import Final

_DOMAIN: Final = "gpu.example.com"

_LEAVES: Final = {
    "bool": ("true", "false", "device.allowMultipleAllocations"),
    "int": ("0", "1", "-1", "3", "5", "9223372036854775807", "-9223372036854775808", "0x10"),
    "uint": ("0u", "1u", "18446744073709551615u"),
    "double": ("0.0", "1.5", "-2.5", "1e3", "5.0"),
    "string": (
        '""',
        '"a"',
        '"A100"',
        '"1.2.3"',
        '"héllo"',
        "'it''s'".replace("''", "\\'"),
        "device.driver",
        "device.`driver`",
        ".device.driver",
        '"5"',
    ),
    "list": ("[]", "[1, 2, 3]", "[3, 1]", "[0]"),
    "strings": ("[]", '["a", "b"]', '["A100"]', "[device.driver]"),
    "map": ("{}", '{"a": 1}', '{"a": 1, "b": 2}', '{"n": 5}'),
    "quantity": ('quantity("1")', 'quantity("80Gi")', 'quantity("1500m")', 'quantity("-1k")'),
    "semver": ('semver("1.2.3")', 'semver("2.0.0-rc.1")', 'semver("v1.2", true)'),
    "optional": ("optional.of(1)", "optional.none()", "optional.of(5)"),
    "dyn": ("dyn(1)", 'dyn("a")', "dyn(true)", "dyn(null)", "dyn(1.5)", "dyn([1])", "null"),
}

# ruff: noqa: E501 - a table
# Templates of each kind: {kind} is filled with an expression of that kind, {attribute} and {capacity} with a read of
# the device, {v} names a fresh variable that the parts after it may use as the kind in {v:kind}.
_TEMPLATES: Final = {
    "bool": (
        "({bool} && {bool})", "({bool} || {bool})", "!{bool}", "({bool} ? {bool} : {bool})",
        "({int} {order} {int})", "({double} {order} {double})", "({string} {order} {string})", "({int} {order} {double})",
        "({int} == {int})", "({string} == {string})", "({list} == {list})", "({map} == {map})", "({strings} != {strings})",
        "({quantity} == {quantity})", "({semver} == {semver})", "({optional} == {optional})", "({dyn} == {dyn})",
        "({attribute} == {string})", "({attribute} == {int})", "({attribute} == {bool})", "({attribute} {order} {int})",
        "({attribute} != {dyn})", "({dyn} {order} {dyn})", "({attribute} == {semver})", "({attribute} in {strings})",
        "({int} in {list})", "({string} in {strings})", "({string} in {map})", "({dyn} in {list})",
        "{string}.contains({string})", "{string}.startsWith({string})", "{attribute}.endsWith({string})",
        '{string}.matches("{pattern}")', "{attribute}.contains({string})", "has({attribute})", "has({capacity})",
        "{quantity}.isGreaterThan({quantity})", "{quantity}.add({quantity}).sub(3).isGreaterThan({quantity})", "{quantity}.isLessThan({quantity})", "{semver}.isLessThan({semver})",
        "{attribute}.isGreaterThan({semver})", "{capacity}.isGreaterThan({quantity})", "({capacity} == {quantity})",
        "{optional}.hasValue()", "{quantity}.isInteger()", "isQuantity({string})", "isSemver({string})",
        "{list}.all(VAR:int, {bool})", "{list}.exists(VAR:int, {bool})", "{strings}.exists(VAR:string, {bool})",
        "{list}.exists_one(VAR:int, {bool})", "{map}.all(VAR:string, {bool})", "{attribute}.exists(VAR:dyn, {bool})",
        "{list}.exists(i, VAR:int, {bool})", "{map}.all(k, VAR:int, {bool})", "cel.bind(VAR:int, {int}, {bool})",
        "cel.bind(VAR:string, {string}, {bool})", "cel.bind(VAR:dyn, {attribute}, {bool})", "{attribute}.includes({dyn})",
        "device.attributes.exists(VAR:string, {bool})", "sets.contains({list}, {list})", "sets.intersects({strings}, {strings})",
        "sets.equivalent({list}, {list})", "{list}.isSorted()", "{optionalattribute}.hasValue()",
        "{optionalattribute}.orValue({bool})", "({string} in device.attributes)", "bool({dyn})", "{dyn}", "{attribute}",
        "(type({dyn}) == type({dyn}))", "isIP({string})", "isURL({string})", "{attribute}.orValue({dyn})",
        "{list}.includes({int})", "lists.range({int} % 99).includes({int})", "{strings}.exists(device, .device.driver == device)",
        "cel.bind(VAR:optional, {optional}, {bool})",
    ),
    "int": (
        "({int} + {int})", "({int} - {int})", "({int} * {int})", "({int} / {int})", "({int} % {int})", "-{int}",
        "{string}.size()", "size({list})", "{map}.size()", "{strings}.size()", "{list}.sum()", "{list}.max()",
        "int({string})", "int({double})", "int({uint})", "{quantity}.compareTo({quantity})", "{semver}.major()",
        "{string}.indexOf({string})", "{string}.lastIndexOf({string})", "{list}[{int}]", "{map}[{string}]",
        "({bool} ? {int} : {int})", "{optional}.orValue({int})", "{optional}.value()", "{list}.indexOf({int})",
        "{quantity}.asInteger()", "sign({quantity})", "cel.bind(VAR:int, {int}, {int})", "{map}.a", "int({dyn})",
        "{string}.indexOf({string}, {int})", "{string}.lastIndexOf({string}, {int})", "{list}.first().orValue({int})",
    ),
    "uint": ("uint({int})", "({uint} + {uint})", "({uint} - {uint})", "({uint} * {uint})", "uint({double})"),
    "double": (
        "({double} + {double})", "({double} * {double})", "({double} / {double})", "double({int})", "double({string})",
        "-{double}", "{quantity}.asApproximateFloat()",
    ),
    "string": (
        "({string} + {string})", "string({int})", "string({bool})", "string({double})", "{string}.lowerAscii()",
        "{string}.upperAscii()", "{string}.substring({int})", "{string}.substring({int}, {int})", "{string}.charAt({int})",
        "{string}.replace({string}, {string})", "{strings}.join({string})", "{string}.trim()", '{string}.find("{pattern}")',
        "({bool} ? {string} : {string})", "{strings}[{int}]", "string({dyn})", "strings.quote({string})",
        '"%s|%d".format([{dyn}, {int}])', '"%.1f %s".format([{double}, {string}])', '"%s".format([{list}])',
        "{string}.replace({string}, {string}, {int})", "{strings}.max()",
    ),
    "list": (
        "({list} + {list})", "[{int}, {int}]", "{list}.map(VAR:int, {int})", "{list}.filter(VAR:int, {bool})",
        "{list}.map(VAR:int, {bool}, {int})", "{list}.sort()", "{list}.reverse()", "{list}.distinct()",
        "{list}.slice({int}, {int})", "lists.range({int} % 9)", "[?{optional}, {int}]", "[{list}, {list}].flatten()",
        "{list}.transformList(i, VAR:int, {int})", "{list}.sortBy(VAR:int, {int})", "({bool} ? {list} : {list})",
    ),
    "strings": (
        "{string}.split({string})", "[{string}, {string}]", '{string}.findAll("{pattern}")', "({strings} + {strings})",
        "{strings}.map(VAR:string, {string})", "{strings}.filter(VAR:string, {bool})", "{string}.split({string}, {int} % 4)",
        "{strings}.distinct()", "{strings}.sort()",
    ),
    "map": (
        '{{"a": {int}}}', "{{{key}: {int}}}", '{{?"a": {optional}}}', "{map}.transformMap(k, VAR:int, {int})",
        "{list}.transformMapEntry(i, VAR:int, {{string(i): {int}}})", "({bool} ? {map} : {map})",
    ),
    "quantity": (
        "{capacity}", "quantity({string})", "({bool} ? {quantity} : {quantity})",
    ),
    "semver": ("semver({string})", "semver({string}, {bool})", "({bool} ? {semver} : {semver})"),
    "optional": (
        "optional.of({int})", "{map}[?{string}]", "{list}[?{int}]", "{map}.?a", "{optional}.or({optional})",
        "optional.ofNonZeroValue({int})", "{optional}.optMap(VAR:int, {int})",
        "{optional}.optFlatMap(VAR:int, {optional})", "{list}.last()",
    ),
    "dyn": ("{attribute}", "dyn({int})", "dyn({string})", "dyn({list})", "dyn({map})", "dyn({quantity})", "dyn({bool})"),
}  # fmt: skip

_ORDERS: Final = ("<", "<=", ">", ">=")
_PATTERNS: Final = ("a", "^A[0-9]+$", "[a-z]*", "é?", "(a|b)+", "\\\\d", "")
_ATTRIBUTES: Final = ("model", "n", "b", "v", "strings", "ints", "versions", "bools", "zz")
_DOMAINS: Final = (_DOMAIN, _DOMAIN, _DOMAIN, "other.example.com", "zz")


class ExpressionSource:
    """Makes expressions; `depth` bounds how far they nest."""

    def __init__(self, seed: int, depth: int = 4) -> None:
        self._random = random.Random(seed)  # noqa: S311 - tests are to be reproducible, not secret
        self._depth = depth
        self._variables: list[tuple[str, str]] = []

    def expression(self) -> str:
        """Make one that is a selector, or nearly."""
        return self._make("bool", self._depth)

    def _pick(self, items: Sequence[str]) -> str:
        return self._random.choice(items)

    def _make(self, kind: str, depth: int) -> str:
        if self._random.random() < 0.01:  # a type error now and then
            kind = self._pick(tuple(_LEAVES))
        in_sight = [name for name, of in self._variables if of == kind]
        if in_sight and self._random.random() < 0.5:
            return self._pick(in_sight)
        if depth <= 0 or self._random.random() < 0.1:
            return self._pick(_LEAVES[kind])
        return self._filled(self._pick(_TEMPLATES[kind]), depth - 1)

    def _filled(self, template: str, depth: int) -> str:
        """Fill a template from left to right; a variable is in sight to the right of where it is named."""
        known = len(self._variables)
        made = ""
        while template:
            if template.startswith(("{{", "}}")):
                made, template = made + template[0], template[2:]
            elif template.startswith("{"):
                hole, _, template = template[1:].partition("}")
                made += self._hole(hole, depth)
            elif template.startswith("VAR:"):
                kind, _, rest = template.removeprefix("VAR:").partition(",")
                name = f"x{len(self._variables)}"
                made, template = made + name, "," + rest
                # The value of cel.bind() stands between its name and where the name is known.
                if made.startswith("cel.bind("):
                    value, _, template = template[2:].partition(",")
                    made += ", " + self._filled(value, depth) + ","
                self._variables.append((name, kind))
            else:
                made, template = made + template[0], template[1:]
        del self._variables[known:]
        return made

    def _hole(self, hole: str, depth: int) -> str:
        if hole == "key":
            return self._pick(_LEAVES["string"])
        if hole == "order":
            return self._pick(_ORDERS)
        if hole == "pattern":
            return self._pick(_PATTERNS)
        if hole in {"attribute", "optionalattribute"}:
            return self._attribute(is_optional=hole != "attribute")
        if hole == "capacity":
            return f'device.capacity["{self._pick(_DOMAINS)}"].{self._pick(("memory", "memory", "zz"))}'
        return self._make(hole, depth)

    def _attribute(self, *, is_optional: bool) -> str:
        domain, name = self._pick(_DOMAINS), self._pick(_ATTRIBUTES)
        question = "?" if is_optional else ""
        if self._random.random() < 0.1:
            return f"device.attributes.`{domain}`.{question}{name}"
        return f'device.attributes["{domain}"].{question}{name}'
