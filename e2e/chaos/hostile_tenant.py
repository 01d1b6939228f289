"""Tenants who create generated hostile objects (`e2e.hostile.objects`), and the largest ones, in their namespace."""

import itertools
import random
import threading
from typing import Final

from e2e import objects
from e2e.audit.reading import Json
from e2e.chaos.cluster import Cluster
from e2e.hostile.cases.giants import giants
from e2e.hostile.objects.generator import generate
from e2e.hostile.objects.kinds import NAMESPACED

_WINDOW: Final = 25
"""Objects that exist at the same time."""
_LONGEST_PAUSE_SECONDS: Final = 0.5
_GIANTS: Final = 4
"""Giant objects that exist at the same time: every edit of one stays in the audit log with its megabytes."""
_GIANT_SECONDS: Final = 2.0
_EDITS: Final = 3
_MERGE: Final = "application/merge-patch+json"


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
        self._cluster.delete_at_once(objects.object_path(manifest))


class GiantTenant(threading.Thread):
    """Creates the largest objects that a tenant can write, edits and deletes them, until it is told to stop."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.admitted = 0
        self._cluster = cluster
        self._made: list[str] = []

    def run(self) -> None:
        """Create, edit and delete in turns, then delete everything."""
        for number in itertools.count():
            if self.stop.wait(_GIANT_SECONDS):
                break
            self.step(number)
        for path in self._made:
            self._remove(path)

    def step(self, number: int) -> None:
        """Create a giant, or edit one that is there."""
        if number % (_EDITS + 1) and self._made:
            path = self._made[number % len(self._made)]
            self._cluster.request("PATCH", path, {"metadata": {"labels": {"edited": str(number)}}}, content=_MERGE)
            return
        manifest = giants(number // (_EDITS + 1))
        if self._cluster.create(manifest) is not None:
            self.admitted += 1
            self._made.append(objects.object_path(manifest))
        if len(self._made) > _GIANTS:
            self._remove(self._made.pop(0))

    def _remove(self, path: str) -> None:
        self._cluster.delete_at_once(path)
