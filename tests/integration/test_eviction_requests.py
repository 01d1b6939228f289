"""Why repairs evict by pods/eviction: nothing in Kubernetes acts on an EvictionRequest."""

import re
import subprocess

import pytest

from e2e.controlplane import build, versions

pytestmark = pytest.mark.controlplane


def test_no_controller_of_kubernetes_acts_on_eviction_requests() -> None:
    """Where this fails, one does: requests of repairs can be EvictionRequests there (docs/repair.md)."""
    binary = build.controlplane_binary(versions.chosen(None))
    told = subprocess.run(
        [binary, "kube-controller-manager", "--help"], check=True, capture_output=True, text=True
    ).stdout
    names = re.search(r"All controllers: (.*)", told)

    assert names is not None
    assert "replicaset-controller" in names[1]
    assert "evictionrequest" not in names[1].replace("-", "")
