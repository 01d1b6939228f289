"""
Whatever fails at whatever write: afterwards every pod that fits is bound, and nothing is held or evicted in vain.

Runs a sample. `FAIL_POINTS=each make integration TESTS=tests/integration/test_fail_points.py` runs every kind of write
at every kind of moment once, in some minutes. `FAIL_POINTS=all` runs every write of every scene at every moment, which
takes hours; `ARGS="-k 'gang and killed'"` narrows it down.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from e2e.audit.history import History
from e2e.audit.reading import Key
from e2e.audit.writes import read_writes
from e2e.controlplane.access import Access, RequestError
from e2e.dovetail import Dovetail
from tests.support.controlplane import wait_until
from tests.support.fail_point_matrix import cases, covering_cases
from tests.support.fail_points import (
    DELETE,
    END,
    LATE,
    MOMENTS,
    OF_LEADERS,
    REQUEST_SECONDS,
    SHELL,
    STEAL,
    STOP,
    WORKER,
    FailPoint,
)
from tests.support.fail_scenes import MERGE, Scene
from tests.support.marks import WITH_POD_GROUPS
from tests.support.people import bind
from tests.support.scenes import SCENES
from tests.support.shell_proxy import Asked, Told, lossy
from tests.support.shell_world import Start, World, wait_until_leading

pytestmark = pytest.mark.controlplane

SETTLED_SECONDS: Final = 90.0
SAMPLE: Final = (
    "single-finalizer-1-killed-after",
    "single-binding-1-504-after",
    "single-lease-2-reset-after",
    "two-claims-allocation-2-killed-before",
    "speculative-finalizer-1-silent-after",
    "shared-reservation-1-silent-after",
    "gang-allocation-4-killed-after",
    "gang-allocation-4-409-before",
    "gang-binding-3-killed-after",
    "gang-group-1-500-before",
    "withdrawn-release-1-killed-after",
    "withdrawn-release-1-stopped-late",
    "adopted-adoption-1-409-after",
    "preemption-nomination-1-killed-after",
    "preemption-eviction-1-killed-after",
    "preemption-eviction-2-500-before",
    "preemption-binding-1-worker-killed",
    "gang-preemption-eviction-4-silent-after",
    "held-binding-1-killed-after",
    "held-hold-note-1-killed-before",
    "held-hold-end-1-silent-after",
    "kept-node-keep-node-1-killed-after",
    "kept-node-let-node-go-1-silent-after",
    "repair-repair-plan-1-killed-after",
    "repair-hold-2-killed-after",
    "repair-repair-note-1-killed-after",
    "repair-eviction-1-killed-before",
    "repair-eviction-1-killed-after",
    "repair-repair-note-2-silent-after",
    "repair-hold-end-1-killed-before",
    "volumes-volume-1-killed-after",
    "volumes-selected-node-1-500-after",
    "extended-special-claim-1-killed-after",
    "extended-allocation-1-stopped-before",
    "quota-quota-status-1-409-after",
    "quota-quota-status-1-killed-before",
    "quota-quota-status-1-stopped-before",
    "two-claims-allocation-1-stopped-late",
    "gang-allocation-4-ended-before",
    "shared-reservation-1-lease-deleted",
    "preemption-eviction-1-lease-stolen",
    "let-in-hold-1-killed-after",
    "let-in-check-state-1-504-after",
    "parked-park-mark-1-killed-after",
    "remade-pod-allocation-1-409-after",
    "remade-waiting-pod-condition-1-reset-after",
    "remade-claim-allocation-1-silent-after",
    "remade-group-allocation-1-504-after",
    "remade-node-binding-1-reset-before",
    "remade-classes-allocation-1-killed-after",
    "remade-volumes-volume-1-500-after",
    "remade-extended-announcement-1-409-before",
)


NEEDS: Final = {
    **dict.fromkeys(("gang", "withdrawn", "gang-preemption", "remade-group"), WITH_POD_GROUPS),
    **dict.fromkeys(("extended", "remade-extended"), pytest.mark.kubernetes(gates=("DRAExtendedResource",))),
}
"""What a scene needs of the server."""


def scene_of(case: str) -> str:
    """Return the name of a case's scene."""
    return max((each for each in SCENES if case.startswith(f"{each}-")), key=len)


