"""
Keeps autoscalers from taking nodes away: an annotation that Karpenter reads, and one of Cluster Autoscaler.

An annotation of Dovetail's own names those that it has set. Others are somebody else's, and stay. Writes name the uid
and the version that was read: what changes meanwhile, or a former leader sends late, is no loss.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from scheduler.change import Kind
from scheduler.kube import paths, writes
from scheduler.kube.client import MERGE_PATCH, PARTIAL_METADATA, Client, pages
from scheduler.kube.decode import json_parts
from scheduler.kube.decode.disruption import DO_NOT_DISRUPT
from scheduler.kube.writes import WRITE_SECONDS
from solver.domain import DOVETAIL_GROUP

KEPT_NODE: Final = f"{DOVETAIL_GROUP}/kept-node"
"""The annotation of nodes that Dovetail keeps: which annotations of autoscalers it has set."""
_READ_BY_AUTOSCALERS: Final = (DO_NOT_DISRUPT, "cluster-autoscaler.kubernetes.io/scale-down-disabled")
_TRUE: Final = "true"


class _Metadata(msgspec.Struct):
    name: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    annotations: dict[str, str] | None = None


class _Node(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_node: Final = msgspec.json.Decoder(_Node)


class NodeMark(NamedTuple):
    """A node as a live read shows it, and its annotations."""

    name: str
    uid: str
    version: str
    annotations: dict[str, str]

    @property
    def is_ours(self) -> bool:
        """Whether Dovetail keeps the node."""
        return KEPT_NODE in self.annotations

    @property
    def missing(self) -> list[str]:
        """The annotations of autoscalers that nobody has set."""
        return [each for each in _READ_BY_AUTOSCALERS if each not in self.annotations]


async def read_mark(client: Client, node: str, *, timeout_seconds: float = WRITE_SECONDS) -> NodeMark | None:
    """Read the annotations of a node live, None where there is no such node."""
    return await writes.read_object(client, _path(node), timeout_seconds, _decoded)


def _decoded(body: bytes) -> NodeMark:
    found = json_parts.decode(_node, body).metadata
    return NodeMark(found.name, found.uid, found.resource_version, found.annotations or {})


async def kept_nodes(client: Client) -> dict[str, str]:
    """Return the uids of the nodes that Dovetail keeps, by name. Raise `KubeError`."""
    found: dict[str, str] = {}
    async for page in pages(client, paths.COLLECTIONS[Kind.NODES], accept=PARTIAL_METADATA):
        found |= {mark.name: mark.uid for mark in map(_decoded, page.items) if mark.is_ours}
    return found


async def keep(client: Client, node: NodeMark, *, timeout_seconds: float = WRITE_SECONDS) -> None:
    """Set the annotations of autoscalers that nobody has set. `Conflict` where the node was written since."""
    annotations = {KEPT_NODE: ",".join(node.missing), **dict.fromkeys(node.missing, _TRUE)}
    await _annotate(client, node, annotations, timeout_seconds)


async def let_go(client: Client, node: NodeMark, *, timeout_seconds: float = WRITE_SECONDS) -> None:
    """Take away what `keep` has set; a value that somebody else has written since stays. `Conflict` as in `keep`."""
    own = node.annotations.get(KEPT_NODE, "").split(",")
    set_by_us = [each for each in _READ_BY_AUTOSCALERS if each in own and node.annotations.get(each) == _TRUE]
    await _annotate(client, node, dict.fromkeys([KEPT_NODE, *set_by_us]), timeout_seconds)


async def _annotate(
    client: Client, node: NodeMark, annotations: Mapping[str, str | None], timeout_seconds: float
) -> None:
    body = {"metadata": {"uid": node.uid, "resourceVersion": node.version, "annotations": annotations}}
    await client.request(
        "PATCH",
        _path(node.name),
        body=msgspec.json.encode(body),
        content_type=MERGE_PATCH,
        timeout_seconds=timeout_seconds,
    )


def _path(node: str) -> str:
    return f"{paths.COLLECTIONS[Kind.NODES]}/{node}"
