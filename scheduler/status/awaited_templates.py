"""
Reads the ResourceAwaitedTemplates of claims that do not appear: which is missing, and what a claim of it uses.

Templates are not watched: only the claim controller needs them. So a template is read when a claim of it has not
appeared for a while. The answer counts for a few seconds, for all pods of the template.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.change import Kind
from scheduler.kube import paths
from scheduler.kube.client import Client
from scheduler.kube.decode.json_parts import BrokenJsonError, JsonObject
from scheduler.kube.decode.objects import decode
from scheduler.kube.errors import DecodeError, KubeError, NotFound
from scheduler.resource_quotas import Usage, claim_usage
from scheduler.status.recent_answers import RecentAnswers
from solver import with_missing_templates
from solver.domain import Claim, Pod, Reason


class _Template(NamedTuple):
    """What a read said of a template; one that cannot be read is not missing, and nothing is known of its claims."""

    is_missing: bool
    usage: Usage


class AwaitedTemplates:
    """Reads templates, one at a time."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client: Final = client
        self._recent: Final = RecentAnswers(self._read, clock)

    async def name_missing(self, pod: Pod, reasons: Sequence[Reason]) -> Sequence[Reason]:
        """Name the missing templates in the reasons of a pod that waits for claims; unchanged if they are not known."""
        templates = dict.fromkeys(each.template for each in pod.claims if each.template and each.claim is None)
        missing = [each for each in templates if (await self._recent.of((pod.id.namespace, each))).is_missing]
        return with_missing_templates(pod, reasons, missing)

    async def usage(self, namespace: str, name: str) -> Usage:
        """Return what a claim of a template uses of ResourceQuotas; nothing where the template cannot be read."""
        return (await self._recent.of((namespace, name))).usage

    async def _read(self, key: tuple[str, str]) -> _Template:
        namespace, name = key
        try:
            body = await self._client.request("GET", paths.claim_template(namespace, name))
            spec = JsonObject(body).part("spec", "spec")
            metadata = {"namespace": namespace, "name": name, "uid": name}
            claim = decode(Kind.CLAIMS, msgspec.json.encode({"metadata": metadata, "spec": spec}))
        except NotFound:
            return _Template(is_missing=True, usage={})
        except (KubeError, DecodeError, BrokenJsonError):
            return _Template(is_missing=False, usage={})
        return _Template(is_missing=False, usage=claim_usage(claim.requests, {}) if isinstance(claim, Claim) else {})
