"""What must hold of `install.yaml` on a real API server: it applies as it is, twice the same, and leaves nothing."""

from pathlib import Path
from typing import Any, Final

import yaml

from e2e.controlplane.plane import ControlPlane, KubectlError

_KINDS_THAT_STAY: Final = frozenset({"Namespace"})
"""Their deletion ends when all that is in them is gone."""

Json = dict[str, Any]


class InstallError(RuntimeError):
    """The file does not do what it should; the message says what."""


def check(plane: ControlPlane, path: Path) -> list[str]:
    """Apply the file, apply it again, and delete it; return a sentence for each. Raise `InstallError`."""
    objects = [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]
    apply = ("apply", "--server-side", "-f", str(path))
    first = _kubectl(plane, *apply).splitlines()
    if len(first) != len(objects):
        raise InstallError(f"kubectl applied {len(first)} of {len(objects)} objects: {first}")
    again = _kubectl(plane, "diff", "--server-side", "-f", str(path))
    if again.strip():
        raise InstallError(f"applied once more, it would change: {again}")
    image = _kubectl(plane, "-n", "dovetail-system", "get", "deployment", "dovetail", "-o", _IMAGE).strip()
    _kubectl(plane, "delete", "--wait=false", "-f", str(path))
    left = [
        f"{each['kind']} {each['metadata']['name']}"
        for each in objects
        if each["kind"] not in _KINDS_THAT_STAY and "namespace" not in each["metadata"] and _exists(plane, each)
    ]
    if left:
        raise InstallError(f"deleted, these are left: {', '.join(left)}")
    return [f"{len(objects)} objects are applied as they are, and once more without a change", f"its image is {image}"]


_IMAGE: Final = "jsonpath={.spec.template.spec.containers[0].image}"


def _kubectl(plane: ControlPlane, *words: str) -> str:
    try:
        return plane.kubectl(*words)
    except KubectlError as error:
        raise InstallError(str(error)) from error


def _exists(plane: ControlPlane, each: Json) -> bool:
    words = ("get", each["kind"], each["metadata"]["name"], "--ignore-not-found", "-o", "name")
    return bool(_kubectl(plane, *words).strip())
