"""The scheduler is killed amid a preemption: nothing is lost, no pod is evicted in vain, and the room stays held."""

import os
import signal
import time
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from e2e.controlplane.kubelet import STOP_SECONDS
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail
from tests.support.controlplane import wait_until
from tests.support.shell_proxy import Asked, Dam, LossyProxy, Told, is_binding, lossy
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

HIGH: Final[dict[str, Any]] = {"priorityClassName": "system-cluster-critical"}


def is_eviction(method: str, path: str) -> bool:
    """Whether a request evicts a pod, or asks whether it may."""
    return method == "POST" and path.endswith("/eviction")


def plain(world: World, name: str, cpu: str, *, lingers: bool = False, **spec: Any) -> None:
    """Create a pod that asks for cpu only; a node has 64. One that lingers stops only when it is deleted by force."""
    container = {"name": "main", "image": "example.com/none", "resources": {"requests": {"cpu": cpu}}}
    body = {
        "metadata": {"name": name, "annotations": {STOP_SECONDS: "3600"} if lingers else {}},
        "spec": {
            "schedulerName": world.scheduler,
            "nodeSelector": {"world": world.word},
            "terminationGracePeriodSeconds": 3600 if lingers else 0,
            "containers": [container],
            "tolerations": [{"operator": "Exists"}],
            **spec,
        },
    }
    world.plane.request("POST", f"/api/v1/namespaces/{world.namespace}/pods", body)


def fill(world: World, per_node: int, cpu: str, *, linger: bool = False) -> set[str]:
    """Two nodes that are full of pods of low priority; give their names."""
    world.add_nodes(2, devices=1)
    names = {f"low-{number}" for number in range(2 * per_node)}
    for name in sorted(names):
        plain(world, name, cpu, lingers=linger)
    return names


def nominated(world: World, name: str) -> str:
    return str((world.get_pod(name) or {"status": {}})["status"].get("nominatedNodeName", ""))


def there(world: World) -> set[str]:
    return {pod["metadata"]["name"] for pod in world.pods()}


def deleting(world: World) -> set[str]:
    return {pod["metadata"]["name"] for pod in world.pods() if "deletionTimestamp" in pod["metadata"]}


def let_go(world: World) -> None:
    """End the pods that are being deleted."""
    for name in deleting(world):
        world.delete_pod(name)


class Refusal:
    """Refuses writes to a path as the server does where a right is missing: they are given up at once."""

    def __init__(self, ending: str) -> None:
        self.ending = ending
        self.is_over = False

    def meet(self, asked: Asked, is_done: bool) -> Told | None:  # noqa: FBT001 - as `Meets` has it
        is_refused = asked.path.endswith(self.ending) and not is_done and not self.is_over
        return Told(403, b'{"kind": "Status", "status": "Failure", "code": 403}') if is_refused else None


def bindings(proxy: LossyProxy, name: str) -> int:
    """How often a pod's binding was tried."""
    return sum(each.endswith(f"/{name}/binding") for each in proxy.writes)


def kill(running: Dovetail) -> None:
    os.kill(running.pid, signal.SIGKILL)
    wait_until(lambda: not running.is_running())


