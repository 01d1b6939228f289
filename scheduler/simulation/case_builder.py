"""Builds a case from documents: sorts them, fills in defaults, creates claims, decodes, and takes a snapshot."""

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.change import Change, Kind
from scheduler.cluster import ListedCluster
from scheduler.kube.discovery import DiscoveredKinds
from scheduler.queue import in_queue_order
from scheduler.simulation import claim_templates, controllers, defaults, replacement
from scheduler.simulation.live_cluster import NEWEST, ClusterObjects
from scheduler.simulation.manifests import api_validation, decoding, group_rules
from scheduler.simulation.manifests.decoding import decoded, key_of
from scheduler.simulation.manifests.documents import LIVE, Document, ManifestFiles, ManifestProblem
from scheduler.simulation.manifests.fields import Body, mapping, metadata, spec, subject, text, without_nulls
from scheduler.simulation.simulator import SimulationCase
from solver.domain import HOSTNAME, Batch, Claim, Namespace, Pod, PodId, wording

_SHOWN: Final = 6


@dataclass
class CaseBuilder:
    """
    Documents by kind, and the objects of a live cluster (`live`), which documents of the same name replace.

    They mean what they mean to the server's version (`served`). `forbidden` are the kinds that could not be listed.

    `wrong` has the errors of claims (by key) that the API server would refuse. They stay in the case: pods that use
    them wait, with the error as the reason.
    """

    live: tuple[Change, ...] = ()
    served: DiscoveredKinds = NEWEST
    forbidden: tuple[str, ...] = ()
    objects: dict[tuple[Kind, str], Document] = field(default_factory=dict)
    templates: dict[claim_templates.Key, Document] = field(default_factory=dict)
    wrong_templates: dict[claim_templates.Key, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    workloads: list[Document] = field(default_factory=list)
    priority_classes: list[Body] = field(default_factory=list)
    group_templates: list[Document] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    names: defaults.GeneratedNames = field(default_factory=defaults.GeneratedNames)
    problems: list[ManifestProblem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, found: ClusterObjects, reading: ManifestFiles) -> "CaseBuilder":
        """Start with the objects of a cluster and with manifests; either may be empty."""
        builder = cls(found.changes, found.served, found.forbidden, problems=reading.problems)
        builder.warnings += found.warnings
        builder.add((*found.documents, *reading.documents))
        return builder

    @classmethod
    def as_cluster(cls, reading: ManifestFiles) -> ClusterObjects:
        """Return what manifests say of a cluster, for other manifests to be laid over it."""
        builder = cls.of(ClusterObjects(), reading)
        static = (*builder.templates.values(), *(Document(LIVE, each) for each in builder.priority_classes))
        return ClusterObjects(
            changes=builder.changes,
            documents=tuple(Document(LIVE, each.body) for each in static),
            warnings=(*builder.warnings, *map(str, builder.problems)),
        )

    def add(self, documents: Iterable[Document]) -> None:
        """Add documents; a later one replaces an earlier one of the same kind and name."""
        for source, body in documents:
            document = Document(source, without_nulls(body))
            route = decoding.of(document.body)
            wrong = decoding.wrong_version(document.body)
            if wrong:
                self._refuse(document, "apiVersion", wrong)
            elif route in decoding.WORKLOADS or route == decoding.GROUP_TEMPLATES:
                if not self._prepare(document):
                    (self.workloads if route in decoding.WORKLOADS else self.group_templates).append(document)
            elif route == decoding.PRIORITY_CLASS:
                if not self._prepare(document):
                    self.priority_classes.append(document.body)
            elif route == decoding.TEMPLATE:
                self._add_template(document)
            elif route in decoding.KINDS:
                self._add_object(decoding.KINDS[route], document)
            elif route in decoding.WARNINGS:
                self._warn(document, (decoding.WARNINGS[route],))
            else:
                self.skipped[f"{text(document.body['kind'])} ({text(document.body['apiVersion'])})"] += 1

    @functools.cached_property
    def changes(self) -> tuple[Change, ...]:
        """All objects: those of the manifests, and those of the cluster that no manifest replaces."""
        for document in self._affordable():
            self.add(each for each in controllers.documents(document) if not self._is_known_claim(each.body))
        self._replace_pods()
        self._fill_priorities()
        self._compare_templates()
        self._admit()
        self._create_claims()
        self._create_volume_claims()
        written = tuple(self.served.as_meant(tuple(self._changes())))
        changes, notes = controllers.bind_volumes(_latest((*self.live, *written)), _keys(self.live) - _keys(written))
        self.warnings += notes
        return changes

    def case(self, scheduler_name: str) -> SimulationCase:
        """Return the case for the pods that name a scheduler. Call it once."""
        cluster = ListedCluster(self.changes)
        snapshot = cluster.snapshot
        waiting = self._waiting(self.pods, scheduler_name)
        self._warn_of_bound(cluster)
        if not snapshot.nodes and Kind.NODES not in self.forbidden:
            where = "in the cluster" if self.live else "among the manifests"
            self.warnings.append(f"there is no Node {where}: nothing can be placed")
        if self.skipped:
            names = [f"{count} × {name}" if count > 1 else name for name, count in sorted(self.skipped.items())]
            self.warnings.append(f"skipped, because they decide nothing here: {wording.shortened(names, _SHOWN)}")
        return SimulationCase(
            snapshot=snapshot,
            batch=cluster.with_gangs(Batch(pods=waiting)),
            own=self.own & {pod.id for pod in waiting},
            problems=tuple(self.problems),
            warnings=tuple(dict.fromkeys(self.warnings)),
        )

    def _affordable(self) -> Iterator[Document]:
        """Return the workloads in order, up to the limit of pods in total."""
        left = api_validation.MOST_PODS
        for document in self.workloads:
            count = controllers.count(document.body)
            if count > left:
                message = (
                    f"its {count} pods and those of the workloads before it are more than {api_validation.MOST_PODS}"
                )
                self._refuse(document, "spec", f"{message}: write fewer")
                continue
            left -= count
            yield document

    @functools.cached_property
    def own(self) -> frozenset[PodId]:
        """The pods of the manifests."""
        return frozenset(pod.id for pod in self.pods if (Kind.PODS, str(pod.id)) in self.objects)

    @functools.cached_property
    def pods(self) -> tuple[Pod, ...]:
        """All pods of the case."""
        return tuple(change.value for change in self.changes if isinstance(change.value, Pod))

    def _replace_pods(self) -> None:
        """Remove the cluster's pods that manifests replace, with what they hold."""
        workloads = {
            (text(each.body.get("kind")), text(metadata(each.body).get("namespace")) or "default", name)
            for each in self.workloads
            if (name := text(metadata(each.body).get("name")))
        }
        keys = {key_of(each.body) for each in self._documents(Kind.PODS) if not spec(each.body).get("nodeName")}
        groups = {key_of(each.body) for each in self._documents(Kind.POD_GROUPS)}
        gone = replacement.replaced(self.live, keys, workloads)
        self.live = replacement.without_pods(self.live, gone, groups)
        if running := [str(pod.id) for pod in gone if pod.node_name]:
            assumed = "what runs already is decided anew, and what it holds counts as free"
            self.warnings.append(f"{assumed}: {wording.shortened(running, _SHOWN)}")

    def _refuse(self, document: Document, where: str, message: str) -> None:
        self.problems.append(ManifestProblem(document.source, subject(document.body), where, message))

    def _add_object(self, kind: Kind, document: Document) -> None:
        body = document.body
        wrong = self._prepare(document)
        if wrong and kind is not Kind.CLAIMS:
            return
        if kind is Kind.NODES:
            self._warn(document, defaults.fill_node(body))
        key = key_of(body)
        if wrong:
            self.wrong[key] = wrong
        known = self.objects.get((kind, key))
        if known is not None and known.body != body:
            self._warn(document, ("stands twice: the last one counts",))
        self.objects[kind, key] = document

    def _add_template(self, document: Document) -> None:
        """Add a template; its errors are reported here, not again for each claim."""
        wrong = self._prepare(document)
        key = _pair(document.body)
        if not wrong:
            _, problem = decoded(Kind.CLAIMS, decoding.claim_of(document))
            if problem is not None:
                wrong = f"{problem.field}: {problem.message}"
                self._refuse(document, f"spec.{problem.field}", problem.message)
        known = self.templates.get(key)
        if known is not None and known.source == LIVE and not decoding.has_same_claim(known, document):
            self._refuse(document, "spec", decoding.of_template())
        if wrong:
            self.wrong_templates[key] = f"template {key[1]}: {wrong}"
        self.templates[key] = document

    def _prepare(self, document: Document) -> str:
        """Fill in defaults and report what the API server would refuse; return the first error, empty without one."""
        body = document.body
        kind = decoding.KINDS.get(decoding.of(body))
        self.names.complete(body, (change.key for change in self.live if change.kind is kind))
        defaults.fill_metadata(body)
        found = list(api_validation.of_object(body, self.served.minor))
        for wrong in found:
            self._refuse(document, wrong.field, wrong.message)
        fill = defaults.FILL.get(text(body["kind"]))
        if fill is not None:
            fill(body)
        return f"{found[0].field}: {found[0].message}" if found else ""

    def _warn(self, document: Document, messages: Iterable[str]) -> None:
        self.warnings += [f"{document.source} ({subject(document.body)}): {each}" for each in messages]

    def _documents(self, kind: Kind) -> list[Document]:
        return [document for (each, _), document in self.objects.items() if each is kind]

    def _fill_priorities(self) -> None:
        priorities = defaults.priorities(self.priority_classes)
        for kind, fill in ((Kind.PODS, defaults.fill_pod), (Kind.POD_GROUPS, defaults.fill_group)):
            for document in self._documents(kind):
                name = defaults.unknown_priority(document.body, priorities)
                if name:
                    message = f"spec.priorityClassName: no PriorityClass {name}: its priority counts as 0"
                    self._warn(document, (message,))
                fill(document.body, priorities)

    def _compare_templates(self) -> None:
        """Warn where Workloads and PodGroups of manifests do not match; a live cluster may have either."""
        if self.live:
            return
        documents = (*self.group_templates, *self._documents(Kind.POD_GROUPS))
        sources = {id(each.body): each for each in documents}
        groups = (each.body for each in self._documents(Kind.POD_GROUPS))
        for body, message in group_rules.unmatched((each.body for each in self.group_templates), groups):
            self._warn(sources[id(body)], (message,))

    def _create_claims(self) -> None:
        """Create the claims that PodGroups, and then pods, need from templates."""
        claims = {_pair(document.body): document.body for document in self._documents(Kind.CLAIMS)}
        made = claim_templates.existing_claims(claims)
        taken = {*claims, *(change.value.id for change in self.live if isinstance(change.value, Claim))}
        groups = {_pair(document.body): document.body for document in self._documents(Kind.POD_GROUPS)}
        for document in (*self._documents(Kind.POD_GROUPS), *self._documents(Kind.PODS)):
            pod = document.body
            claim_templates.add_group_claims(pod, groups)
            for each in claim_templates.entries_without_claim(pod):
                known = made.get((text(metadata(pod).get("uid")), each.entry))
                if known is not None:
                    claim_templates.add_claim_status(pod, each.entry, known)
                    continue
                key = text(metadata(pod).get("namespace")), each.template
                template = self.templates.get(key)
                if template is None:
                    self._warn(document, (f"{each.field}: {claim_templates.absent(key, self.templates)}",))
                    continue
                claim = claim_templates.create_claim(pod, each, template.body, taken)
                defaults.fill_metadata(claim)
                taken.add(_pair(claim))
                self.objects[Kind.CLAIMS, key_of(claim)] = Document(f"{template.source}, stamped", claim)
                if key in self.wrong_templates:
                    self.wrong[key_of(claim)] = self.wrong_templates[key]

    def _create_volume_claims(self) -> None:
        """Create the claims of ephemeral volumes, and set the default storage class."""
        for document in self._documents(Kind.PODS):
            made = (each for each in controllers.ephemeral_claims(document.body) if not self._is_known_claim(each))
            self.add([Document(f"{document.source}, made for the pod", each) for each in made])
        default = controllers.default_class(each.body for each in self._documents(Kind.STORAGE_CLASSES))
        for document in self._documents(Kind.VOLUME_CLAIMS):
            controllers.fill_class(document.body, default)

    def _is_known_claim(self, body: Body) -> bool:
        """Whether it is a volume claim that exists already, so that no controller creates it."""
        if decoding.KINDS.get(decoding.of(body)) is not Kind.VOLUME_CLAIMS:
            return False
        key = key_of(body)
        return (Kind.VOLUME_CLAIMS, key) in self.objects or any(
            each.kind is Kind.VOLUME_CLAIMS and each.key == key for each in self.live
        )

    def _namespaces(self) -> dict[str, Namespace]:
        known = {change.key: change.value for change in self.live if isinstance(change.value, Namespace)}
        for document in self._documents(Kind.NAMESPACES):
            change, _ = decoded(Kind.NAMESPACES, document)
            if change is not None and isinstance(change.value, Namespace):
                known[change.key] = change.value
        return known

    def _admit(self) -> None:
        """Refuse claims and templates that ask for admin access where the namespace does not allow it."""
        namespaces = self._namespaces()
        for document in self._documents(Kind.CLAIMS):
            wrong = self._not_admitted(document, spec(document.body), "spec", namespaces)
            if wrong:
                self.wrong.setdefault(key_of(document.body), wrong)
        for key, document in self.templates.items():
            claim_spec = mapping(spec(document.body).get("spec"))
            wrong = self._not_admitted(document, claim_spec, "spec.spec", namespaces)
            if wrong:
                self.wrong_templates.setdefault(key, f"template {key[1]}: {wrong}")

    def _not_admitted(self, document: Document, claim_spec: Body, where: str, namespaces: dict[str, Namespace]) -> str:
        asked = decoding.wants_admin_access(claim_spec)
        if not asked:
            return ""
        name = text(metadata(document.body).get("namespace"))
        wrong = decoding.objection(name, namespaces)
        if wrong:
            self._refuse(document, f"{where}.{asked}", wrong)
            return f"{where}.{asked}: {wrong}"
        if name not in namespaces:
            label = f'{decoding.LABEL}: "true"'
            self.warnings.append(f"adminAccess needs the label {label} on namespace {name}: taken as given")
        return ""

    def _changes(self) -> Iterator[Change]:
        """Decode everything; what cannot be read is named, once."""
        there = replacement.claims_by_id(self.live)
        for (kind, key), document in self.objects.items():
            change, problem = decoded(kind, document)
            wrong = self.wrong.get(key, "") if kind is Kind.CLAIMS else ""
            if problem is not None and not wrong:
                self.problems.append(problem)
            if change is None:
                continue
            if isinstance(change.value, Claim) and not wrong:
                wrong = decoding.of_claim(change.value, there.get(change.value.id))
                if wrong:
                    self._refuse(document, "spec", wrong)
            if isinstance(change.value, Claim):
                claim = replacement.with_status(change.value, there.get(change.value.id))
                if wrong:
                    claim = msgspec.structs.replace(claim, invalid=wrong)
                change = Change(kind=kind, key=key, value=claim)
            yield change
        yield from self._unwritten_namespaces()

    def _unwritten_namespaces(self) -> Iterator[Change]:
        """Return the namespaces of pods that have no manifest, with the label of their name."""
        known = {change.key for change in self.live if change.kind is Kind.NAMESPACES}
        known |= {key for kind, key in self.objects if kind is Kind.NAMESPACES}
        names = {text(metadata(document.body).get("namespace")) for document in self._documents(Kind.PODS)}
        for name in sorted(names - known):
            labels = ((defaults.OWN_LABELS["Namespace"], name),)
            yield Change(kind=Kind.NAMESPACES, key=name, value=Namespace(name=name, labels=labels))

    def _waiting(self, pods: Sequence[Pod], scheduler_name: str) -> tuple[Pod, ...]:
        """Return the pods that wait for a scheduler, as its queue would: by priority, then by age."""
        pending = [pod for pod in pods if not (pod.node_name or pod.is_terminal or pod.is_deleting)]
        asked = [pod for pod in pending if pod.id in self.own] if self.live and self.own else pending
        others = Counter(pod.scheduler_name for pod in asked if pod.scheduler_name != scheduler_name)
        if others:
            count = others.total()
            pods_wait = f"{count} pods without nodeName name" if count > 1 else "1 pod without nodeName names"
            other = "other schedulers" if len(others) > 1 else "another scheduler"
            self.warnings.append(
                f"{pods_wait} {other} ({', '.join(sorted(others)[:_SHOWN])}) than {scheduler_name} and "
                f"{'are' if count > 1 else 'is'} left out (see --scheduler-name)"
            )
        ours = [pod for pod in pending if pod.scheduler_name == scheduler_name]
        knows_templates = claim_templates.RESOURCE not in self.forbidden
        return tuple(in_queue_order(claim_templates.checked(ours, self.templates) if knows_templates else ours))

    def _warn_of_bound(self, cluster: ListedCluster) -> None:
        """Warn about pods with spec.nodeName: no scheduler handles them, so their claims are never allocated."""
        for document in self._documents(Kind.PODS):
            node = text(spec(document.body).get("nodeName"))
            if not node or mapping(document.body.get("status")).get("phase") in {"Succeeded", "Failed"}:
                continue
            pod = cluster.pod(PodId(*_pair(document.body)))
            for claim_id in pod.claim_ids if pod is not None else ():
                claim = cluster.claim(claim_id)
                if claim is None or claim.allocation is None:
                    message = (
                        f"spec.nodeName: is set, so no scheduler runs for the pod and claim {claim_id.name} is never "
                        f"allocated: write nodeSelector: {{{HOSTNAME}: {node}}} instead"
                    )
                    self._warn(document, (message,))


def _pair(body: Body) -> claim_templates.Key:
    found = metadata(body)
    return text(found.get("namespace")), text(found.get("name"))


def _latest(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Keep the last change of every object."""
    return tuple({(each.kind, each.key): each for each in changes}.values())


def _keys(changes: Iterable[Change]) -> set[tuple[Kind, str]]:
    return {(each.kind, each.key) for each in changes}
