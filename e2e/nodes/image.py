"""The image of every pod of a test: one layer with one static program, as an archive that containerd imports."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

NAME: Final = "dovetail.example/container:1"
"""What pods name; the tag is not `latest`, so that no kubelet tries to pull it."""
PROGRAM: Final = "/container"
_OCI: Final = "application/vnd.oci.image"
_ARCHITECTURE: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def write(program: Path, archive: Path, machine: str, names: Sequence[str] = (NAME,)) -> None:
    """Write an OCI layout as a tar file; `machine` is the architecture as `platform.machine` names it."""
    layer = _tar({PROGRAM.lstrip("/"): program.read_bytes()}, mode=0o755)
    blobs: dict[str, bytes] = {}
    config = {
        "architecture": _ARCHITECTURE.get(machine, machine),
        "os": "linux",
        "config": {"Entrypoint": [PROGRAM]},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    manifest: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": _add(blobs, f"{_OCI}.config.v1+json", _json(config)),
        # Level 1: the layer is read once on this machine.
        "layers": [_add(blobs, f"{_OCI}.layer.v1.tar+gzip", gzip.compress(layer, 1, mtime=0))],
    }
    entry = _add(blobs, manifest["mediaType"], _json(manifest))
    named = [{**entry, "annotations": {"io.containerd.image.name": name}} for name in names]
    index = {"schemaVersion": 2, "manifests": named}
    files = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index), **blobs}
    archive.write_bytes(_tar(files, mode=0o644))


def _add(blobs: dict[str, bytes], kind: str, content: bytes) -> dict[str, Any]:
    """Add a blob and return its descriptor."""
    digest = _digest(content)
    blobs["blobs/" + digest.replace(":", "/")] = content
    return {"mediaType": kind, "digest": digest, "size": len(content)}


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _tar(files: dict[str, bytes], mode: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
