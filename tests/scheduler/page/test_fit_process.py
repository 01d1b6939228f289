"""The answer to "would this fit?": that of `dovetail fit`, with mistakes by object and field, and what callers see."""

import itertools
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from scheduler.page import fit_process
from scheduler.page.fit_answer import FitAnswer
from scheduler.page.fit_questions import FitFailure, FitQuestion, FitSource
from scheduler.settings import default, parse
from scheduler.simulation import live_cluster
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.manifests import documents
from scheduler.status.leader_report import ReservationReport
from scheduler.visibility import VisibleNamespaces
from tests.scheduler.cli.test_fit import of_deployment
from tests.scheduler.cli.test_repair_plan import runs
from tests.scheduler.cli.test_simulated_preemption import CONFIG
from tests.support import manifests as m
from tests.support.lease_server import LeaseServer, lease_of, reporting

ALL = VisibleNamespaces(everything=True)
RED = VisibleNamespaces(frozenset({"red"}))


class Asker:
    """A cluster of two nodes with two devices each, of which a pod of namespace blue holds one."""

    def __init__(self, folder: Path) -> None:
        objects: list[m.Manifest] = [m.device_class(), m.template()]
        for name, node in (("secret-one", "n1"), ("secret-two", "n2")):
            objects += [m.node(node), m.slice_of(node)]
            for each in runs(name, node, "gpu-0"):
                each["metadata"]["namespace"] = "blue"
                objects.append(each)
        objects.append({**m.template("hidden-template"), "metadata": {"name": "hidden-template", "namespace": "blue"}})
        self.file = m.write_json(folder / "cluster.json", objects)
        self.settings = default()

    def raw(
        self,
        content: bytes,
        *,
        sees: VisibleNamespaces = ALL,
        nodes: bool = True,
        wanted: int | None = None,
        adds: bool = False,
        **source: Any,
    ) -> Any:
        question = FitQuestion(
            source=FitSource(files=(str(self.file),), settings=self.settings, **source),
            content=content,
            namespace="red",
            wanted=wanted,
            namespaces=sees,
            sees_nodes=nodes,
            adds_nodes=adds,
        )
        return fit_process.answer(question)

    def ask(self, *manifests: m.Manifest, **how: Any) -> FitAnswer:
        found = self.raw(yaml.safe_dump_all(manifests).encode(), **how)
        assert isinstance(found, FitAnswer)
        return found


@pytest.fixture
def asker(tmp_path: Path) -> Asker:
    return Asker(tmp_path)


def trainer(count: int = 1, name: str = "trainer", **spec: Any) -> tuple[m.Manifest, m.Manifest]:
    return m.template("own", count=count), m.pod(name, template_name="own", **spec)


def text_of(found: FitAnswer) -> str:
    return msgspec.json.encode(found).decode()


def test_pods_that_start_now_have_their_node_and_devices(asker: Asker) -> None:
    found = asker.ask(*trainer())
    assert (found.fits, found.sentence, found.problems) == (True, "It fits: 1 pod would start now.", ())
    (placement,) = found.placements
    assert (placement.pod, placement.node in {"n1", "n2"}) == ("red/trainer", True)
    assert placement.devices == ("gpu = gpu-1  (gpu.example.com)",)


def test_pods_that_wait_have_their_reasons_and_what_has_to_move(asker: Asker) -> None:
    found = asker.ask(*trainer(count=2))
    assert (found.fits, found.placements) == (False, ())
    (waiting,) = found.waiting
    assert (waiting.pods, waiting.count) == (("red/trainer",), 1)
    assert any("needs 2 devices" in each for each in waiting.reasons)
    assert found.moves is not None
    (move,) = found.moves
    assert (move.pod.startswith("blue/secret-"), {move.source, move.target}) == (True, {"n1", "n2"})


def test_what_would_have_to_end_is_named(asker: Asker) -> None:
    found = asker.ask(*THREE)
    assert (found.fits, found.placed, found.waits) == (False, 2, 1)
    assert found.changes[0].message.startswith("1 more free device, now held by blue/secret-")
    assert found.changes_title == "Pod red/t2 would start after one of these"


def test_what_would_have_to_change_for_a_gang_is_told_of_the_gang(asker: Asker) -> None:
    gang = {"labels": {"dovetail.dev/gang": "g"}, "annotations": {"dovetail.dev/gang-minimum": "2"}}
    template, *pods = (*trainer(count=2, name="a"), trainer(name="b")[1])
    for pod in pods:
        pod["metadata"] |= gang
    found = asker.ask(template, *pods)
    assert found.changes
    assert found.changes_title == "Gang red/g would start after one of these, made in all its waiting pods"


