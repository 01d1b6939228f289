"""What happens to real nodes: SIGKILL for driver and kubelet, and reboots."""

import random
import threading
from typing import Final

from e2e.chaos.real_nodes import RealNodes

_LONGEST_PAUSE_SECONDS: Final = 30.0
_LONGEST_AWAY_SECONDS: Final = 8.0


class NodeFaults(threading.Thread):
    """Does one thing after the other to real nodes until it is told to stop."""

    def __init__(self, real: RealNodes, seed: int) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self._real = real
        self._random = random.Random(f"node faults {seed}")  # noqa: S311 - no secret
        self._kinds = ((0.45, real.kill_driver), (0.80, real.kill_kubelet), (1.01, real.reboot))

    def run(self) -> None:
        """Kill, and let it come back."""
        while not self.stop.wait(self._random.uniform(5, _LONGEST_PAUSE_SECONDS)):
            draw, name = self._random.random(), self._random.choice(self._real.names)
            harm = next(harm for limit, harm in self._kinds if draw < limit)
            harm(name, self._random.uniform(0, _LONGEST_AWAY_SECONDS))
