"""`install.yaml`: all of `deploy/overlays/default` in one file, with an image and a choice of devices that is safe."""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.controlplane import build
from e2e.helm.kustomize import CONFIG, DEPLOY

OWNED_LABEL: Final = "dovetail.dev/owned"
"""The label of nodes whose devices Dovetail allocates, as long as nobody writes something else."""
_NAMESPACE: Final = "dovetail-system"
_HEAD: Final = f"""\
# Dovetail {{version}} in one file: kubectl apply --server-side -f install.yaml
#
# Two things are yours to decide before:
#   image          {{image}}: push it there, or load it into the nodes (dovetail-{{version}}-image.tar)
#   devices.owned  which devices Dovetail may allocate. The API server does not keep two schedulers from giving out the
#                  same one. Here these are the devices of nodes with a label, so nothing happens before
#                      kubectl label node NAME {OWNED_LABEL}=true
#                  Keep pods with claims for other schedulers off these nodes (docs/installing.md).
#                  `owned: {{{{}}}}` is every device, where no other scheduler allocates any.
#
# Afterwards: dovetail check --test-pod. To remove it: dovetail pause, then kubectl delete -f install.yaml
"""

Json = dict[str, Any]


def configuration() -> Json:
    """Return the configuration of `deploy/base`, with the devices of labelled nodes."""
    config: Json = yaml.safe_load((DEPLOY / "base" / "config.yaml").read_text(encoding="utf-8"))
    config["devices"] = {"owned": {"nodeSelector": {"matchLabels": {OWNED_LABEL: "true"}}}}
    return config


def text(image: str, version: str) -> str:
    """Return the file for an image, `NAME:TAG` or `NAME@DIGEST`. Raise `BuildError`."""
    kubectl = build.controlplane_binary().with_name("kubectl")
    with tempfile.TemporaryDirectory(prefix="dovetail-install-") as name:
        folder = Path(name).resolve()
        (folder / "config.yaml").write_text(yaml.safe_dump(configuration(), sort_keys=False), encoding="utf-8")
        generator = {"name": CONFIG, "namespace": _NAMESPACE, "behavior": "replace", "files": ["config.yaml"]}
        wanted = {
            "resources": [os.path.relpath(DEPLOY / "overlays" / "default", folder)],  # kustomize takes no other paths
            "images": [_image(image)],
            "configMapGenerator": [generator],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(wanted), encoding="utf-8")
        done = subprocess.run([kubectl, "kustomize", name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise build.BuildError(f"kubectl kustomize: {done.stderr.strip()}")
    return _HEAD.format(version=version, image=image) + done.stdout


def _image(image: str) -> Json:
    """Return kustomize's entry for an image; the port of a registry is no tag."""
    if "@" in image:
        name, _, digest = image.partition("@")
        return {"name": "dovetail", "newName": name, "digest": digest}
    name, colon, tag = image.rpartition(":")
    if not colon or "/" in tag:
        raise build.BuildError(f"IMAGE={image} has no tag: write NAME:TAG, such as registry.example.com/dovetail:0.2.0")
    return {"name": "dovetail", "newName": name, "newTag": tag}