def test_killed_between_nomination_and_eviction(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    dam = Dam(0, is_eviction)
    with lossy(control_plane.admin, before=dam.before) as proxy:
        first = start(proxy.write_kubeconfig(tmp_path / "first.kubeconfig"))
        lows = fill(world, 1, "40")
        wait_until(lambda: world.bound().keys() == lows)
        plain(world, "high", "60", **HIGH)
        wait_until(lambda: bool(nominated(world, "high")))
        kill(first)
        assert world.bound().keys() == lows
        dam.open()  # what it asked reaches the server: whether a pod may go, and no more
    start()

    wait_until(lambda: "high" in world.bound())
    assert len(there(world) & lows) == 1
    assert there(world) == world.bound().keys()


def test_killed_amid_the_evictions(control_plane: ControlPlane, world: World, start: Start, tmp_path: Path) -> None:
    dam = Dam(3, is_eviction)  # two trials, and one of two evictions
    with lossy(control_plane.admin, before=dam.before) as proxy:
        first = start(proxy.write_kubeconfig(tmp_path / "first.kubeconfig"))
        lows = fill(world, 2, "30")
        wait_until(lambda: world.bound().keys() == lows)
        plain(world, "high", "60", **HIGH)
        wait_until(lambda: len(there(world) & lows) == 3)
        kill(first)
        start()
        wait_until(lambda: "high" in world.bound())
        dam.open()

    assert len(there(world) & lows) == 2
    assert len({world.bound()[name] for name in there(world) & lows}) == 1


def test_killed_between_eviction_and_the_victims_end(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    del control_plane, tmp_path
    first = start()
    lows = fill(world, 1, "40", linger=True)
    wait_until(lambda: world.bound().keys() == lows)
    plain(world, "high", "60", **HIGH)
    wait_until(lambda: len(deleting(world)) == 1)
    victims, node = deleting(world), nominated(world, "high")

    kill(first)
    start()
    plain(world, "one", "20")  # there is room for one of them on each node
    plain(world, "other", "20")
    wait_until(lambda: len(world.bound().keys() & {"one", "other"}) == 1)
    wait_until(lambda: all(world.condition(name) for name in ("one", "other")))

    assert node not in {world.bound().get("one"), world.bound().get("other")}
    assert deleting(world) == victims
    assert nominated(world, "high") == node
    let_go(world)
    wait_until(lambda: "high" in world.bound())
    assert world.bound()["high"] == node
    assert there(world) & lows == lows - victims
    let_go(world)


def test_killed_between_the_victims_end_and_binding(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    dam = Dam(2, is_binding)
    with lossy(control_plane.admin, before=dam.before) as proxy:
        first = start(proxy.write_kubeconfig(tmp_path / "first.kubeconfig"))
        lows = fill(world, 1, "40")
        wait_until(lambda: world.bound().keys() == lows)
        plain(world, "high", "60", **HIGH)
        wait_until(lambda: bindings(proxy, "high") == 1)
        left = there(world) & lows
        kill(first)
        refusal = Refusal("/high/binding")
        proxy.before, proxy.meet = lambda _, path: path, refusal.meet
        start(proxy.write_kubeconfig(tmp_path / "second.kubeconfig"))
        wait_until(lambda: bindings(proxy, "high") > 1)
        smalls = {f"small-{number}" for number in range(3)}  # they are decided about while `high` rests
        for name in smalls:
            plain(world, name, "30")  # there is room for two of them where the victim was
        wait_until(lambda: all(bool(world.condition(name)) for name in smalls))
        tries = bindings(proxy, "high")
        wait_until(lambda: bindings(proxy, "high") > tries + 1)  # so that what `high` gave back has woken them
        refusal.is_over = True
        wait_until(lambda: "high" in world.bound())
        dam.open()

    assert there(world) & lows == left
    assert len(left) == 1
    assert not world.bound().keys() & smalls
    assert there(world) >= smalls  # none of them ran and was evicted


def bounded(world: World, folder: Path, most: int) -> str:
    """Write a configuration with so many evictions a minute, and a lease that ends soon."""
    path = folder / "config.yaml"
    lease = {"leaseDurationSeconds": 5, "renewDeadlineSeconds": 3.5, "retryPeriodSeconds": 0.5}
    document = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "profiles": [{"schedulerName": world.scheduler, "preemption": {"maxEvictionsPerMinute": most}}],
        "commit": {"requestTimeoutSeconds": 1},
        "leaderElection": {"leaseName": world.word, "leaseNamespace": world.namespace, **lease},
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return f"--config={path}"


def test_the_bound_on_evictions_outlives_the_leader(world: World, start: Start, tmp_path: Path) -> None:
    arguments = (world.plane.kubeconfig, bounded(world, tmp_path, most=1))
    first = start(*arguments, leader_elect=True)
    lows = fill(world, 1, "40")
    wait_until(lambda: world.bound().keys() == lows)
    plain(world, "high", "60", **HIGH)
    wait_until(lambda: "high" in world.bound())
    evicted = time.monotonic()
    kill(first)
    start(*arguments, leader_elect=True)

    plain(world, "next", "60", **HIGH)
    wait_until(lambda: bool(world.condition("next")), seconds=50)
    ends = min(time.monotonic() + 5, evicted + 55)
    while time.monotonic() < ends:
        assert len(there(world) & lows) == 1
        time.sleep(0.5)
