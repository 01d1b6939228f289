"""What can be said about the fences without a cluster; `test_fences` has them refuse at the API server."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.settings import load
from tests.support.deploy_manifests import documents

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
ADMISSION = DEPLOY / "admission"
FENCED = DEPLOY / "overlays" / "fenced" / "kustomization.yaml"
ACCOUNT = "system:serviceaccount:dovetail-system:dovetail"

_KEY = re.compile(r"(?<![\w.])(?:dovetail\.dev|\{OUR_GROUP\})/([a-z-]+)(?![a-z0-9-])")
_OF_THE_LEASE = frozenset({"drained", "leader-report", "record", "record-version"})
_OF_KUEUE = frozenset({"parked", "placement"})
_OTHERS = (
    _OF_THE_LEASE
    | _OF_KUEUE
    | {"adopted", "binding-failed", "node-reserved", "place", "scheduler", "suspect", "unreadable"}
)
"""
What Dovetail alone writes (on claims, bindings, Workloads and its Lease, as the controller of events, as a condition of
pods), the name of its admission check, and
the taints of devices in its own memory.
"""


def _table(fence: str) -> dict[str, str]:
    (found,) = documents(ADMISSION / fence / "params.yaml")
    data: dict[str, str] = found["data"]
    return data


def _policy(fence: str) -> dict[str, Any]:
    return documents(ADMISSION / fence / "policy.yaml")[0]


@pytest.mark.parametrize("fence", sorted(path.name for path in ADMISSION.iterdir()))
def test_every_fence_lists_its_files_and_is_in_the_overlay(fence: str) -> None:
    (component,) = documents(ADMISSION / fence / "kustomization.yaml")
    files = {path.name for path in (ADMISSION / fence).iterdir()} - {"kustomization.yaml"}
    assert set(component["resources"]) == files
    (overlay,) = documents(FENCED)
    assert f"../../admission/{fence}" in overlay["components"]


def test_every_key_that_users_may_write_belongs_to_a_feature() -> None:
    sources = [*(ROOT / "scheduler").rglob("*.py"), *(ROOT / "solver").rglob("*.py")]
    read = {key for path in sources for key in _KEY.findall(path.read_text(encoding="utf-8"))}
    (features,) = [
        each["expression"] for each in _policy("features")["spec"]["variables"] if each["name"] == "features"
    ]
    assert read - _OTHERS <= set(_KEY.findall(features))
    assert not _OTHERS & set(_KEY.findall(features))


def test_features_for_every_namespace_are_ones_that_exist() -> None:
    (features,) = [
        each["expression"] for each in _policy("features")["spec"]["variables"] if each["name"] == "features"
    ]
    known = set(re.findall(r": '([a-z]+)'", features))
    assert known == {"gang", "topology", "protection", "check"}
    assert set(_table("features")["everywhere"].split()) <= known


def test_the_account_of_the_fences_is_that_of_the_base() -> None:
    tables = [_table(path.name) for path in ADMISSION.iterdir()]
    assert {table["accounts"] for table in tables} == {ACCOUNT}


def test_every_limit_is_used_and_none_is_missing() -> None:
    used = set(re.findall(r"params\.data\.(\w+)", (ADMISSION / "limits" / "policy.yaml").read_text(encoding="utf-8")))
    assert used == set(_table("limits"))


def test_without_a_table_of_its_own_dovetail_owns_everything_in_both_places() -> None:
    owned = load(DEPLOY / "base" / "config.yaml").devices.owned
    assert (_table("allocations")["drivers"], _table("allocations")["nodes"]) == ("", "")
    assert (owned.drivers, owned.node_selector.match_labels) == ((), {})


def test_the_table_of_the_overlay_splits_devices_as_its_configuration_does() -> None:
    (overlay,) = documents(FENCED)
    (table,) = [yaml.safe_load(each["patch"])["data"] for each in overlay["patches"]]
    (base,) = overlay["resources"]
    owned = load((FENCED.parent / base / "config.yaml").resolve()).devices.owned
    assert set(table["drivers"].split()) == set(owned.drivers)
    assert bool(table["nodes"].split()) == bool(owned.node_selector.match_labels)