def test_pods_that_would_be_evicted_are_named(asker: Asker) -> None:
    asker.settings = parse(CONFIG, "test")
    found = asker.ask(*trainer(count=2, priority=1000))
    assert [each.pod.partition("-")[0] for each in found.victims] == ["blue/secret"]


@pytest.mark.parametrize(("wanted", "fits"), [(0, True), (2, True), (3, False)])
def test_how_many_copies_fit(asker: Asker, wanted: int, *, fits: bool) -> None:
    found = asker.ask(*trainer(), wanted=wanted)
    assert found.fits is fits
    if wanted != 2:
        assert found.sentence == "2 pods would start now; no more would."


def test_a_quota_ends_the_count(asker: Asker) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": "red"},
        "spec": {"hard": {"pods": 1}},
    }
    m.write_json(asker.file, [*json.loads(asker.file.read_text())["items"], quota])
    found = asker.ask(*trainer(), wanted=0)
    why = "quota few of the namespace is used up: 1 of 1 pods"
    assert found.sentence == f"1 pod would start now; no more would: {why}."


def test_a_mistake_names_document_object_and_field(asker: Asker) -> None:
    template = m.template("own")
    template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = "two"
    found = asker.ask(template, m.pod("trainer", template_name="own"))
    first = found.problems[0]
    assert (first.source, first.object) == ("manifest: document 1", "ResourceClaimTemplate red/own")
    assert first.field == "spec.spec.devices.requests[0].exactly.count"
    assert first.message == "expected a whole number, got a text"


def test_pods_of_several_schedulers_are_refused(asker: Asker) -> None:
    found = asker.ask(m.pod("a"), m.pod("b", schedulerName="other"))
    assert (found.fits, found.problems[0].field) == (None, "spec.schedulerName")


def test_a_scheduler_without_a_profile_is_said(asker: Asker) -> None:
    found = asker.ask(m.pod("a", schedulerName="other"))
    told = "No pod would start: Dovetail schedules no pod with schedulerName other: it serves dovetail."
    assert (found.fits, found.placed, found.sentence.startswith(told)) == (False, 1, True)
    assert found.sentence.endswith(" With that name: It fits: 1 pod would start now.")


@pytest.mark.parametrize("source", [{"scheduler_names": ()}, {"is_certain": False}])
def test_where_other_schedulers_may_run_nothing_is_said_of_the_name(asker: Asker, source: Any) -> None:
    assert asker.ask(m.pod("a", schedulerName="other"), **source).fits


def test_a_cluster_that_cannot_be_read_is_a_failure(asker: Asker) -> None:
    asker.file.write_text("kind: [", encoding="utf-8")
    found = asker.raw(yaml.safe_dump(m.pod()).encode())
    assert isinstance(found, FitFailure)
    assert "cluster.json" in found.message


def test_pods_that_run_keep_their_places(asker: Asker) -> None:
    """As `dovetail fit`: one of three pods of a Deployment runs, and what it holds is not free."""
    cluster = m.write_json(asker.file, [m.device_class(), m.template(), m.node(), m.slice_of()])
    deployed, web = of_deployment(cluster, "n1")
    deployed.rename(asker.file)
    web["metadata"]["namespace"] = "default"
    found = asker.ask(web)
    assert found.sentence == "1 of these runs already. It does not fit: 1 of 2 pods would start now."
    assert not any("decided anew" in each for each in found.warnings)
    assert asker.ask(web, wanted=1).sentence == "1 of these runs already; more were not counted."
    web["spec"]["replicas"] = 1
    found = asker.ask(web, adds=True)
    assert (found.fits, found.nodes, found.placements) == (True, (), ())
    assert found.sentence == "No node has to be added: none of these pods waits."


@pytest.mark.parametrize("lease", [403, "n2", ""])
def test_reserved_nodes_are_those_that_the_leader_says(
    asker: Asker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lease: str | int
) -> None:
    """Of two free devices one is on a node that is reserved for a pod of another namespace."""
    starving = m.pod("starves", template_name="t", priority=1)
    starving["metadata"] |= {"namespace": "blue", "uid": "u"}
    read = documents.read([m.write_json(asker.file, [*json.loads(asker.file.read_text())["items"], starving])])
    objects = CaseBuilder.as_cluster(read)
    monkeypatch.setattr(live_cluster, "fetch", lambda *_: objects)
    held = ReservationReport(uids=("u",), nodes=(str(lease),), priority=1)
    with LeaseServer(tmp_path).running() as server:
        answer = lease if isinstance(lease, int) else lease_of(reporting(reservations=(held,) if lease else ()))
        server.leases["gpu-system/dovetail"] = answer
        source = FitSource(kubeconfig=str(server.kubeconfig), scheduler_namespace="gpu-system")
        question = FitQuestion(
            source=source,
            content=yaml.safe_dump_all(trainer()).encode(),
            namespace="red",
            wanted=0,
            namespaces=RED,
            sees_nodes=True,
        )
        found = fit_process.answer(question)
    assert isinstance(found, FitAnswer)
    assert server.asked == ["gpu-system/dovetail"]
    assert "starves" not in text_of(found)
    assert found.sentence == f"{'1 pod' if lease == 'n2' else '2 pods'} would start now; no more would."
    unknown = ["the answer leaves out that nodes may be reserved for starving pods"] if lease == 403 else []
    assert [each.partition(":")[0] for each in found.warnings] == unknown


DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 10**9}}
THREE = (m.template("own"), *(m.pod(f"t{each}", template_name="own") for each in range(3)))
BOMB = "a: &a [x]\n" + "".join(f"{at}: &{at} [{f'*{old},' * 20}]\n" for old, at in itertools.pairwise("abcdefghij"))
HOSTILE = {
    "nothing": b"",
    "no YAML": b"kind: [",
    "no bytes of UTF-8": b"\xff\xfe\x00",
    "a text": b"hello",
    "no pod": yaml.safe_dump(m.device_class()).encode(),
    "deep JSON": b'{"a":' * 100_000,
    "deep YAML": b"a: " + b"[" * 100_000,
    "aliases": BOMB.encode(),
    "a billion pods": yaml.safe_dump(DEPLOYMENT).encode(),
    "a number without end": b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": ' + b"9" * 100_000 + b"}}",
    "metadata that is a text": b"apiVersion: v1\nkind: Pod\nmetadata: x\nspec: []\n",
    "a tag of Python": b"!!python/object/apply:os.system ['true']",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_decided_about_is_a_mistake_and_nothing_else(asker: Asker, name: str) -> None:
    found = asker.raw(HOSTILE[name])
    assert isinstance(found, FitAnswer)
    assert (found.fits, found.placements, bool(found.problems)) == (None, (), True)


def test_a_scheduler_that_no_profile_can_name_is_a_mistake(asker: Asker) -> None:
    found = json.loads(text_of(asker.ask(m.pod("p", schedulerName="<script>"))))
    assert [(each["field"], each["message"]) for each in found["problems"]] == [
        ("spec.schedulerName", "'<script>': write a domain, / and a name of letters, digits, -, _ and .")
    ]


def test_texts_of_users_come_back_as_they_are(asker: Asker) -> None:
    name = "<script>alert(1)</script>"
    found = json.loads(text_of(asker.ask(m.pod(name))))
    assert [each["object"] for each in found["problems"]] == [f"Pod red/{name}"]


