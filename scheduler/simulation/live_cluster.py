"""Lists the objects of a live cluster once; writes nothing."""

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler.change import Change, Kind
from scheduler.kube import discovery, paths
from scheduler.kube.client import Client
from scheduler.kube.decode import json_parts
from scheduler.kube.decode.json_parts import read_page
from scheduler.kube.errors import ApiError, ConfigurationError
from scheduler.kube.watch import ListWatch
from scheduler.simulation.manifests.documents import LIVE, Document

_PAGE: Final = "500"
_TEMPLATES: Final = paths.collection(paths.RESOURCE_GROUP, "v1", "resourceclaimtemplates")
_PRIORITIES: Final = paths.collection("scheduling.k8s.io", "v1", "priorityclasses")

_item: Final = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """The objects of a cluster: decoded changes, templates and priority classes as documents, and read errors."""

    changes: tuple[Change, ...] = ()
    documents: tuple[Document, ...] = ()
    warnings: tuple[str, ...] = field(default=())


def fetch(kubeconfig: Path | None) -> ClusterObjects:
    """List all objects that matter for scheduling. Raise `KubeError` for a problem of the server or the access."""
    return asyncio.run(_fetch(kubeconfig))


async def _fetch(kubeconfig: Path | None) -> ClusterObjects:
    async with Client.connect(kubeconfig or _kubeconfig()) as client:
        served = await discovery.discover(client)
        if served.problem:
            raise ConfigurationError(served.problem)
        listed = await asyncio.gather(*(_list(client, kind, path) for kind, path in served.paths))
        warnings = [str(problem) for _, problems in listed for problem in problems]
        documents = []
        for api_version, kind, path in (
            ("resource.k8s.io/v1", "ResourceClaimTemplate", _TEMPLATES),
            ("scheduling.k8s.io/v1", "PriorityClass", _PRIORITIES),
        ):
            try:
                items = await _items(client, path)
            except (ApiError, ValueError) as error:
                warnings.append(f"the cluster's objects of kind {kind} are left out: {error}")
            else:
                documents += [Document(LIVE, {**each, "apiVersion": api_version, "kind": kind}) for each in items]
    changes = tuple(change for found, _ in listed for change in served.as_meant(found))
    return ClusterObjects(changes, tuple(documents), tuple(warnings))


def _kubeconfig() -> Path | None:
    """Find the kubeconfig as kubectl does; None in a pod, which uses its service account."""
    named = os.environ.get("KUBECONFIG")
    if named:
        return Path(named)
    usual = Path.home() / ".kube" / "config"
    return None if "KUBERNETES_SERVICE_HOST" in os.environ and not usual.exists() else usual


async def _list(client: Client, kind: Kind, path: str) -> tuple[list[Change], list[Exception]]:
    listed = ListWatch(kind)
    listed.start_listing()
    changes: list[Change] = []
    problems: list[Exception] = []
    while listed.needs_listing:
        received = listed.receive_page(await client.request("GET", path, query=listed.page_query()))
        changes += received.changes
        problems += received.problems
    return changes, problems


async def _items(client: Client, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    query = {"limit": _PAGE}
    while True:
        page = read_page(await client.request("GET", path, query=query))
        items += [json_parts.decode(_item, each)[0] for each in page.items]
        if not page.continue_token:
            return items
        query = {"limit": _PAGE, "continue": page.continue_token}
