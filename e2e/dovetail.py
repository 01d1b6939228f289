"""
Dovetail next to a control plane: installed as `deploy/` says, run as a process with its service account's rights.

`python -m e2e.dovetail …` is `python -m scheduler …` that also ends when its parent process is gone, so that nothing
is left behind however a test or a command ends.
"""

import http.client
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final, Self

import yaml

from e2e.controlplane.plane import REPOSITORY, ControlPlane, free_port
from e2e.controlplane.processes import Component

DEPLOY = REPOSITORY / "deploy" / "overlays" / "default"
NAMESPACE = "dovetail-system"
SERVICE_ACCOUNT = "dovetail"
READY_SECONDS = 120.0
GRACE_SECONDS = 15.0
REPAIRS: Final[dict[str, Any]] = {
    "mode": "apply",
    "autoApprove": True,
    "intervalSeconds": 1,
    "minimumRunSeconds": 0,
    "coolDownSeconds": 0,
    "budget": {"movesPerHour": 100_000, "movesPerHourOfNamespace": 100_000, "movesAtOnce": 1000},
}
"""The section `repair` of a configuration that repairs at once, with its budgets lifted."""


def install(plane: ControlPlane, *components: str) -> Path:
    """
    Apply `deploy/overlays/default` (server-side) and return the path of a kubeconfig of its service account.

    `components` are those of `deploy/components` that are off by default.

    The Deployment gets no replicas: there is no image and no kubelet, Dovetail runs as a process of this machine.
    """
    manifests = [each for each in yaml.safe_load_all(plane.kubectl("kustomize", str(DEPLOY))) if each]
    for manifest in manifests:
        if manifest["kind"] == "Deployment":
            manifest["spec"]["replicas"] = 0
    plane.kubectl("apply", "--server-side", "-f", "-", input=yaml.safe_dump_all(manifests))
    for name in components:
        folder = DEPLOY.parents[1] / "components" / name
        for file in sorted(set(folder.glob("*.yaml")) - {folder / "kustomization.yaml"}):
            plane.kubectl("apply", "--server-side", "-f", str(file))
            if file.name == "crd.yaml":
                plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(file))
    return plane.kubeconfig_for_service_account(NAMESPACE, SERVICE_ACCOUNT)


class Dovetail(Component):
    """The running scheduler; `stop` ends it as a kubelet does, with SIGTERM and some grace."""

    def __init__(self, kubeconfig: Path, log: Path, *arguments: str, home: Path = REPOSITORY) -> None:
        """`home` is the checkout that runs, with an environment of its own where it is another one than this."""
        self._port = free_port()
        python = sys.executable if home == REPOSITORY else str(home / ".venv" / "bin" / "python")
        command = [python, "-m", "e2e.dovetail", "run", f"--kubeconfig={kubeconfig}"]
        address = f"--bind-address=127.0.0.1:{self._port}"
        super().__init__("dovetail", [*command, address, *arguments], log, cwd=home)

    @classmethod
    def start(
        cls, kubeconfig: Path, log: Path, *arguments: str, leader_elect: bool = True, home: Path = REPOSITORY
    ) -> Self:
        """Start it and wait until it is ready. Raises ComponentError, with nothing left running."""
        started = cls(kubeconfig, log, f"--leader-elect={str(leader_elect).lower()}", *arguments, home=home)
        try:
            started.wait_until_ready()
        except BaseException:
            started.stop()
            raise
        return started

    @property
    def address(self) -> str:
        """Where health and metrics are served."""
        return f"http://127.0.0.1:{self._port}"

    def get(self, path: str) -> tuple[int, str]:
        """Ask the scheduler for health or series; return status and text. Raises OSError where it does not answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        finally:
            connection.close()

    def wait_until_ready(self, *, poll_seconds: float = 0.02) -> None:
        """Wait until `/readyz` says yes. Raises ComponentError when it ends first or takes too long."""
        self.wait_until(self._is_ready, READY_SECONDS, poll_seconds=poll_seconds)

    def stop(self) -> None:
        """Ask it to end, wait, and kill it only when it does not."""
        if self.is_running():
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                print(f"dovetail did not end within {GRACE_SECONDS:.0f} s of SIGTERM", file=sys.stderr)
        super().stop()

    def _is_ready(self) -> bool:
        try:
            return self.get("/readyz")[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            return False


def _end_with_stdin() -> None:
    """Wait until standard input is closed, which it is when the other end has died, and end as if told to."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def run() -> int:
    """Run the command line, and end when standard input is closed."""
    from scheduler.cli import main  # noqa: PLC0415 - tests import this module, and not the scheduler

    if os.environ.pop("DOVETAIL_END_WITH_STDIN", ""):
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    return main()


if __name__ == "__main__":
    sys.exit(run())