class TestCallersWithSomeNamespaces:
    """Nothing of namespace blue is in an answer to a caller that sees red."""

    QUESTIONS = (
        pytest.param(trainer(), True, id="fits"),
        pytest.param(trainer(count=2), False, id="moves"),
        pytest.param(THREE, False, id="ends"),
        pytest.param(trainer(count=2, priority=1000), False, id="evicts"),
        pytest.param(trainer(count=9), False, id="never"),
    )

    @pytest.mark.parametrize(("manifests", "fits"), QUESTIONS)
    @pytest.mark.parametrize("nodes", [True, False])
    @pytest.mark.parametrize("config", ["", CONFIG])
    def test_no_name_of_another_namespace(
        self, asker: Asker, manifests: tuple[m.Manifest, ...], config: str, *, fits: bool, nodes: bool
    ) -> None:
        if config:
            asker.settings = parse(config, "test")
        found = asker.ask(*manifests, sees=RED, nodes=nodes)
        assert found.fits is fits
        assert "secret" not in text_of(found)
        assert "blue" not in text_of(found)
        assert bool(found.leaves_out) is not fits

    def test_pods_that_move_are_counted(self, asker: Asker) -> None:
        moves = asker.ask(*trainer(count=2), sees=RED).moves
        assert moves is not None
        assert [each.pod for each in moves] == [""]
        assert {each.source for each in moves} < {"n1", "n2"}

    @pytest.mark.parametrize(
        "manifest",
        [
            {**m.pod("p"), "metadata": {"name": "p", "namespace": "blue"}},
            {**m.template("hidden-template"), "metadata": {"name": "hidden-template", "namespace": "blue"}},
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d", "namespace": "blue"},
                "spec": {"template": {"spec": m.pod()["spec"]}},
            },
        ],
        ids=lambda each: each["kind"],
    )
    def test_objects_of_another_namespace_are_refused(self, asker: Asker, manifest: m.Manifest) -> None:
        found = asker.ask(m.pod("own"), manifest, sees=RED)
        assert (found.fits, [each.field for each in found.problems]) == (None, ["metadata.namespace"])
        assert "you may not list pods and resourceclaims in blue" in found.problems[0].message

    @pytest.mark.parametrize("where", [{"namespaces": ["blue"]}, {"namespaceSelector": {}}], ids=str)
    @pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
    @pytest.mark.parametrize("is_required", [True, False])
    def test_rules_about_pods_of_another_namespace_are_refused(
        self, asker: Asker, kind: str, where: dict[str, Any], *, is_required: bool
    ) -> None:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, **where}
        rules: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        if not is_required:
            rules = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
        pod = m.pod("own", affinity={kind: rules})
        found = asker.ask(pod, sees=RED)
        assert (found.fits, [each.field for each in found.problems]) == (None, ["spec.affinity"])
        assert asker.ask(pod).fits is not None

    def test_a_node_that_no_slice_names_has_no_name_without_the_right_to_list_nodes(self, asker: Asker) -> None:
        objects = json.loads(asker.file.read_text())["items"]
        plain = m.node("plain-node")
        plain["metadata"]["labels"]["only"] = "here"
        m.write_json(asker.file, [*objects, plain])
        pod = m.pod("own", nodeSelector={"only": "here"})
        assert asker.ask(pod).placements[0].node == "plain-node"
        found = asker.ask(pod, nodes=False)
        assert (found.fits, found.placements[0].node) == (True, "")
        assert "plain-node" not in text_of(found)

    def test_labels_of_nodes_are_not_named_without_the_right_to_list_nodes(self, asker: Asker) -> None:
        objects = json.loads(asker.file.read_text())["items"]
        plain = m.node("plain-node")
        plain["metadata"]["labels"]["zone"] = "eu-west-1"
        m.write_json(asker.file, [*objects, plain])
        pod = m.pod("own", nodeSelector={"zone": "eu-west-2"})
        assert "eu-west-1" in text_of(asker.ask(pod))
        assert "eu-west-1" not in text_of(asker.ask(pod, nodes=False))


@pytest.mark.parametrize("namespace", [["blue"], {"blue": 1}])
def test_a_namespace_that_is_no_text_is_a_mistake(asker: Asker, namespace: Any) -> None:
    manifests = trainer()
    for each in manifests:
        each["metadata"]["namespace"] = namespace
    found = asker.ask(*manifests, sees=RED)
    assert (found.fits, "metadata.namespace" in {each.field for each in found.problems}) == (None, True)


def test_which_nodes_to_add_for_pods_of_a_manifest(asker: Asker) -> None:
    found = asker.ask(*trainer(count=2), adds=True)

    assert (found.fits, found.sentence) == (True, "Add 1 node: 1 × node. Then the pod would start; fewer nodes do not.")
    assert [(each.shape, each.count, each.price) for each in found.nodes] == [("node", 1, "")]
    assert [each.node for each in found.placements] == ["node-new-1"]


def test_which_nodes_to_add_for_the_queue(asker: Asker, tmp_path: Path) -> None:
    waiting = [m.pod(f"w{number}", template_name="two", schedulerName="dovetail") for number in range(3)]
    objects = [*json.loads(asker.file.read_text())["items"], m.template("two", count=2), *waiting]
    asker.file = m.write_json(tmp_path / "waiting.json", objects)

    found = asker.raw(b"", adds=True)

    assert isinstance(found, FitAnswer), found
    assert [(each.shape, each.count) for each in found.nodes] == [("node", 3)], found
    assert {each.pod for each in found.placements} == {f"default/w{number}" for number in range(3)}


def test_a_node_that_karpenter_is_making_is_not_asked_for_again(asker: Asker, tmp_path: Path) -> None:
    kind = "node.kubernetes.io/instance-type"
    objects = json.loads(asker.file.read_text())["items"]
    for each in objects:
        if each["kind"] == "Node":
            each["metadata"]["labels"][kind] = "node"
    metadata = {"name": "on-its-way", "labels": {kind: "node"}}
    claim = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata}
    asker.file = m.write_json(tmp_path / "coming.json", [*objects, claim])

    found = asker.ask(*trainer(count=2), adds=True)

    assert (found.fits, found.nodes, [each.node for each in found.placements]) == (True, (), ["on-its-way"])
    assert any("NodeClaim on-its-way" in each for each in found.warnings)


def test_without_a_manifest_only_nodes_can_be_asked_for(asker: Asker) -> None:
    found = asker.raw(b"")
    assert isinstance(found, FitAnswer)
    assert found.fits is None
