"""
Says which ResourceQuota keeps a pod's claim from being created.

The claim controller creates claims of templates, and tries again where a quota is used up. Nothing but an event says
so. Quotas are not watched: where a claim has not appeared for a while, those of its namespace are listed. The answer
counts for a few seconds, for all pods of the namespace.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from scheduler.kube import paths
from scheduler.kube.client import Client
from scheduler.kube.errors import KubeError
from scheduler.resource_quotas import Quota, amounts
from scheduler.status.awaited_templates import AwaitedTemplates
from scheduler.status.recent_answers import RecentAnswers
from solver import with_refused_claims
from solver.domain import Pod, Reason


class RefusedClaims:
    """Reads the quotas of one namespace after the other, and the templates that it needs for them."""

    def __init__(
        self, client: Client, templates: AwaitedTemplates, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client: Final = client
        self._templates: Final = templates
        self._quotas: Final = RecentAnswers(self._read_quotas, clock)

    async def named(self, pod: Pod, reasons: Sequence[Reason]) -> Sequence[Reason]:
        """Name the quotas that refuse the claims of a pod; unchanged where none does, or they may not be listed."""
        templates = dict.fromkeys(
            each.template for each in pod.claims if each.template and each.claim is None and not each.lacks_template
        )
        quotas = await self._quotas.of(pod.id.namespace) if templates else ()
        refusals = {}
        for template in templates if quotas else ():
            usage = await self._templates.usage(pod.id.namespace, template)
            if refusal := next((found for each in quotas if (found := each.refusal(usage))), ""):
                refusals[template] = refusal
        return with_refused_claims(pod, reasons, refusals) if refusals else reasons

    async def _read_quotas(self, namespace: str) -> tuple[Quota, ...]:
        try:
            body = await self._client.request("GET", paths.resource_quotas(namespace))
            return tuple(_limiting(msgspec.json.decode(body)))
        except (KubeError, msgspec.MsgspecError):
            return ()


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
