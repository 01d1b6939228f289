"""What the API server and Dovetail say of a manifest, and what each reads in it."""

import copy
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from e2e.controlplane.access import RequestError
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.live_cluster import without_cluster
from scheduler.simulation.manifests import decoding
from scheduler.simulation.manifests.documents import Document, ManifestFiles

_CLUSTER: Final = frozenset(
    {
        *("Node", "PersistentVolume", "StorageClass", "DeviceClass", "ResourceSlice", "DeviceTaintRule"),
        *("PriorityClass", "RuntimeClass", "Namespace", "CSINode", "CSIDriver", "VolumeAttachment"),
    }
)
_REFUSALS: Final = frozenset({400, 422})

Request = Callable[..., Any]


class Verdict(NamedTuple):
    """Why a manifest is refused ("" where it is taken), and the object that was read; None where neither is known."""

    refusal: str
    stored: Any = None
    is_known: bool = True


def path_of(body: dict[str, Any]) -> str:
    """Return the path to create an object at, as a dry run that is strict about fields."""
    version, kind = body["apiVersion"], body["kind"]
    plural = kind.lower().removesuffix("y") + ("ies" if kind.endswith("y") else "es" if kind.endswith("s") else "s")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = "" if kind in _CLUSTER else "/namespaces/default"
    return f"{root}{namespace}/{plural}?dryRun=All&fieldValidation=Strict"


def of_server(request: Request, body: dict[str, Any]) -> Verdict:
    """Ask the API server; a refusal by admission, which knows other objects, is not known."""
    try:
        return Verdict("", request("POST", path_of(body), body))
    except RequestError as error:
        return Verdict(str(error)[:600], is_known=error.status in _REFUSALS)


def of_dovetail(body: dict[str, Any], version: str) -> Verdict:
    """Read the manifest as `simulate` does."""
    document = Document("m", copy.deepcopy(body))
    builder = CaseBuilder.of(without_cluster(version), ManifestFiles([document]))
    changes = builder.changes
    refusal = "; ".join(f"{each.field}: {each.message}" for each in builder.problems)
    kind = decoding.KINDS.get(decoding.of(body))
    own = [change.value for change in changes if change.kind is kind] if kind is not None else []
    return Verdict(refusal, own[0] if own else None)


def read(body: dict[str, Any], stored: dict[str, Any]) -> Any:
    """Return what Dovetail reads in the object that the server has stored; None for a kind that it does not watch."""
    kind = decoding.KINDS.get(decoding.of(body))
    if kind is None:
        return None
    change, _ = decoding.decoded(
        kind, Document("s", {"apiVersion": body["apiVersion"], "kind": body["kind"], **stored})
    )
    return change.value if change is not None else None


def as_built(value: Any) -> Any:
    """Return a value as plain data, for comparison and messages."""
    return msgspec.to_builtins(value)
