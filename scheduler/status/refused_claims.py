"""
Says which ResourceQuota keeps a pod's claim from being created.

The claim controller creates claims of templates, and tries again where a quota is used up. Nothing but an event says
so. Quotas are not watched: where a claim has not appeared for a while, those of its namespace are listed, and the
template is read. The answer counts for a few seconds, for all pods of the namespace.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from scheduler.change import Kind
from scheduler.kube import paths
from scheduler.kube.client import Client
from scheduler.kube.decode.objects import decode
from scheduler.kube.errors import DecodeError, KubeError
from scheduler.resource_quotas import Quota, amounts, claim_usage
from solver import with_refused_claims
from solver.domain import Claim, Pod, Reason

_KNOWN_SECONDS: Final = 10.0
_MOST_KNOWN: Final = 1000


class RefusedClaims:
    """Reads quotas and templates, one at a time."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._quotas: Final[dict[str, tuple[tuple[Quota, ...], float]]] = {}
        """The quotas of a namespace that limit claims, and when they were read."""

    async def named(self, pod: Pod, reasons: Sequence[Reason]) -> Sequence[Reason]:
        """Name the quotas that refuse the claims of a pod; unchanged where none does, or they may not be listed."""
        templates = dict.fromkeys(
            each.template for each in pod.claims if each.template and each.claim is None and not each.lacks_template
        )
        quotas = await self._of_namespace(pod.id.namespace) if templates else ()
        refusals = {}
        for template in templates if quotas else ():
            refusal = await self._refusal(pod.id.namespace, template, quotas)
            if refusal:
                refusals[template] = refusal
        return with_refused_claims(pod, reasons, refusals) if refusals else reasons

    async def _of_namespace(self, namespace: str) -> tuple[Quota, ...]:
        quotas, at = self._quotas.get(namespace, ((), -_KNOWN_SECONDS))
        if self._clock() - at < _KNOWN_SECONDS:
            return quotas
        if len(self._quotas) >= _MOST_KNOWN:
            self._quotas.clear()
        try:
            body = await self._client.request("GET", paths.resource_quotas(namespace))
            quotas = tuple(_limiting(msgspec.json.decode(body)))
        except (KubeError, msgspec.MsgspecError):
            quotas = ()
        self._quotas[namespace] = quotas, self._clock()
        return quotas

    async def _refusal(self, namespace: str, name: str, quotas: Sequence[Quota]) -> str:
        try:
            body = msgspec.json.decode(await self._client.request("GET", paths.claim_template(namespace, name)))
            metadata = {"namespace": namespace, "name": name, "uid": name}
            claim = decode(Kind.CLAIMS, msgspec.json.encode({"metadata": metadata, "spec": body["spec"]["spec"]}))
        except (KubeError, DecodeError, msgspec.MsgspecError, LookupError, TypeError):
            return ""
        usage = claim_usage(claim.requests, {}) if isinstance(claim, Claim) else {}
        return next((refusal for each in quotas if (refusal := each.refusal(usage))), "")


def _limiting(listed: Any) -> Iterator[Quota]:
    """Return the quotas of a list that count something of claims; those with scopes count pods only."""
    for each in _objects(_part(listed, "items")):
        spec, status = _part(each, "spec"), _part(each, "status")
        hard = amounts(_part(status, "hard"))
        of_claims = {name: nano for name, nano in hard.items() if ".k8s.io" in name or ".kubernetes.io" in name}
        if of_claims and not _part(spec, "scopes") and not _part(spec, "scopeSelector"):
            used = amounts(_part(status, "used"))
            yield Quota(name=str(_part(_part(each, "metadata"), "name")), hard=of_claims, used=used)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    yield from (each for each in value or () if isinstance(each, dict))


def _part(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None
