"""kube-scheduler, asked for the whole set of nodes that its filters leave a pod."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

from e2e import objects
from e2e.differential.extender import REFUSAL, VERB, Extender
from e2e.differential.shapes import SCHEDULER

POLL_SECONDS: Final = 0.05
ANSWER_SECONDS: Final = 60.0
PATIENCE_SECONDS: Final = 3600
"""Backoff: a pod that was refused need not be tried again."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The nodes that can take a pod; `message` says what is said of the others, `is_error` that the attempt ended."""

    nodes: frozenset[str]
    message: str = ""
    is_error: bool = False


def write_config(path: Path, extender_url: str) -> Path:
    """
    Write the KubeSchedulerConfiguration.

    All default plugins filter. PostFilter is off: a preemption, or a claim deallocated to try again, would change the
    cluster under the next case.
    """
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "podInitialBackoffSeconds": PATIENCE_SECONDS,
        "podMaxBackoffSeconds": PATIENCE_SECONDS,
        "profiles": [{"schedulerName": SCHEDULER, "plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}],
        "extenders": [
            {
                "urlPrefix": extender_url,
                "filterVerb": VERB,
                "nodeCacheCapable": True,
                "httpTimeout": "30s",
                "weight": 1,
            }
        ],
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


@dataclass(slots=True)
class Peer:
    """The running kube-scheduler, heard through its extender and through the conditions that it writes."""

    session: aiohttp.ClientSession
    extender: Extender

    async def verdicts(self, uids: Iterable[str]) -> dict[str, Verdict]:
        """Wait until every pod was tried, and give what came of it by uid. Raises TimeoutError."""
        wanted, end = set(uids), time.monotonic() + ANSWER_SECONDS
        found: dict[str, Verdict] = {}
        while True:
            for pod in await self._waiting():
                uid = pod["metadata"]["uid"]
                if uid in wanted and uid not in found and (verdict := self._verdict(pod)) is not None:
                    found[uid] = verdict
            if len(found) == len(wanted):
                return found
            if time.monotonic() > end:
                missing = sorted(wanted - found.keys())
                raise TimeoutError(f"kube-scheduler has not tried {len(missing)} pods, the first is {missing[0]}")
            await asyncio.sleep(POLL_SECONDS)

    async def _waiting(self) -> list[dict[str, Any]]:
        query = {"fieldSelector": f"spec.schedulerName={SCHEDULER}"}
        listed = await objects.request(self.session, "GET", "/api/v1/pods", query=query)
        items: list[dict[str, Any]] = listed["items"]
        return items

    def _verdict(self, pod: dict[str, Any]) -> Verdict | None:
        conditions = (each for each in pod["status"].get("conditions") or () if each["type"] == "PodScheduled")
        condition = next(conditions, None)
        if condition is None:
            return None
        message = condition.get("message", "")
        if condition["reason"] == "SchedulerError":
            return Verdict(frozenset(), message, is_error=True)
        noted = self.extender.noted.get(pod["metadata"]["uid"])
        if noted is None and REFUSAL in message:
            raise AssertionError(f"{pod['metadata']['name']} was refused and not noted")
        return Verdict(noted or frozenset(), message)
