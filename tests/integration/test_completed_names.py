"""What the Tab key completes is what the API server has: pods, gangs, nodes, claims, namespaces, classes."""

from pathlib import Path

import pytest

from tests.scheduler.cli.test_completion import for_kubectl
from tests.support import people
from tests.support.shell_world import World

pytestmark = pytest.mark.controlplane


def completed(kubeconfig: Path, *words: str) -> list[str]:
    *found, directive = for_kubectl(*words, KUBECONFIG=str(kubeconfig), DOVETAIL_COMPLETION_SECONDS="60")
    assert directive.startswith(":")
    return found


def test_names_are_completed(world: World) -> None:
    world.add_nodes(2, devices=1)
    world.claim("shared")
    world.template()
    for name in ("trainer-0", "trainer-1", "other"):
        world.pod(name)
    path = f"/api/v1/namespaces/{world.namespace}/pods/other"
    body = {"metadata": {"labels": {"dovetail.dev/gang": "training"}}}
    world.plane.request("PATCH", path, body, content="application/merge-patch+json")
    admin, namespace = world.plane.kubeconfig, world.namespace

    assert completed(admin, "explain", "-n", namespace, "train") == ["trainer-0", "trainer-1"]
    assert completed(admin, "explain", "-n", namespace, "pod/o") == ["pod/other"]
    assert completed(admin, "explain", "-n", namespace, "pod", "o") == ["other"]
    assert completed(admin, "explain", f"{namespace}/trainer-1") == [f"{namespace}/trainer-1"]
    assert completed(admin, "explain", f"gang/{namespace}/t") == [f"gang/{namespace}/training"]
    assert completed(admin, "devices", f"node/{world.word}-") == [f"node/{world.word}-0", f"node/{world.word}-1"]
    assert completed(admin, "devices", "-n", namespace, "claim/sha") == ["claim/shared"]
    assert completed(admin, "queue", "-n", namespace[:-1]) == [namespace]
    assert completed(admin, "check", "--class", world.word) == [world.driver]


def test_a_caller_without_rights_gets_no_names_and_no_error(world: World, account: Path) -> None:
    del account  # it has installed the roles
    world.add_nodes(1, devices=1)
    few = people.kubeconfig_of(world.plane, "view")
    assert completed(few, "devices", f"node/{world.word}-") == []
