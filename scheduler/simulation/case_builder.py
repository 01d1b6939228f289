"""Builds a case from documents: sorts them, fills in defaults, creates claims, decodes, and takes a snapshot."""

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from scheduler.change import Change, Kind, split_key
from scheduler.cluster import ListedCluster
from scheduler.kube.discovery import DiscoveredKinds
from scheduler.queue import in_queue_order
from scheduler.simulation import case_warnings, claim_templates, defaults, replacement
from scheduler.simulation.admission import admin_access, quota_admission
from scheduler.simulation.admission.admission_chain import AdmissionChain
from scheduler.simulation.admission.quota_admission import QuotaLedger
from scheduler.simulation.live_cluster import NEWEST, ClusterObjects
from scheduler.simulation.manifests import api_validation, decoding, preference_warnings
from scheduler.simulation.manifests.decoding import decoded, key_of
from scheduler.simulation.manifests.documents import LIVE, Document, ManifestFiles, ManifestProblem
from scheduler.simulation.manifests.fields import Body, mapping, metadata, spec, subject, text, without_nulls
from scheduler.simulation.simulator import SimulationCase
from scheduler.simulation.workloads import volume_controllers
from scheduler.simulation.workloads.workload_set import WorkloadSet, origin
from solver.domain import Batch, Claim, DeviceClass, Namespace, Node, Pod, PodId


