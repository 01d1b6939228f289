"""A tenant who creates generated hostile objects (`e2e.hostile.objects`) in a namespace of its own."""

import itertools
import random
import threading
from typing import Final

from e2e import objects
from e2e.audit.reading import Json
from e2e.chaos.cluster import Cluster
from e2e.hostile.objects.generator import generate
from e2e.hostile.objects.kinds import NAMESPACED

_WINDOW: Final = 25
"""Objects that exist at the same time."""
_LONGEST_PAUSE_SECONDS: Final = 0.5


class HostileTenant(threading.Thread):
    """
    Creates objects and deletes them a moment later, until it is told to stop.

    A quota bounds what the tenant holds. Finalizers are left out, which would keep the objects for ever. So are
    priorities: the judge does not know for which pods the pods of this namespace are evicted.
    """

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.admitted = 0
        self._cluster = cluster
        self._seed = seed
        self._random = random.Random(f"hostile tenant {seed}")  # noqa: S311 - no secret
        self._made: list[Json] = []

    def run(self) -> None:
        """Create and delete, then delete everything."""
        for number in itertools.count(1):
            if self.stop.wait(self._random.random() * _LONGEST_PAUSE_SECONDS):
                break
            self.create(number)
            if len(self._made) > _WINDOW:
                self._remove(self._made.pop(self._random.randrange(_WINDOW)))
        for each in self._made:
            self._remove(each)

    def create(self, number: int) -> None:
        """Create the object of this number, if a tenant may."""
        hostile = generate(self._seed, number)
        manifest = hostile.manifest
        if hostile.kind not in NAMESPACED or not hostile.is_admitted or not isinstance(manifest.get("spec"), dict):
            return
        manifest["metadata"].pop("finalizers", None)
        for field in ("priority", "priorityClassName"):
            manifest["spec"].pop(field, None)
        if self._cluster.create(manifest) is not None:
            self.admitted += 1
            self._made.append(manifest)

    def _remove(self, manifest: Json) -> None:
        self._cluster.request("DELETE", objects.object_path(manifest), {"gracePeriodSeconds": 0})
