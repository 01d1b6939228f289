"""
What the API server refuses to change: the spec of a claim or of a template, once it is there.

People edit a claim, apply it, and wonder that nothing happens: the pod goes on with the claim that it has.
"""

import json
from typing import Final

from solver.domain import Claim

_INSTEAD: Final = "write a new template with another name, and create the pod anew"


def of_claim(claim: Claim, there: Claim | None) -> str:
    """Say what is wrong with a claim that was edited after its creation, or after its allocation; empty for others."""
    if there is not None and there.uid and _spec(there) != _spec(claim):
        return f"differs from the claim in the cluster, and claims are immutable: {_INSTEAD}"
    names = {request.name for request in claim.requests}
    results = claim.allocation.results if claim.allocation is not None else ()
    strangers = sorted({each.request.partition("/")[0] for each in results} - names)
    if strangers and names:
        requests = f"request{'s' if len(strangers) > 1 else ''} {', '.join(strangers)}"
        return f"the allocation is for {requests}, which the spec does not have; claims are immutable: {_INSTEAD}"
    return ""


def of_template() -> str:
    """Say what is wrong with a template that was edited after its creation."""
    return "differs from the template in the cluster, and templates are immutable: give it another name"


def _spec(claim: Claim) -> tuple[object, ...]:
    config = [(each.source, each.requests, each.driver, json.loads(each.parameters or "{}")) for each in claim.config]
    return claim.requests, claim.constraints, config