@dataclass
class CaseBuilder:
    """
    Documents by kind, and the objects of a live cluster (`live`), which documents of the same name replace.

    They mean what they mean to the server's version (`served`). `forbidden` are the kinds that could not be listed,
    `unlisted` those that only admission reads. `gone` are pods and claims of the cluster that manifests replace.
    ResourceQuotas refuse pods (`not_made`) and claims of pods' entries (`unclaimed`), with the reason; they refuse
    nothing where the objects are those of a cluster (not `admits`).

    `wrong` has the errors of claims (by key) that the API server would refuse. They stay in the case: pods that use
    them wait, with the error as the reason.
    """

    live: tuple[Change, ...] = ()
    served: DiscoveredKinds = NEWEST
    forbidden: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    is_live: bool = False
    objects: dict[tuple[Kind, str], Document] = field(default_factory=dict)
    templates: dict[claim_templates.Key, Document] = field(default_factory=dict)
    wrong_templates: dict[claim_templates.Key, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    admits: bool = True
    gone: tuple[Pod | Claim, ...] = ()
    not_made: dict[PodId, str] = field(default_factory=dict)
    unclaimed: dict[tuple[PodId, str], str] = field(default_factory=dict)
    said: set[tuple[str, ...]] = field(default_factory=set)
    group_templates: list[Document] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    names: defaults.GeneratedNames = field(default_factory=defaults.GeneratedNames)
    problems: list[ManifestProblem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @functools.cached_property
    def workloads(self) -> WorkloadSet:
        """The workloads of the manifests."""
        return WorkloadSet(self.problems, self.warnings, makes_later=self.admits, minor=self.served.minor)

    @functools.cached_property
    def admission(self) -> AdmissionChain:
        """The objects that admission plugins read."""
        return AdmissionChain(is_whole=lambda resource: self.is_live and resource not in self.unlisted)

    @classmethod
    def of(cls, found: ClusterObjects, reading: ManifestFiles, *, admits: bool = True) -> "CaseBuilder":
        """Start with the objects of a cluster and with manifests; either may be empty."""
        builder = cls(found.changes, found.served, found.forbidden, found.unlisted, problems=reading.problems)
        builder.is_live, builder.admits = found.is_live, admits
        builder.warnings += found.warnings
        builder.add((*found.documents, *reading.documents))
        return builder

    @classmethod
    def as_cluster(cls, reading: ManifestFiles) -> ClusterObjects:
        """Return what manifests say of a cluster, for other manifests to be laid over it."""
        builder = cls.of(ClusterObjects(), reading, admits=False)
        changes = builder.changes
        builder.quotas.write_used()
        static = (Document(LIVE, each.body) for each in (*builder.templates.values(), *builder.admission.documents()))
        warnings = (*builder.warnings, *map(str, builder.problems))
        return ClusterObjects(changes=changes, documents=tuple(static), warnings=warnings)

    def add(self, documents: Iterable[Document]) -> None:
        """Add documents; a later one replaces an earlier one of the same kind and name."""
        for source, body in documents:
            document = Document(source, without_nulls(body))
            route = decoding.of(document.body)
            wrong = decoding.wrong_version(document.body)
            if wrong:
                self._refuse_version(document, wrong)
            elif route in decoding.WORKLOADS or route == decoding.GROUP_TEMPLATES:
                if not self._prepare(document):
                    (self.workloads.add if route in decoding.WORKLOADS else self.group_templates.append)(document)
            elif route in decoding.READ_BY_ADMISSION:
                if not self._prepare(document):
                    self.admission.add(document)
            elif route == decoding.TEMPLATE:
                self._add_template(document)
            elif route in decoding.KINDS:
                self._add_object(decoding.KINDS[route], document)
            elif (found := self.workloads.of_other_kind(document)) is not None:
                self.add(each for each in found if not self._is_known_claim(each.body))
            else:
                self.skipped[f"{text(document.body['kind'])} ({text(document.body['apiVersion'])})"] += 1

    @functools.cached_property
    def changes(self) -> tuple[Change, ...]:
        """All objects: those of the manifests, and those of the cluster that no manifest replaces."""
        self._make_pods()
        self._replace_pods()
        self._admit_pods()
        if not self.live:  # which may have the Workloads and PodGroups that are missing
            self.warnings += case_warnings.unmatched_groups(self.group_templates, self._documents(Kind.POD_GROUPS))
        self._admit_admin_access()
        self._create_claims()
        self._create_volume_claims()
        written = tuple(self.served.as_meant(tuple(self._changes())))
        unwritten = replacement.keys(self.live) - replacement.keys(written)
        changes, notes = volume_controllers.bind_volumes(replacement.latest((*self.live, *written)), unwritten)
        self.warnings += notes
        return changes

    def case(self, scheduler_name: str, joining: Collection[PodId] = ()) -> SimulationCase:
        """Return the case for the pods that name a scheduler, and for others as if they did. Call it once."""
        cluster = ListedCluster(self.changes)
        snapshot = cluster.snapshot
        joined = (
            msgspec.structs.replace(pod, scheduler_name=scheduler_name) if pod.id in joining else pod
            for pod in self.pods
        )
        pending = [pod for pod in joined if pod.is_pending]
        asked = [pod for pod in pending if pod.id in self.own] if self.live and self.own else pending
        waiting = self._waiting(pending, scheduler_name)
        self.warnings += case_warnings.bound_pods(self._documents(Kind.PODS), cluster)
        if not snapshot.nodes and Kind.NODES not in self.forbidden:
            self.warnings.append(case_warnings.no_node(is_in_cluster=bool(self.live)))
        batch = cluster.with_gangs(Batch(pods=waiting))
        self.warnings += case_warnings.skipped(self.skipped)
        about = tuple(pod for pod in batch.pods if pod.id in {each.id for each in asked})
        preferring = msgspec.structs.replace(batch, pods=about, gangs=batch.gangs_of(about))
        self.warnings += case_warnings.unlisted(self.unlisted if self.own else ())
        return SimulationCase(
            snapshot=snapshot,
            batch=batch,
            own=self.own & {pod.id for pod in waiting},
            made_after=tuple(self.workloads.made_after),
            not_made=tuple(self.not_made.items()),
            problems=tuple(self.problems),
            warnings=tuple(dict.fromkeys(self.warnings)),
            preferences=tuple(preference_warnings.of(preferring, snapshot.nodes, snapshot.slices)),
            left_out=tuple(pod for pod in asked if pod.scheduler_name != scheduler_name),
        )

    def _make_pods(self) -> None:
        """Add what controllers make of workloads."""
        nodes: dict[str, Node] = {}
        if self.workloads.has_daemons:
            found = (decoded(Kind.NODES, document)[0] for document in self._documents(Kind.NODES))
            changes = (*self.live, *(change for change in found if change is not None))
            nodes = {change.key: change.value for change in changes if isinstance(change.value, Node)}
        pods = [document.body for document in self._documents(Kind.PODS)]
        made = self.workloads.made(pods, tuple(nodes.values()))
        self.add(each for each in tuple(made) if not self._is_known_claim(each.body))

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
        keys = {key_of(each.body) for each in self._documents(Kind.PODS) if not spec(each.body).get("nodeName")}
        groups = {key_of(each.body) for each in self._documents(Kind.POD_GROUPS)}
        gone = replacement.replaced(self.live, keys, {*self.workloads.documents, *self.workloads.foreign})
        left = replacement.without_pods(self.live, gone, groups)
        self.gone, self.live = replacement.removed(self.live, left), left
        self.warnings += case_warnings.decided_anew(gone)

    def _refuse(self, document: Document, where: str, message: str) -> None:
        """Say an error; those of equal objects that a workload makes are said once."""
        said = (*origin(document), where, message)
        if said not in self.said:
            self.said.add(said)
            self.problems.append(ManifestProblem(document.source, subject(document.body), where, message))

    def _refuse_version(self, document: Document, wrong: str) -> None:
        """Refuse an apiVersion; a template is there all the same, and pods that name it say so."""
        self._refuse(document, "apiVersion", wrong)
        if document.body.get("kind") == decoding.TEMPLATE[1]:
            defaults.fill_metadata(document.body)
            self.wrong_templates[_pair(document.body)] = "its template is refused"

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
            self._refuse(document, *wrong)
        fill = defaults.FILL.get(text(body["kind"]))
        if fill is not None:
            fill(body)
        return f"{found[0].field}: {found[0].message}" if found else ""

    def _warn(self, document: Document, messages: Iterable[str]) -> None:
        self.warnings += [f"{document.source} ({subject(document.body)}): {each}" for each in messages]

    def _documents(self, kind: Kind) -> list[Document]:
        return [document for (each, _), document in self.objects.items() if each is kind]

    def _admit_pods(self) -> None:
        """Change pods and PodGroups as admission does, and leave out what it refuses; quotas refuse what they lack."""
        for kind, admit in ((Kind.POD_GROUPS, self.admission.admit_group), (Kind.PODS, self.admission.admit_pod)):
            for document in self._documents(kind):
                errors, warnings = admit(document.body)
                self._warn(document, warnings)
                self._leave_out(kind, document, errors)
        for document in self._documents(Kind.VOLUME_CLAIMS):
            self._leave_out(Kind.VOLUME_CLAIMS, document, self.admission.volume_claim_errors(document.body))
        for document in self._documents(Kind.PODS):
            if refusal := self.quotas.add_pod(document.body):
                self.not_made[PodId(*_pair(document.body))] = refusal
        self.warnings += self.quotas.warnings(each.body for each in self._documents(Kind.VOLUME_CLAIMS))

    def _leave_out(self, kind: Kind, document: Document, errors: Iterable[tuple[str, str]]) -> None:
        """Leave out an object with errors."""
        for wrong in errors:
            self.objects.pop((kind, key_of(document.body)), None)
            self._refuse(document, *wrong)

    @functools.cached_property
    def quotas(self) -> QuotaLedger:
        """The ResourceQuotas, with what exists."""
        found = (decoded(Kind.CLASSES, document)[0] for document in self._documents(Kind.CLASSES))
        changes = (*self.live, *(change for change in found if change is not None))
        classes = [change.value for change in changes if isinstance(change.value, DeviceClass)]
        return QuotaLedger(self.admission.quotas.values(), classes, gone=self.gone, admits=self.admits)

    def _create_claims(self) -> None:
        """Create the claims that PodGroups, and then pods, need from templates."""
        claims = {_pair(document.body): document.body for document in self._documents(Kind.CLAIMS)}
        for document in self._documents(Kind.CLAIMS):
            if refusal := self.quotas.add_claim(document):
                self.wrong.setdefault(key_of(document.body), f"{refusal}: the claim cannot be created")
        made = claim_templates.existing_claims(claims)
        taken = {*claims, *(change.value.id for change in self.live if isinstance(change.value, Claim))}
        groups = {_pair(document.body): document.body for document in self._documents(Kind.POD_GROUPS)}
        pods = (each for each in self._documents(Kind.PODS) if PodId(*_pair(each.body)) not in self.not_made)
        for pod, document in ((each.body, each) for each in (*self._documents(Kind.POD_GROUPS), *pods)):
            claim_templates.add_group_claims(pod, groups)
            for each in claim_templates.entries_without_claim(pod):
                known = made.get((text(metadata(pod).get("uid")), each.entry))
                if known is not None:
                    claim_templates.add_claim_status(pod, each.entry, known)
                    continue
                if (template := self._template_of(document, each)) is None:
                    continue
                claim = claim_templates.create_claim(pod, each, template.body, taken)
                defaults.fill_metadata(claim)
                taken.add(_pair(claim))
                self.objects[Kind.CLAIMS, key_of(claim)] = Document(f"{template.source}, stamped", claim)
                if wrong := self.wrong_templates.get(_pair(template.body)):
                    self.wrong[key_of(claim)] = wrong

    def _template_of(self, document: Document, each: claim_templates.TemplateEntry) -> Document | None:
        """Return the template of an entry; None where it is missing or refused, or a quota refuses its claim."""
        key = text(metadata(document.body).get("namespace")), each.template
        template = self.templates.get(key)
        if template is None and key not in self.wrong_templates:
            self._warn(document, (f"{each.field}: {claim_templates.absent(key, self.templates)}",))
            return None
        made = template and self.quotas.add_claim(decoding.claim_of(template), owner=document.body)
        if refusal := self.wrong_templates[key] if template is None else made:
            self.unclaimed[PodId(*_pair(document.body)), each.entry] = refusal
            return None
        return template

    def _create_volume_claims(self) -> None:
        """Create the claims of ephemeral volumes, and set the default storage class."""
        for document in self._documents(Kind.PODS):
            made = volume_controllers.ephemeral_claims(document.body)
            new = (each for each in made if not self._is_known_claim(each))
            self.add([Document(f"{document.source}, made for the pod", each) for each in new])
        default = volume_controllers.default_class(each.body for each in self._documents(Kind.STORAGE_CLASSES))
        for document in self._documents(Kind.VOLUME_CLAIMS):
            volume_controllers.fill_class(document.body, default)

    def _is_known_claim(self, body: Body) -> bool:
        """Whether it is a volume claim that exists already, so that no controller creates it."""
        if decoding.KINDS.get(decoding.of(body)) is not Kind.VOLUME_CLAIMS:
            return False
        key = key_of(body)
        return (Kind.VOLUME_CLAIMS, key) in self.objects or any(
            each.kind is Kind.VOLUME_CLAIMS and each.key == key for each in self.live
        )

    def _admit_admin_access(self) -> None:
        """Refuse claims and templates that ask for admin access where the namespace does not allow it."""
        known = admin_access.namespaces(self.live, self._documents(Kind.NAMESPACES))
        for document in self._documents(Kind.CLAIMS):
            if found := admin_access.refusal(document.body, spec(document.body), "spec", known, self.warnings.append):
                self._refuse(document, *found)
                self.wrong.setdefault(key_of(document.body), ": ".join(found))
        for key, document in self.templates.items():
            claim_spec = mapping(spec(document.body).get("spec"))
            if found := admin_access.refusal(document.body, claim_spec, "spec.spec", known, self.warnings.append):
                self._refuse(document, *found)
                self.wrong_templates.setdefault(key, f"template {key[1]}: {': '.join(found)}")

    def _changes(self) -> Iterator[Change]:
        """Decode everything; what cannot be read is named, once."""
        there = replacement.claims_by_id(self.live)
        for (kind, key), document in self.objects.items():
            change, problem = decoded(kind, document)
            wrong = self.wrong.get(key, "") if kind is Kind.CLAIMS else ""
            if problem is not None and not wrong:
                self._refuse(document, problem.field, problem.message)
            if change is None:
                continue
            if isinstance(change.value, Claim):
                before = there.get(change.value.id)
                if not wrong and (wrong := decoding.of_claim(change.value, before)):
                    self._refuse(document, "spec", wrong)
                claim = replacement.with_status(change.value, before)
                if wrong:
                    claim = msgspec.structs.replace(claim, invalid=wrong)
                change = Change(kind=kind, key=key, value=claim)
            yield change
        yield from self._unwritten_namespaces()

    def _unwritten_namespaces(self) -> Iterator[Change]:
        """Return the namespaces of pods and claims that nothing shows, with the label of their name."""
        live, keys = {(change.kind, change.key) for change in self.live}, {*self.objects}
        if Kind.NAMESPACES in self.forbidden:
            keys |= live
        names = {split_key(key)[0] for kind, key in keys if kind in {Kind.PODS, Kind.CLAIMS}}
        known = {key for kind, key in live | keys if kind is Kind.NAMESPACES}
        for name in sorted(names - known):
            labels = ((defaults.OWN_LABELS["Namespace"], name),)
            yield Change(kind=Kind.NAMESPACES, key=name, value=Namespace(name=name, labels=labels))

    def _waiting(self, pods: Sequence[Pod], scheduler_name: str) -> tuple[Pod, ...]:
        """Return the pods that wait for a scheduler, as its queue would: by priority, then by age."""
        ours = [pod for pod in pods if pod.scheduler_name == scheduler_name]
        theirs = (pod for pod in ours if pod.id not in self.own)
        self.unclaimed |= quota_admission.refused_claims(theirs, self.templates, self.quotas)
        known = {*self.templates, *self.wrong_templates} if claim_templates.RESOURCE not in self.forbidden else None
        return tuple(in_queue_order(claim_templates.checked(ours, known, self.unclaimed)))


def _pair(body: Body) -> claim_templates.Key:
    found = metadata(body)
    return text(found.get("namespace")), text(found.get("name"))
