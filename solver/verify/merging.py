"""What an allocation derives from its devices and classes: the node selector and the configuration."""

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Final

from solver.domain import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OpaqueConfig,
    Violation,
)
from solver.verify.picture import Grant, Picture, Served
from solver.verify.rules import Rule, broken

MOST_TERMS: Final = 64
"""Terms of a node selector that are still compared."""

Requirement = tuple[str, str, str, frozenset[str]]
"""Where it looks (`fields` or `labels`), key, operator, set of values."""
Terms = frozenset[frozenset[Requirement]]


def violations(grant: Grant, picture: Picture) -> Iterator[Violation]:
    """Check the node selector and the configuration of a new allocation."""
    given = grant.allocation.node_selector
    expected = expected_terms(grant, picture)
    is_known = all(picture.pools.find(result.device) is not None for result in grant.allocation.results)
    if is_known and (None if given is None else _terms(given)) != expected:
        message = f"its node selector is {_shown(given)}, its devices demand {_worded(expected)}"
        yield broken(Rule.ALLOCATION_NODES, grant.claim.id, message)
    wanted = expected_config(grant, picture)
    if grant.allocation.config != wanted:
        message = f"it has {len(grant.allocation.config)} configuration entries, expected are these {len(wanted)}: "
        parts = ", ".join(f"{each.source} {each.driver} for {'+'.join(each.requests) or 'all'}" for each in wanted)
        yield broken(Rule.ALLOCATION_CONFIG, grant.claim.id, message + parts)


def expected_terms(grant: Grant, picture: Picture) -> Terms | None:
    """
    A device of one node, or one that binds to the node, gives the node; others give the conjunction of theirs.

    None where the devices can be used on any node. Selectors of more than one term multiply: beyond `MOST_TERMS`
    the devices are taken to go together nowhere.
    """
    selectors: list[NodeSelector] = []
    for result in grant.allocation.results:
        published = picture.pools.find(result.device)
        if published is None:
            continue
        if published.scope.node_name or published.device.binds_to_node:
            name = grant.nodes[0].name if grant.nodes else published.scope.node_name
            return frozenset({frozenset({("fields", "metadata.name", "In", frozenset({name}))})})
        if published.scope.node_selector is not None:
            selectors.append(published.scope.node_selector)
    if not selectors:
        return None
    alternatives = dict.fromkeys(_terms(each) for each in selectors)
    if prod(len(each) for each in alternatives) > MOST_TERMS:
        return frozenset()
    return frozenset(frozenset[Requirement]().union(*choice) for choice in product(*alternatives))


def _terms(selector: NodeSelector) -> Terms:
    """Terms as sets; order and repetition mean nothing, and an empty term matches nothing."""
    return frozenset(_requirements(term) for term in selector.terms if term.match_expressions or term.match_fields)


def _requirements(term: NodeSelectorTerm) -> frozenset[Requirement]:
    def keyed(where: str, each: NodeSelectorRequirement) -> Requirement:
        return (where, each.key, each.operator, frozenset(each.values))

    fields = {keyed("fields", each) for each in term.match_fields}
    return frozenset(fields | {keyed("labels", each) for each in term.match_expressions})


def _shown(selector: NodeSelector | None) -> str:
    return _worded(None if selector is None else _terms(selector))


def _worded(terms: Terms | None) -> str:
    if terms is None:
        return "any node"
    texts = (
        " and ".join(sorted(f"{key} {operator} {sorted(values)}" for _, key, operator, values in term))
        for term in terms
    )
    return " or ".join(sorted(texts)) or "no node"


def expected_config(grant: Grant, picture: Picture) -> tuple[OpaqueConfig, ...]:
    """Classes in the order in which requests name them first, then the claim's own entries, each entry once."""
    served = {each.request.name: each for each in grant.served}
    chosen = [served[request.name] for request in grant.claim.requests if request.name in served]
    by_class: dict[str, list[str]] = {}
    for each in chosen:
        by_class.setdefault(each.wanted.device_class, []).append(each.name)
    merged = [
        OpaqueConfig(driver=entry.driver, parameters=entry.parameters, requests=tuple(names), source="FromClass")
        for name, names in by_class.items()
        if name in picture.classes
        for entry in picture.classes[name].config
    ]
    merged += [
        OpaqueConfig(driver=entry.driver, parameters=entry.parameters, requests=entry.requests, source="FromClaim")
        for entry in grant.claim.config
        if not entry.requests or any(_names(each, entry) for each in chosen)
    ]
    return tuple(merged)


def _names(served: Served, entry: OpaqueConfig) -> bool:
    return bool({served.request.name, served.name} & set(entry.requests))