CHOICES: Final[dict[str, Iterable[str]]] = {"": SAMPLE, "each": covering_cases(), "all": cases()}
CASES: Final = [
    pytest.param(case, marks=[NEEDS[scene_of(case)]] if scene_of(case) in NEEDS else [])
    for case in CHOICES[os.environ.get("FAIL_POINTS", "")]
]


def read(case: str) -> tuple[type[Scene], str, int, str]:
    """Take a case's name apart: scene, kind and number of the write, moment."""
    scene = scene_of(case)
    for kind, number in SCENES[scene].writes:
        head = f"{scene}-{kind}-{number}-"
        if case.startswith(head):
            return SCENES[scene], kind, number, case.removeprefix(head)
    raise ValueError(f"{case}: no such write")


def configuration(world: World, folder: Path, scene: type[Scene]) -> str:
    """Write what all cases have: short waits, and devices that evictions free."""
    path = folder / "config.yaml"
    profile = {"schedulerName": world.scheduler, "preemption": {"devices": True, "minimumRunSeconds": 0}}
    lease = {"leaseDurationSeconds": 5, "renewDeadlineSeconds": 3.5, "retryPeriodSeconds": 0.5}
    document = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "profiles": [profile],
        "commit": {"requestTimeoutSeconds": REQUEST_SECONDS},
        "repair": {
            "mode": "apply",
            "autoApprove": True,
            "intervalSeconds": 0.5,
            "minimumRunSeconds": 0,
            "coolDownSeconds": 0,
            "successorSeconds": 30,
        },
        "leaderElection": {"leaseName": world.word, "leaseNamespace": world.namespace, **lease},
        **scene.settings,
    }
    path.write_text(yaml.safe_dump(document))
    return f"--config={path}"


def workers(running: Dovetail) -> list[int]:
    """The processes that the scheduler has started: its solver."""
    command = ("ps", "-o", "pid=,comm=", "--ppid", str(running.pid))
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    return [int(line.split()[0]) for line in lines if "python" in line]


def accesses(world: World) -> Iterator[Access]:
    """Ways to the server with an administrator's rights, each with a token of its own, as replicas have them."""
    namespace, name = world.namespace, "replica"
    world.plane.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    bind(world.plane, "cluster-admin", namespace, name, name=f"replica-{world.word}")
    while True:
        yield world.plane.access_for_service_account(namespace, name)


def findings(world: World) -> list[str]:
    """What the API server's audit log says: a device with two holders, a write of a replica that does not lead."""
    assert world.plane.audit_log is not None
    about = Key(world.namespace, world.word)
    with world.plane.audit_log.open(encoding="utf-8") as log:
        writes = read_writes(line for line in log if world.word in line or world.namespace in line)
    found = History.of(writes, lease=about, left_seconds=SETTLED_SECONDS).findings
    return [str(each) for each in found if world.driver in each.subject or world.namespace in each.subject]


