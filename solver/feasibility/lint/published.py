"""The attributes and capacities that devices publish, by CEL names, and hints on names that no device publishes."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from solver.cel import tree
from solver.cel.reads import TYPE_SUFFIXES, Read
from solver.cel.values import parse_semver
from solver.domain import AttributeKind, AttributeValue, Device, DeviceId, Quantity
from solver.domain.quantity import NANO, plain
from solver.domain.wording import listed, nearest
from solver.feasibility.lint import expressions
from solver.feasibility.lint.expressions import Amount, Comparison

_MEBIBYTE: Final = 2**20 * NANO
_GIBIBYTE: Final = 2**30 * NANO

Value = AttributeValue | Quantity


class Candidate(NamedTuple):
    """A device that a request could select."""

    id: DeviceId
    device: Device

    @property
    def driver(self) -> str:
        """Its driver."""
        return self.id.driver


def names(candidate: Candidate, *, is_capacity: bool) -> Iterator[tuple[str, str]]:
    """Return (domain, name) of everything that a device publishes; bare names are in the driver's domain."""
    device = candidate.device
    published = device.capacities if is_capacity else device.attributes
    for text, _ in published:
        domain, slash, name = text.partition("/")
        yield (domain, name) if slash else (candidate.driver, text)


def value(candidate: Candidate, read: Read) -> Value | None:
    """Look up the value of a read; a fully qualified name wins, as in CEL."""
    domain = read.domain or candidate.driver
    wanted, bare = f"{domain}/{read.name}", read.name if domain == candidate.driver else None
    found: Value | None = None
    device = candidate.device
    pairs: Iterable[tuple[str, Value]] = (
        ((name, each.value) for name, each in device.capacities) if read.is_capacity else device.attributes
    )
    for name, each in pairs:
        if name == wanted:
            return each
        if name == bare:
            found = each
    return found


def values(candidates: Sequence[Candidate], read: Read) -> list[tuple[Candidate, Value]]:
    """Return the values of a read, for devices that publish it."""
    return [(each, found) for each in candidates if (found := value(each, read)) is not None]


def scalars(candidates: Sequence[Candidate], read: Read, kind: AttributeKind) -> list[str | int | bool]:
    """Return the values of a kind that devices publish under a read, each once."""
    found = [each for _, each in values(candidates, read) if isinstance(each, AttributeValue)]
    return list(dict.fromkeys(item for each in found for item_kind, item in each.items() if item_kind is kind))


def written(read: Read) -> str:
    """Write a read as CEL."""
    which = "capacity" if read.is_capacity else "attributes"
    domain = f'"{read.domain}"' if read.domain else "device.driver"
    return f"device.{which}[{domain}].{read.name}"


def size(nano: int) -> str:
    """Write an amount in the largest binary unit with a whole number, else rounded to Mi."""
    if nano % (1024 * NANO) == 0:
        return plain(nano, "Gi")
    return f"about {nano // _MEBIBYTE}Mi" if nano >= _MEBIBYTE else plain(nano)


