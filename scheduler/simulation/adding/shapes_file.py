"""
Reads a file of node shapes: `shapes: [{name, price, most, node, slices}]`.

`node` is a Node as the API has it, of which labels, taints and allocatable count, and `slices` are its ResourceSlices,
whole objects or their specs alone. A shape without `node` takes that of the shape of the same name which the cluster
has. A mistake names file, shape and field.
"""

import re
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from math import gcd
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from msgspec.structs import replace

from scheduler.change import Kind
from scheduler.settings import untrusted_yaml
from scheduler.simulation import defaults
from scheduler.simulation.manifests import api_validation
from scheduler.simulation.manifests.decoding import decoded
from scheduler.simulation.manifests.documents import Document, ManifestProblem
from scheduler.simulation.manifests.fields import Body, is_number, mapping, metadata, spec, text, without_nulls
from solver.domain import Node, NodeShape, ResourceSlice

_FIELDS: Final = ("name", "price", "most", "node", "slices")
_NAME: Final = re.compile(r"[a-z0-9]([-._a-z0-9]{0,61}[a-z0-9])?")
_DIGITS: Final = 4
"""Digits behind the point of a price."""
_MOST_PRICE: Final = 1_000_000
_RESOURCE: Final = "resource.k8s.io/v1"


class PricedShapes(NamedTuple):
    """Shapes whose `price` counts units of `unit`; None where nobody gave prices, and each node counts as 1."""

    shapes: tuple[NodeShape, ...] = ()
    unit: Decimal | None = None
    problems: tuple[ManifestProblem, ...] = ()

    def price(self, units: int) -> str:
        """Write a price as the file has it: at least two digits behind the point; empty without prices."""
        if self.unit is None:
            return ""
        amount = (units * self.unit).quantize(Decimal(1).scaleb(-_DIGITS)).normalize()
        return f"{amount:.2f}" if amount == amount.quantize(Decimal("0.01")) else f"{amount:f}"