class Case:
    """A scene with one thing that goes wrong in it."""

    def __init__(self, scene: Scene, point: FailPoint, begin: Callable[..., Dovetail]) -> None:
        self.scene = scene
        self.point = point
        self.begin = begin

    def meet(self, asked: Asked, is_done: bool) -> Told | None:  # noqa: FBT001 - as `Meets` has it
        told = self.point.meet(asked, is_done)
        return told if told is not None else self.scene.meet(asked, is_done)

    def act(self, holds: str, running: Dovetail) -> None:
        """Do to the processes what the moment says, while the request is held."""
        if holds == SHELL:
            os.kill(running.pid, signal.SIGKILL)
            wait_until(lambda: not running.is_running())
            self.point.go_on()
            self.begin()
        elif holds == WORKER:
            for pid in workers(running):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.point.go_on()
        elif holds in {STOP, LATE}:
            self._outlast(running, is_late=holds == LATE)
        elif holds == END:
            os.kill(running.pid, signal.SIGTERM)
            wait_until(lambda: '"stopping"' in running.log.read_text())
            self.point.go_on()
            wait_until(lambda: not running.is_running())
        elif holds in {DELETE, STEAL}:
            self._take_lease(running, is_deleted=holds == DELETE)

    def settle(self) -> None:
        """Wait until all is as it has to be, and see that it stays so."""
        end = time.monotonic() + SETTLED_SECONDS
        while (problems := self.scene.problems()) and time.monotonic() < end:
            time.sleep(0.2)
        assert problems == []
        time.sleep(1.0)
        assert (self.scene.problems(), findings(self.scene.world)) == ([], [])

    def _lease(self, method: str, body: dict[str, object] | None = None) -> Any:
        world = self.scene.world
        path = f"/apis/coordination.k8s.io/v1/namespaces/{world.namespace}/leases/{world.word}"
        return world.plane.request(method, path, body, content=MERGE if body else "application/json")

    def _holder(self) -> str:
        try:
            return str(self._lease("GET")["spec"]["holderIdentity"])
        except RequestError as error:
            if error.status != 404:
                raise
            return ""

    def _take_lease(self, leader: Dovetail, *, is_deleted: bool) -> None:
        """Take the lease from the leader, which ends; its write arrives when the other replica leads."""
        before = self._holder()
        if is_deleted:
            self._lease("DELETE")
        else:
            self._lease("PATCH", {"spec": {"holderIdentity": "stranger", "leaseDurationSeconds": 4}})
        wait_until(lambda: self._holder() not in {"", "stranger", before})
        self.point.go_on()
        wait_until(lambda: not leader.is_running())

    def _outlast(self, leader: Dovetail, *, is_late: bool) -> None:
        """
        Stop the leader until another one has done its work.

        What it had under way arrives when another replica has the lease, which waits for such writes for the duration
        of the lease; or, where it `is_late`, when that replica has done everything already.
        """
        holder = self._holder()
        os.kill(leader.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: self._holder() != holder)
            if not is_late:
                self.point.go_on()
            self.settle()
            if is_late:
                self.point.go_on()
                self.settle()
        finally:
            os.kill(leader.pid, signal.SIGCONT)
        wait_until(lambda: not leader.is_running())


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_lost_leaked_or_given_twice_when(
    world: World, start: Start, account: Path, tmp_path: Path, case: str
) -> None:
    of_scene, kind, number, when = read(case)
    moment = MOMENTS[when]
    is_elected = kind == "lease" or moment.holds in OF_LEADERS
    arguments, admin = configuration(world, tmp_path, of_scene), world.plane.admin
    if is_elected:  # the account that is shipped may write its own lease only
        ways = accesses(world)
        admin, account = next(ways), next(ways).write_kubeconfig(tmp_path / "other.kubeconfig")
    made = Case(
        of_scene(world),
        FailPoint(kind, number, moment),
        lambda way=account: start(way, arguments, leader_elect=is_elected),
    )
    made.scene.furnish()
    try:
        with lossy(admin) as proxy:
            proxy.meet = made.meet
            running = made.begin(proxy.write_kubeconfig(tmp_path / "failing.kubeconfig"))
            made.scene.begins()
            if moment.holds in OF_LEADERS:
                wait_until_leading(running)
                made.begin()
            made.point.arm()
            made.scene.load()
            wait_until(made.point.reached.is_set)
            made.act(moment.holds, running)
            made.settle()
            made.point.go_on()
    finally:
        made.scene.clear()


def test_the_sample_names_writes_and_moments_that_there_are() -> None:
    assert set(SAMPLE) <= set(cases())
