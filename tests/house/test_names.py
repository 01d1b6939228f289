"""A name stands for one thing: public classes by name, modules by name."""

import ast
from collections import defaultdict
from pathlib import Path

from tests.support import house

PACKAGES = ("scheduler", "solver")
MOST_MODULES = 20
SHARED = {
    "batch": "what pods of a batch take from each other by a rule",
    "claims": "ResourceClaims: decoded, resolved, verified, written",
    "devices": "devices: in slices, in the model, under the verifier",
    "errors": "what can go wrong in a package",
    "expected_room": "room for expected pods: what nodes have in the problem, what is lost in the model",
    "extended_resources": "extended resources that claims serve (KEP-5004)",
    "fragmentation": "what is worth more whole: found in the problem, counted in the model",
    "gangs": "pods that are placed together or not at all",
    "inter_pod": "host ports, pod affinity and anti-affinity, topology spread",
    "node_allocatable": "devices that take of their node's own resources (KEP-5517)",
    "nodes": "nodes: decoded; the nodes that a rule closes",
    "nominations": "pods that have a node nominated (status.nominatedNodeName)",
    "pods": "pods: decoded, in the model",
    "pools": "pools of ResourceSlices",
    "preemption": "victims for pods of higher priority",
    "queueing": "what the scheduling queue asks of a rule",
    "reservations": "nodes that are reserved for pods which starve",
    "run": "`dovetail run`: the command, and what it starts",
    "storage": "volumes and what is known of storage",
    "usage": "what is taken of devices",
    "values": "what a rule says of single values",
    "victims": "pods that may be evicted",
    "volumes": "volumes of pods",
}
"""Module names that stand for the same concept in several packages, each with the concept."""


def _files() -> list[Path]:
    return [path for name in PACKAGES for path in sorted((house.ROOT / name).rglob("*.py"))]


def _repeated(found: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: places for name, places in found.items() if len(places) > 1}


def test_no_public_class_name_stands_twice() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in _files():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(house.ROOT)))
    assert _repeated(found) == {}


def test_a_module_name_stands_for_one_concept() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in _files():
        if not path.name.startswith("__"):
            found[path.stem].append(str(path.relative_to(house.ROOT)))
    repeated = _repeated(found)
    assert {name: places for name, places in repeated.items() if name not in SHARED} == {}
    assert sorted(set(SHARED) - set(repeated)) == []


def test_a_package_reads_as_its_table_of_contents() -> None:
    modules: dict[str, int] = defaultdict(int)
    for path in _files():
        modules[str(path.parent.relative_to(house.ROOT))] += not path.name.startswith("__")
    assert {name: count for name, count in modules.items() if count > MOST_MODULES} == {}