def read(path: Path, known: Mapping[str, NodeShape]) -> PricedShapes:
    """Read a file; `known` are the shapes of the cluster by name. Never raises: what is wrong is in `problems`."""
    try:
        body = untrusted_yaml.load(path.read_text(encoding="utf-8"))
    except OSError as error:
        return _refused(path, "", f"cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        return _refused(path, "", f"cannot be read: {error.reason} at byte {error.start}: save the file as UTF-8")
    except yaml.YAMLError as error:
        return _refused(path, "", untrusted_yaml.problem(error))
    if not isinstance(body, dict) or not isinstance(body.get("shapes"), list) or set(body) - {"shapes"}:
        return _refused(path, "shapes", "write one list: shapes: [{name: …, price: …, node: …, slices: […]}]")
    entries: list[Any] = body["shapes"]
    readers = [_Shape(str(path), number, each, known) for number, each in enumerate(entries)]
    shapes = [reader.shape() for reader in readers]
    problems = [problem for reader in readers for problem in reader.problems]
    if not entries:
        problems.append(ManifestProblem(str(path), "", "shapes", "is empty: write at least one shape"))
    names = Counter(reader.name for reader in readers if reader.name)
    problems += (
        ManifestProblem(str(path), f"shape {name}", "name", f"stands {count} times: give each shape a name of its own")
        for name, count in names.items()
        if count > 1
    )
    priced = [reader for reader in readers if reader.price is not None]
    if priced and len(priced) < len(readers):
        missing = next(reader for reader in readers if reader.price is None)
        message = f"missing, and shape {priced[0].name} has one: give every shape a price, or none"
        problems.append(ManifestProblem(str(path), f"shape {missing.name}", "price", message))
    if problems:
        return PricedShapes(problems=tuple(problems))
    found = [shape for shape in shapes if shape is not None]
    if not priced:
        return PricedShapes(tuple(found))
    amounts = [int((reader.price or Decimal(0)).scaleb(_DIGITS)) for reader in readers]
    common = gcd(*amounts) or 1
    return PricedShapes(
        tuple(replace(shape, price=amount // common) for shape, amount in zip(found, amounts, strict=True)),
        Decimal(common).scaleb(-_DIGITS),
    )


def _refused(path: Path, field: str, message: str) -> PricedShapes:
    return PricedShapes(problems=(ManifestProblem(str(path), "", field, message),))


class _Shape:
    """One entry of the list, with what is wrong with it."""

    def __init__(self, source: str, number: int, entry: Any, known: Mapping[str, NodeShape]) -> None:
        self._source: Final = source
        self._number: Final = number
        self._body: Final[Body] = without_nulls(mapping(entry))
        self._known: Final = known
        self.problems: Final[list[ManifestProblem]] = []
        self.name: Final = text(self._body.get("name"))
        self.price: Final = self._price()

    def shape(self) -> NodeShape | None:
        """Read the shape; None where something is wrong with it."""
        if not self._body:
            self._refuse("", "is no mapping: write {name: …, node: …, slices: […]}")
            return None
        for unknown in sorted(set(map(str, self._body)) - set(_FIELDS)):
            self._refuse(unknown, f"unknown field: write one of {', '.join(_FIELDS)}")
        if _NAME.fullmatch(self.name) is None:
            self._refuse("name", "write a name of at most 63 of a-z, 0-9, -, _ and . in quotes, such as p5.48xlarge")
        most = self._body.get("most")
        if most is not None and not (is_number(most) and most >= 0):
            self._refuse("most", "write how many such nodes there can be at most, as a whole number")
            most = None
        found = self._of_cluster() if "node" not in self._body else self._of_file()
        return None if found is None or self.problems else replace(found, name=self.name, most=most)

    def _price(self) -> Decimal | None:
        if "price" not in self._body:
            return None
        value = self._body["price"]
        try:
            price = Decimal(str(value)) if not isinstance(value, bool) else Decimal("NaN")
        except InvalidOperation:
            price = Decimal("NaN")
        if not (price.is_finite() and 0 <= price <= _MOST_PRICE and price == round(price, _DIGITS)):
            what = f"a number from 0 to {_MOST_PRICE} with at most {_DIGITS} digits behind the point"
            self._refuse("price", f"{str(value)[:40]!r}: write {what}")
            return Decimal(0)
        return price

    def _of_cluster(self) -> NodeShape | None:
        if "slices" in self._body:
            self._refuse("slices", "without `node` the slices are those of the cluster's shape: write `node` too")
            return None
        if self.name not in self._known:
            names = ", ".join(sorted(self._known)[:20]) or "none"
            self._refuse("node", f"missing, and the cluster has no shape of this name, only: {names}")
            return None
        return self._known[self.name]

    def _of_file(self) -> NodeShape | None:
        node = self._node()
        slices = self._body.get("slices", [])
        if not isinstance(slices, list):
            self._refuse("slices", "write a list of ResourceSlices")
            return None
        read = [self._slice(number, each) for number, each in enumerate(slices)]
        found = tuple(each for each in read if each is not None)
        if node is None or len(found) < len(read):
            return None
        pools = Counter(each.pool_id for each in found)
        for each in found:
            if each.slice_count != pools[each.pool_id]:
                count = f"has {each.slice_count} slices by its resourceSliceCount, and {pools[each.pool_id]} here"
                self._refuse("slices", f"pool {each.pool} of {each.driver} {count}: give all slices of the pool")
                return None
        return NodeShape(name=self.name, node=node, slices=found)

    def _node(self) -> Node | None:
        body = mapping(self._body.get("node"))
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            **body,
            "metadata": {**metadata(body), "name": self.name or "shape"},
        }
        if not mapping(mapping(node.get("status")).get("allocatable")):
            self._refuse(
                "node.status.allocatable", "missing: write what pods can have of the node, cpu, memory and pods"
            )
            return None
        value = self._decoded(Kind.NODES, node, "node")
        return value if isinstance(value, Node) else None

    def _slice(self, number: int, entry: Any) -> ResourceSlice | None:
        where, body = f"slices[{number}]", mapping(entry)
        if not body:
            self._refuse(where, "is no mapping: write a ResourceSlice, or its spec")
            return None
        inner = dict(spec(body) if "spec" in body else body)
        for key in ("nodeSelector", "allNodes"):
            if inner.get(key):
                self._refuse(f"{where}.{key}", "devices of several nodes do not come with one: leave the slice out")
                return None
        if not inner.get("perDeviceNodeSelection"):
            inner["nodeName"] = self.name or "shape"
        pool = {
            "generation": 1,
            "resourceSliceCount": self._count(text(inner.get("driver"))),
            **mapping(inner.get("pool")),
        }
        if text(pool.get("name")) in {"", text(mapping(entry).get("nodeName")), text(spec(body).get("nodeName"))}:
            pool["name"] = self.name or "shape"
        name = f"{self.name or 'shape'}-{number}"
        manifest = {
            "apiVersion": _RESOURCE,
            "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": {**inner, "pool": pool},
        }
        value = self._decoded(Kind.SLICES, manifest, where)
        return value if isinstance(value, ResourceSlice) else None

    def _count(self, driver: str) -> int:
        """Count the slices of a driver that do not say how many there are."""
        bodies = (mapping(each) for each in self._body.get("slices", ()))
        return sum(text((spec(each) if "spec" in each else each).get("driver")) == driver for each in bodies)

    def _decoded(self, kind: Kind, body: Body, where: str) -> object | None:
        defaults.fill_metadata(body)
        wrong = [(error.field, error.message) for error in api_validation.of_object(body)]
        fill = defaults.FILL.get(text(body["kind"]))
        if not wrong and fill is not None:
            fill(body)
        if not wrong and kind is Kind.NODES:
            wrong += (("", message) for message in defaults.fill_node(body))
        if not wrong:
            change, problem = decoded(kind, Document(self._source, body))
            if problem is None and change is not None:
                return change.value
            wrong.append((problem.field, problem.message) if problem is not None else ("", "cannot be read"))
        for field, message in wrong:
            self._refuse(f"{where}.{field}" if field else where, message)
        return None

    def _refuse(self, field: str, message: str) -> None:
        subject = f"shape {self.name}" if self.name else f"shapes[{self._number}]"
        self.problems.append(ManifestProblem(self._source, subject, field, message))
