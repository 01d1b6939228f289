"""Kueue and Dovetail as processes beside one control plane."""

from pathlib import Path
from typing import Final

import yaml

from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail, install
from e2e.neighbours.kueue import Kueue
from tests.support.kueue_world import CLASS, QUOTA

SCHEDULER: Final = "dovetail"
PARK_SECONDS: Final = 3
"""So long a Workload without room keeps its quota."""


class Neighbours:
    """The processes; each can be stopped and started again."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self._folder = folder
        self._account = install(plane, "holds", "kueue")
        self.kueue = self._kueue()
        self.dovetail = self._dovetail()

    def restart_kueue(self) -> None:
        """Start Kueue again, which may have been stopped before."""
        self.kueue.stop()
        self.kueue = self._kueue()

    def restart_dovetail(self) -> None:
        """Start Dovetail again, which may have been stopped before."""
        self.dovetail.stop()
        self.dovetail = self._dovetail()

    def stop(self) -> None:
        """End both."""
        self.dovetail.stop()
        self.kueue.stop()

    def _kueue(self) -> Kueue:
        return Kueue.start(self.plane, classes={CLASS: QUOTA, "gpu.nvidia.com": QUOTA})

    def _dovetail(self) -> Dovetail:
        config = self._folder / "dovetail.yaml"
        document = {
            "apiVersion": "config.dovetail.dev/v1alpha1",
            "kind": "DovetailConfiguration",
            "profiles": [{"schedulerName": SCHEDULER}],
            "admissionCheck": {"enabled": True, "parkAfterSeconds": PARK_SECONDS},
        }
        config.write_text(yaml.safe_dump(document))
        return Dovetail.start(self._account, self._folder / "dovetail.log", f"--config={config}", leader_elect=False)
