"""The workloads of manifests, and everything that their controllers make: pods, volume claims, PodGroups."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from scheduler.kube.api_versions import NEWEST_MINOR
from scheduler.simulation import defaults
from scheduler.simulation.manifests import api_validation, decoding, fields
from scheduler.simulation.manifests.documents import Document, ManifestProblem
from scheduler.simulation.manifests.fields import Body, mapping, metadata, spec, subject, text
from scheduler.simulation.workloads import (
    controllers,
    exclusive_topology,
    foreign_kinds,
    job_controller,
    unknown_makers,
)
from scheduler.simulation.workloads.pod_templates import Owner, key_of_workload, namespace_of, owner_of
from solver.domain import Node, PodId

_MADE: Final = re.compile(r", (?:pod|job|its Job)(?: \d+)?(?=,|$)")
"""What the source of an object that a workload makes has after that of the workload."""


def origin(document: Document) -> tuple[str, str]:
    """Return the source and the name of an object; those that a workload makes have its source, and no name."""
    source, *made = _MADE.split(document.source, maxsplit=1)
    return source, "" if made else subject(document.body)


@dataclass
class WorkloadSet:
    """
    Workloads by their keys; a later one replaces an earlier one.

    Pods that are made later (suspended Jobs, CronJobs) are left out unless `makes_later`. `made_after` has the pods
    that are made one by one: the later pod, and the one before it. `foreign` are the keys of objects of other kinds
    that make pods. Their fields are those of a `minor` version. `problems` and `warnings` collect what is to be said.
    """

    problems: list[ManifestProblem]
    warnings: list[str]
    documents: dict[Owner, Document] = field(default_factory=dict)
    made_after: list[tuple[PodId, PodId]] = field(default_factory=list)
    makes_later: bool = True
    foreign: set[Owner] = field(default_factory=set)
    minor: int = NEWEST_MINOR
    _noted: set[tuple[str, str, str]] = field(default_factory=set)
    _names: defaults.GeneratedNames = field(default_factory=defaults.GeneratedNames)

    def add(self, document: Document) -> None:
        """Add a workload, with a note on what a decision about its pods assumes."""
        key = key_of_workload(document.body)
        known = self.documents.get(key)
        if known is not None and known.body != document.body:
            self._warn(document, "stands twice: the last one counts")
        self.documents[key] = document

    def of_other_kind(self, document: Document) -> list[Document] | None:
        """
        Return what a controller outside Kubernetes makes of an object; None for a kind that decides nothing.

        In a cluster (not `makes_later`) its pods are there already.
        """
        body, route = document.body, decoding.of(document.body)
        if route in decoding.WARNINGS:
            self._warn(document, decoding.WARNINGS[route])
            return []
        if route not in foreign_kinds.MAKERS:
            wrong = unknown_makers.error(body)
            if wrong is None:
                return None
            self._refuse(document, *wrong)
            return []
        self._names.complete(body, ())
        defaults.fill_metadata(body)
        self.foreign.add(key_of_workload(body))
        errors = list(fields.of_object(body))
        found: list[Document] = []
        if self.makes_later and not errors:
            found, errors = foreign_kinds.made(document, self.minor)
        for wrong in errors:
            self._refuse(document, *wrong)
        if found:
            self._note_controller(document)
            for note in foreign_kinds.notes(body):
                self._warn(document, note)
        self._note_order(found)
        return found

    def _note_controller(self, document: Document) -> None:
        """Say once for a file and kind which controller makes the pods."""
        file, kind = document.source.rpartition(": document ")[0], text(document.body.get("kind"))
        controller = foreign_kinds.controller(document.body)
        if (file, kind, controller) not in self._noted:
            self._noted.add((file, kind, controller))
            place = f"{file}: " if file else ""
            self.warnings.append(f"{place}{kind}: {controller} makes its pods, and has to run in the cluster")

    def _note_order(self, found: Iterable[Document]) -> None:
        """Note the pods among some that are made once their leader has a node."""
        self.made_after += exclusive_topology.order(each.body for each in found if each.body["kind"] == "Pod")

    @property
    def has_daemons(self) -> bool:
        """Whether the pods depend on the nodes."""
        return any(kind == "DaemonSet" for kind, _, _ in self.documents)

    def made(self, pods: Sequence[Body], nodes: Sequence[Node]) -> Iterator[Document]:
        """
        Return everything that the controllers make, up to the limit of pods in total.

        `pods` are those of the manifests: those of a workload are not made again.
        """
        workloads = tuple(self._affordable(len(nodes)))
        owned = _by_owner((*pods, *(each.body for each in workloads)))
        taken = {(namespace_of(pod), text(metadata(pod).get("name"))) for pod in pods}
        for document in workloads:
            if document.body["kind"] == "StatefulSet":
                taken.update((namespace_of(document.body), name) for name in controllers.stateful_names(document.body))
        around = controllers.Surroundings(nodes, owned, taken)
        for document in workloads:
            if note := job_controller.note(document.body):
                if not self.makes_later:
                    continue
                self._warn(document, note)
            found = controllers.made(document, around)
            space = namespace_of(document.body)
            self.made_after += ((PodId(space, later), PodId(space, former)) for later, former in found.follows)
            if found.follows and "schedulingGroup" in mapping(mapping(spec(document.body).get("template")).get("spec")):
                message = "OrderedReady makes a pod once the one before it runs, and a gang needs all: write Parallel"
                self._warn(document, f"spec.podManagementPolicy: {message}")
            self._note_order(found.documents)
            yield from found.documents
            made = (each.body for each in found.documents if each.body["kind"] == "Pod")
            taken.update((space, text(metadata(pod).get("name"))) for pod in made)

    def _affordable(self, node_count: int) -> Iterator[Document]:
        """Return the workloads in order, up to the limit of pods in total."""
        left = api_validation.MOST_PODS
        for document in self.documents.values():
            count = controllers.count(document.body, node_count)
            if count > left:
                most = api_validation.MOST_PODS
                message = f"its {count} pods and those of the workloads before it are more than {most}: write fewer"
                self._refuse(document, "spec", message)
                continue
            left -= count
            yield document

    def _refuse(self, document: Document, where: str, message: str) -> None:
        self.problems.append(ManifestProblem(document.source, subject(document.body), where, message))

    def _warn(self, document: Document, message: str) -> None:
        self.warnings.append(f"{document.source} ({subject(document.body)}): {message}")


def _by_owner(bodies: Iterable[Body]) -> dict[Owner, list[Body]]:
    """Group pods and workloads by the controller that owns them."""
    found = defaultdict[Owner, list[Body]](list)
    for body in bodies:
        owner = owner_of(body)
        if owner is not None:
            found[owner].append(body)
    return dict(found)
