"""
Compiling identifiers, fields and indexes, by the rules of cel-go's attributes.

An attribute or capacity of the device with constant names becomes one slot of the frame; every other access reads the
device's maps at run time.
"""

from itertools import islice
from typing import Final, NamedTuple

from solver.cel import tree
from solver.cel.errors import EvaluationError, ExpressionError
from solver.cel.frame import ALLOW_MULTIPLE, DEVICE, DRIVER, UNSET, Closure, Compiler, DeviceMaps, Frame, Lazy
from solver.cel.reads import ABSENT, TYPE_SUFFIXES, Domain, Read, Unreadable, device_field
from solver.cel.values import NONE, DomainMap, Optional, UInt, Value, keys_of, map_key, type_name

_MISSING: Final = object()
"""The result of `_find` for a missing key."""

_SOME_KEYS: Final = 5
_LONGEST_KEY: Final = 16


def _find(container: Value, key: Value) -> Value:
    """Look up a key or index; return `_MISSING` if it is missing, raise EvaluationError for an index without number."""
    kind = type(container)
    if kind is dict:
        try:
            return container.get(key if type(key) is str else map_key(key), _MISSING)
        except EvaluationError:
            return _MISSING
    if kind is DomainMap:
        return container.get(key, {}) if type(key) is str else {}
    if kind is list:
        at = _index(key)
        return container[at] if 0 <= at < len(container) else _MISSING
    return _MISSING


def _index(key: Value) -> int:
    if type(key) is int or type(key) is UInt:
        return int(key)
    if type(key) is float and key.is_integer():
        return int(key)
    raise EvaluationError("a {} is not an index of a list", type_name(key))


def _get(container: Value, key: Value) -> Value:
    """Look up a key or index that must exist; the result for an optional container is an optional."""
    if type(container) is Optional:
        return _get_optional(container, key)
    value = _find(container, key)
    if value is _MISSING:
        raise _missing(container, key)
    return value


def _get_optional(container: Value, key: Value) -> Optional:
    """Look up a key or index that may be missing."""
    if type(container) is Optional:
        if not container.has_value:
            return NONE
        container = container.value
    value = _find(container, key)
    return NONE if value is _MISSING else Optional(value)


def _is_present(container: Value, key: Value) -> bool:
    """Decide `has(container.key)`."""
    if type(container) is Optional:
        return container.has_value and _find(container.value, key) is not _MISSING
    return _find(container, key) is not _MISSING


def _missing(container: Value, key: Value) -> EvaluationError:
    if type(container) is list:
        return EvaluationError("index {} is out of range: the list has {} items", key, len(container))
    if type(container) is dict:
        some = ", ".join(sorted(str(key)[:_LONGEST_KEY] for key in islice(keys_of(container), _SOME_KEYS)))
        return EvaluationError("no such key: {!r}; there are {}: {}", key, len(container), some)
    if key in TYPE_SUFFIXES:
        return EvaluationError(
            "a {} has no field {}: a value is used bare, without .{}", type_name(container), key, key
        )
    return EvaluationError("a {} has no field {}", type_name(container), key)


_KEYS: Final = frozenset({str, int, UInt, float, bool})


def compile_ident(compiler: Compiler, node: tree.Ident) -> Closure:
    """Compile a variable, or `device` itself."""
    meaning = compiler.meaning(node.name)
    if isinstance(meaning, int):
        return lambda frame: frame[meaning]
    if isinstance(meaning, Lazy):
        return _lazy(meaning)
    compiler.reads.reads_maps = True
    if meaning is None:
        return lambda frame: frame[DEVICE].whole()
    return _domain_map(meaning)


class _Failed(NamedTuple):
    """A cel.bind() variable whose evaluation failed."""

    error: EvaluationError


def _lazy(variable: Lazy) -> Closure:
    slot, make = variable

    def give(frame: Frame) -> Value:
        value = frame[slot]
        if type(value) is _Failed:
            raise value.error.with_traceback(None)
        if value is not UNSET:
            return value
        try:
            value = frame[slot] = make(frame)
        except EvaluationError as error:
            frame[slot] = _Failed(error)
            raise
        return value

    return give


