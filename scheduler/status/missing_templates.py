"""
Says which ResourceClaimTemplate is missing where a pod's claim does not appear.

Templates are not watched: only the claim controller needs them. So a template is read when a claim of it has not
appeared for a while. The answer counts for a few seconds, for all pods of the template.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from scheduler.kube import paths
from scheduler.kube.client import Client
from scheduler.kube.errors import KubeError, NotFound
from solver import with_missing_templates
from solver.domain import Pod, Reason

_KNOWN_SECONDS: Final = 10.0
_MOST_KNOWN: Final = 1000

_Key = tuple[str, str]
"""Namespace and name of a template."""


class MissingTemplates:
    """Reads templates, one at a time."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._known: Final[dict[_Key, tuple[bool, float]]] = {}
        """Whether a template is missing, and when that was read."""

    async def named(self, pod: Pod, reasons: Sequence[Reason]) -> Sequence[Reason]:
        """Name the missing templates in the reasons of a pod that waits for claims; unchanged if they are not known."""
        templates = dict.fromkeys(each.template for each in pod.claims if each.template and each.claim is None)
        missing = [each for each in templates if await self._is_missing((pod.id.namespace, each))]
        return with_missing_templates(pod, reasons, missing)

    async def _is_missing(self, key: _Key) -> bool:
        is_missing, at = self._known.get(key, (False, -_KNOWN_SECONDS))
        if self._clock() - at < _KNOWN_SECONDS:
            return is_missing
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        try:
            await self._client.request("GET", paths.claim_template(*key))
            is_missing = False
        except NotFound:
            is_missing = True
        except KubeError:
            is_missing = False
        self._known[key] = is_missing, self._clock()
        return is_missing
