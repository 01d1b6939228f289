"""Manifests for simulations, and answers that are kept as golden files."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from scheduler.cli import main

GOLDEN: Final = Path(__file__).parent.parent / "golden"
EXAMPLES: Final = Path(__file__).parents[2] / "examples"
IS_UPDATE: Final = os.environ.get("UPDATE_GOLDEN") == "1"
"""`UPDATE_GOLDEN=1 make unit TESTS=…` writes what is found as what is expected: look at the difference."""

Manifest = dict[str, Any]


def write_json(path: Path, manifests: Iterable[Manifest]) -> Path:
    """Write a List."""
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)}), encoding="utf-8")
    return path


def write_yaml(path: Path, *manifests: Manifest) -> Path:
    """Write a document each."""
    path.write_text(yaml.safe_dump_all(manifests), encoding="utf-8")
    return path


def run(*arguments: str | Path) -> int:
    """Run a command as the command line does; give its exit status."""
    try:
        return main([str(each) for each in arguments])
    except SystemExit as end:
        return int(end.code or 0)


def node(name: str = "n1", **status: str | int) -> Manifest:
    """A node with room."""
    allocatable = {"cpu": 8, "memory": "32Gi", "pods": 110, **status}
    labels = {"kubernetes.io/hostname": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable},
    }


def slice_of(node_name: str = "n1", count: int = 2) -> Manifest:
    """A node's devices gpu-0, gpu-1, …"""
    devices = [{"name": f"gpu-{index}", "capacity": {"memory": {"value": "40Gi"}}} for index in range(count)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-gpus"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def device_class() -> Manifest:
    """The class `gpu`."""
    selectors = [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": selectors},
    }


def claim_spec(count: int = 1) -> Manifest:
    """One request for so many devices of the class."""
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}}]}}


def claim(name: str = "c", **more: Any) -> Manifest:
    """A claim for one device."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": claim_spec(),
        **more,
    }


def template(name: str = "t", count: int = 1) -> Manifest:
    """A template for one device."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": claim_spec(count)},
    }


def pod(name: str = "p", *, claim_name: str = "", template_name: str = "", **spec: Any) -> Manifest:
    """A pod of ours, with a claim or a template where one is named."""
    entry = {"resourceClaimName": claim_name} if claim_name else {"resourceClaimTemplateName": template_name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "dovetail",
            "containers": [{"name": "main", "image": "pause"}],
            **({"resourceClaims": [{"name": "gpu", **entry}]} if claim_name or template_name else {}),
            **spec,
        },
    }