def _domain_map(domain: Domain) -> Closure:
    """Make a closure for the map of one domain."""
    name = domain.name
    whole = DeviceMaps.capacity if domain.is_capacity else DeviceMaps.attributes
    if domain.is_optional:
        return lambda frame: Optional(whole(frame[DEVICE]).get(name or frame[DRIVER], {}))
    return lambda frame: whole(frame[DEVICE]).get(name or frame[DRIVER], {})


def compile_select(compiler: Compiler, node: tree.Select) -> Closure:
    """Compile `x.y`, `x.?y` or `has(x.y)`."""
    domain = compiler.domain_of(node.operand)
    if domain is not None:
        return _read(compiler, domain, node.field, is_optional=node.is_optional, is_test=node.is_test)
    own = compiler.domain_of(node)
    if own is not None:
        compiler.reads.reads_maps = True
        return _domain_map(own)
    field = device_field(node) if compiler.meaning("device") is None else None
    if field is not None:
        return _device_field(compiler, field)
    operand, name = compiler.compile(node.operand), node.field
    if node.is_test:
        return lambda frame: _is_present(operand(frame), name)
    if node.is_optional:
        return lambda frame: _get_optional(operand(frame), name)
    return lambda frame: _get(operand(frame), name)


def _device_field(compiler: Compiler, name: str) -> Closure:
    if name == "driver":
        compiler.reads.reads_driver = True
        return lambda frame: frame[DRIVER]
    if name == "allowMultipleAllocations":
        compiler.reads.reads_allow_multiple = True
        return lambda frame: frame[ALLOW_MULTIPLE]
    compiler.reads.reads_maps = True
    if name == "attributes":
        return lambda frame: frame[DEVICE].attributes()
    return lambda frame: frame[DEVICE].capacity()


def _read(compiler: Compiler, domain: Domain, name: str, *, is_optional: bool, is_test: bool) -> Closure:
    """Make a closure for one attribute or capacity."""
    read = Read(domain.is_capacity, domain.name, name)
    slot = compiler.slot_of(read)
    if is_test:
        return lambda frame: frame[slot] is not ABSENT
    if is_optional or domain.is_optional:
        return lambda frame: NONE if frame[slot] is ABSENT else Optional(readable(frame[slot], read))

    def give(frame: Frame) -> Value:
        value = frame[slot]
        return readable(value, read) if type(value) is Unreadable else value

    return give


def readable(value: Value, read: Read) -> Value:
    """Return the value, or raise EvaluationError with the reason why there is none."""
    if type(value) is not Unreadable:
        return value
    if value is not ABSENT:
        raise EvaluationError("{}: {}", read, value.reason)
    if read.name in TYPE_SUFFIXES and "." not in read.domain:
        raise EvaluationError(
            "the device publishes no {0}: a value is used bare, without .{1}, and its domain stands in the brackets, "
            'as in device.attributes["gpu.example.com"].{2}',
            read,
            read.name,
            read.domain,
        )
    raise EvaluationError("the device publishes no {}", read)


def compile_index(compiler: Compiler, node: tree.Index) -> Closure:
    """Compile `x[y]` or `x[?y]`."""
    key_node = node.key
    domain = compiler.domain_of(node.operand)
    if domain is not None and isinstance(key_node, tree.Literal) and isinstance(key_node.value, str):
        return _read(compiler, domain, key_node.value, is_optional=node.is_optional, is_test=False)
    own = compiler.domain_of(node)
    if own is not None:
        compiler.reads.reads_maps = True
        compiler.reads.reads_driver |= not own.name
        return _domain_map(own)
    operand, key = compiler.compile(node.operand), compiler.compile(key_node)
    if key_node in compiler.known and type(compiler.known[key_node]) not in _KEYS:
        kind = type_name(compiler.known[key_node])
        raise ExpressionError(f"nothing can be looked up by a {kind}", key_node.position)
    if node.is_optional:
        return lambda frame: _get_optional(operand(frame), key(frame))
    return lambda frame: _get(operand(frame), key(frame))
