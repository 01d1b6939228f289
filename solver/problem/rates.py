"""What looking at a pod's node affinity and volume claims costs, in units of the allowance, by how long they are."""

from collections.abc import Hashable, Iterable, Mapping
from itertools import chain
from typing import Final

from solver.domain import LabelRequirement, NodeSelectorRequirement, NodeSelectorTerm, Pod, VolumeClaim, VolumeClaimId

_ROW: Final = 2
"""Units of a term, of a requirement and of a value of node affinity."""
_FREE_ROWS: Final = 32
"""So many of them are free: pods written by hand have fewer, and very many pods may each have their own."""
_SHAPE: Final = 20
"""Units of a claim that asks for something else than all others, beside its selector."""
_CLAIM: Final = 8
_FREE_CLAIMS: Final = 8
"""Units of each claim of a pod, beyond so many that are free."""
_PAIRS_A_UNIT: Final = 8
"""Claims of one pod are compared with each other."""


def of_node_affinity(pod: Pod) -> dict[Hashable, int]:
    """Give the units of a pod's required and preferred node affinity; equal ones are looked at once."""
    required = pod.required_affinity.terms if pod.required_affinity is not None else ()
    preferred = (term for _, term in pod.preferred_node_affinity)
    rows = sum(map(_rows_of_term, chain(required, preferred)))
    if rows <= _FREE_ROWS:
        return {}
    return {(pod.required_affinity, pod.preferred_node_affinity): _ROW * (rows - _FREE_ROWS)}


def of_volume_claims(pod: Pod, claims: Mapping[VolumeClaimId, VolumeClaim]) -> dict[Hashable, int]:
    """Give the units of a pod's claims that wait for a volume; those that ask for the same are looked at once."""
    if not pod.volumes:
        return {}
    known = [claims[each] for each in pod.volume_claims if each in claims]
    shapes: dict[Hashable, int] = {
        _asked(each): _SHAPE + (_rows(each.selector.requirements) if each.selector is not None else 0)
        for each in known
        if not each.volume
    }
    own = _CLAIM * max(0, len(known) - _FREE_CLAIMS) + len(shapes) ** 2 // _PAIRS_A_UNIT
    return shapes | {(pod.id, "volumes"): own} if own else shapes


def _asked(claim: VolumeClaim) -> Hashable:
    terms = (claim.storage_class, claim.request, claim.access_modes, claim.mode, claim.attributes_class)
    return (*terms, claim.selector, claim.selected_node)


def _rows_of_term(term: NodeSelectorTerm) -> int:
    return 1 + _rows(term.match_expressions) + _rows(term.match_fields)


def _rows(requirements: Iterable[LabelRequirement | NodeSelectorRequirement]) -> int:
    return sum(1 + len(each.values) for each in requirements)