def round_size(nano: int) -> str:
    """Write the largest size in whole Gi that an amount holds, or the amount itself where it is smaller."""
    return plain(nano // _GIBIBYTE * _GIBIBYTE, "Gi") if nano >= _GIBIBYTE else plain(nano, "Gi")


def semantic(text: str) -> str:
    """Normalise a text to a semantic version: `9.0` is 9.0.0, `535.104.05` is 535.104.5."""
    numbers = text.lstrip("v").split(".")
    if not all(part.isdecimal() for part in numbers):
        return text
    return ".".join(str(int(part)) for part in [*numbers, "0", "0"][:3])


def version_key(text: str) -> tuple[int, ...] | None:
    """Return a sort key of a version; None if it is not one."""
    try:
        parse_semver(text)
    except Exception:  # noqa: BLE001 - the reader of versions has an error of its own, and any failure means the same
        return None
    return tuple(int(part) for part in text.partition("-")[0].partition("+")[0].split("."))


_SIGN: Final = {"==": ">="}


def of_suffix(node: tree.AstNode, candidates: Sequence[Candidate]) -> str:
    """Hint on a type suffix: `….productName.string` and `device.attributes["model"].string` are not fields."""
    comparison = expressions.comparison_of(node)
    read = comparison.read if comparison is not None else expressions.read_of(node)
    if (
        read is not None
        and read.name in TYPE_SUFFIXES
        and ("." not in read.domain or "/" in read.domain)
        and not _is_published(read, candidates)
    ):
        return _of_joined_name(read, comparison, candidates) or _of_bare_domain(read, comparison, candidates)
    if isinstance(node, tree.Select) and node.field in TYPE_SUFFIXES:
        inner = expressions.read_of(node.operand)
        if inner is not None and _is_published(inner, candidates):
            return f"a value is read without .{node.field}: write {written(inner)}"
    return ""


def _of_joined_name(read: Read, comparison: Comparison | None, candidates: Sequence[Candidate]) -> str:
    """`device.attributes["gpu.example.com/model"].string`: domain and name in one text, as matchAttribute has them."""
    domain, slash, name = read.domain.partition("/")
    meant = Read(read.is_capacity, domain, name)
    if not slash or not _is_published(meant, candidates):
        return ""
    return f"domain and name stand apart in CEL: write {written(meant)}{_holding(comparison, meant, candidates)}"


def _of_bare_domain(read: Read, comparison: Comparison | None, candidates: Sequence[Candidate]) -> str:
    """`device.attributes["model"].string`: the name stands where the domain belongs."""
    wanted = comparison.constant if comparison is not None else None
    which = "capacity" if read.is_capacity else "attributes"
    text = f'device.{which}["{read.domain}"].{read.name} has no driver domain, and a value is read without .{read.name}'
    ways = (read.is_capacity, not read.is_capacity)
    meant = next((found for way in ways if (found := _meant(read.domain, wanted, candidates, is_capacity=way))), None)
    if meant is None:
        domain = _driver(candidates)
        return f"{text}: as in {written(Read(read.is_capacity, domain, '<name>'))}"
    return f"{text}: write {written(meant)}{_holding(comparison, meant, candidates)}"


def _holding(comparison: Comparison | None, read: Read, candidates: Sequence[Candidate]) -> str:
    """Complete a comparison, with a text by the most similar published value; amounts are compared by methods."""
    if comparison is None or read.is_capacity or isinstance(comparison.constant, Amount):
        return ""
    wanted, operator = comparison.constant, comparison.operator
    if operator != "==" or not isinstance(wanted, str):
        return f" {operator} {expressions.shown(wanted)}"
    texts = [str(each) for each in scalars(candidates, read, AttributeKind.STRING)]
    close = wanted if wanted in texts else nearest(wanted, texts)
    return f' == "{close}"' if close else ""


def _meant(name: str, wanted: object, candidates: Sequence[Candidate], *, is_capacity: bool) -> Read | None:
    """Find the attribute with the most similar name, or with a value similar to the wanted text."""
    reads = _reads(candidates, is_capacity=is_capacity)
    if isinstance(wanted, str) and not is_capacity:
        for read in reads:
            texts = [str(each) for each in scalars(candidates, read, AttributeKind.STRING)]
            if nearest(wanted, texts):
                return read
    names = {read.name: read for read in reversed(reads)}
    close = nearest(name, names)
    return names[close] if close else None


def of_comparison(node: tree.AstNode, candidates: Sequence[Candidate]) -> str:
    """Hint on a capacity that is read as an attribute; the constant becomes a quantity."""
    comparison = expressions.comparison_of(node)
    if comparison is None or comparison.read.is_capacity or _is_published(comparison.read, candidates):
        return ""
    read = comparison.read._replace(is_capacity=True)
    amount = expressions.quantity_of(comparison.constant)
    if not _is_published(read, candidates) or amount is None:
        return ""
    sign = _SIGN.get(comparison.operator, comparison.operator)
    return f'{read.name} is a capacity and no attribute: write {written(read)}.compareTo(quantity("{amount}")) {sign} 0'


def of_read(node: tree.AstNode, candidates: Sequence[Candidate]) -> str:
    """Hint on a name that no device publishes, with the most similar one."""
    read = expressions.read_of(node)
    if read is None or _is_published(read, candidates):
        return ""
    what = "capacity" if read.is_capacity else "attribute"
    turned = read._replace(is_capacity=not read.is_capacity)
    if _is_published(turned, candidates):
        other = "an attribute and no capacity" if read.is_capacity else "a capacity and no attribute"
        return f"{read.name} is {other}: write {written(turned)}"
    reads = _reads(candidates, is_capacity=read.is_capacity)
    elsewhere = next((each for each in reads if each.name == read.name), None)
    if elsewhere is not None:
        where = read.domain or "that domain"
        return f"nothing is published under {where} as {read.name}: write {written(elsewhere)}"
    names = [each.name for each in reads if each.domain in {read.domain, ""} or not read.domain]
    close = nearest(read.name, names or [each.name for each in reads])
    found = next((each for each in reads if each.name == close), None)
    text = f"no device that could be selected publishes {what} {read.name} under {read.domain or 'its driver'}"
    if found is not None:
        return f"{text}: write {written(found)}"
    known = [each.name for each in reads]
    return f"{text}: there are {listed(known)}" if known else f"{text}, nor any other"


def _is_published(read: Read, candidates: Sequence[Candidate]) -> bool:
    return any(value(each, read) is not None for each in candidates)


def _reads(candidates: Sequence[Candidate], *, is_capacity: bool) -> list[Read]:
    """Return everything that is published, each once; the drivers' domains first."""
    found = dict.fromkeys(
        (domain != each.driver, domain, name)
        for each in candidates
        for domain, name in names(each, is_capacity=is_capacity)
    )
    return [Read(is_capacity, domain, name) for _, domain, name in sorted(found)]


def _driver(candidates: Sequence[Candidate]) -> str:
    return min((each.driver for each in candidates), default="")
