"""`dovetail expect`: what pods ask for, written as a profile expects it."""

import textwrap
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from scheduler.change import Change, Kind
from scheduler.cli.expectation import counted_kinds
from scheduler.settings import parse, untrusted_yaml
from tests.support import builders as b
from tests.support import manifests as m

Capture = pytest.CaptureFixture[str]
HEAD = """
apiVersion: config.dovetail.dev/v1alpha1
kind: DovetailConfiguration
profiles:
- schedulerName: dovetail
"""


def exactly(**more: Any) -> m.Manifest:
    return {"deviceClassName": "gpu", **more}


def template(name: str, *requests: m.Manifest, **devices: Any) -> m.Manifest:
    asked = [
        {"name": f"r{at}", **(each if "firstAvailable" in each else {"exactly": each})}
        for at, each in enumerate(requests)
    ]
    return {**m.template(name), "spec": {"spec": {"devices": {"requests": asked, **devices}}}}


def pod(name: str, template_name: str, **requests: str) -> m.Manifest:
    resources = {"requests": requests, "limits": requests}
    container = {"name": "main", "image": "pause", "resources": resources}
    return m.pod(name, template_name=template_name, containers=[container])


def expect(folder: Path, capsys: Capture, *objects: m.Manifest, words: tuple[str, ...] = ()) -> tuple[int, str, str]:
    status = m.run("expect", "-f", m.write_json(folder / "pods.json", objects), *words)
    said = capsys.readouterr()
    return status, said.out, said.err


def kinds(text: str) -> list[dict[str, Any]]:
    """Read what was printed, which a profile accepts."""
    parse(HEAD + textwrap.indent(text, "  "), "what was printed").policy("dovetail")
    found: list[dict[str, Any]] = untrusted_yaml.load(text)["expectedPods"]
    return found


def test_pods_are_counted_by_what_their_claims_ask_for(tmp_path: Path, capsys: Capture) -> None:
    selector = "device.attributes['gpu.example.com'].model == 'A100'"
    shared = exactly(capacity={"requests": {"memory": "20Gi"}}, selectors=[{"cel": {"expression": selector}}])
    objects = [template("four", exactly(count=4)), template("part", shared), m.pod("none")]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "parallelism": 3,
            "completions": 3,
            "template": {"spec": {**pod("p", "four", cpu="7500m")["spec"], "restartPolicy": "Never"}},
        },
    }
    status, out, err = expect(tmp_path, capsys, *objects, job, pod("serve", "part"))

    four = {"share": 750, "requests": {"cpu": "7500m"}, "devices": [exactly(count=4)]}
    part = {"share": 250, "devices": [exactly(selectors=[selector], capacity={"memory": "20Gi"})]}
    assert (status, kinds(out), err) == (0, [four, part], "")
    assert out.splitlines()[:3] == [
        "# Of 4 pods with devices.",
        "expectedPods:",
        "- share: 750  # 3 pods, one is default/train-0",
    ]


def test_requests_are_the_mean_and_bytes_whole_mebibytes(tmp_path: Path, capsys: Capture) -> None:
    requests = {"cpu": "1", "memory": "1G", "example.com/licence": "1"}
    pods = [pod("p", "t", **requests), pod("q", "t", cpu="2001m"), pod("r", "t")]
    _, out, _ = expect(tmp_path, capsys, m.template(), *pods)

    (kind,) = kinds(out)
    assert kind["requests"] == {"cpu": "1001m", "memory": "318Mi"}  # a third of 1G is 317.9 Mi


def test_the_order_of_requests_and_their_names_make_no_kind(tmp_path: Path, capsys: Capture) -> None:
    nic = {"deviceClassName": "nic"}
    objects = [template("a", exactly(), nic), template("b", nic, exactly()), pod("p", "a"), pod("q", "b")]
    _, out, _ = expect(tmp_path, capsys, *objects)

    (kind,) = kinds(out)
    assert (kind["share"], kind["devices"]) == (1000, [exactly(), nic])


def test_a_claim_of_several_pods_counts_once(tmp_path: Path, capsys: Capture) -> None:
    objects = [m.claim("c"), m.template(), *(m.pod(f"p{at}", claim_name="c") for at in range(3)), pod("q", "t")]
    _, out, _ = expect(tmp_path, capsys, *objects)
    assert out.startswith("# Of 2 pods with devices.\n")


def test_rarer_kinds_are_left_out_and_keep_their_share(tmp_path: Path, capsys: Capture) -> None:
    objects = [template(f"t{count}", exactly(count=count)) for count in (1, 2, 3)]
    pods = [pod(f"p{count}-{at}", f"t{count}") for count in (1, 2, 3) for at in range(count)]
    status, out, _ = expect(tmp_path, capsys, *objects, *pods, words=("--most", "2"))

    assert [(each["share"], each["devices"][0]["count"]) for each in kinds(out)] == [(500, 3), (333, 2)]
    assert (status, out.splitlines()[0]) == (0, "# Of 6 pods with devices, 1 of rarer kinds are left out.")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (exactly(allocationMode="All"), "ask for all devices that match"),
        (exactly(adminAccess=True), "ask for admin access, which takes no device"),
        (exactly(count=33), "ask for more than 32 devices in one request"),
        (exactly(selectors=[{"cel": {"expression": "device.foo() == 3"}}]), "have a selector that cannot be read"),
    ],
)
def test_what_cannot_be_expected_is_said(tmp_path: Path, capsys: Capture, asked: m.Manifest, reason: str) -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "default", "labels": {"resource.kubernetes.io/admin-access": "true"}},
    }
    objects = [namespace, m.template(), template("t2", asked), pod("p", "t"), pod("q", "t2"), pod("r", "t2")]
    _, out, err = expect(tmp_path, capsys, *objects)

    assert f"pods that {reason} are left out: 2\n" in err
    assert [each["share"] for each in kinds(out)] == [1000]


def test_the_first_alternative_counts(tmp_path: Path, capsys: Capture) -> None:
    either = {"firstAvailable": [{"name": "two", **exactly(count=2)}, {"name": "one", **exactly()}]}
    _, out, _ = expect(tmp_path, capsys, template("t", either), pod("p", "t"))
    assert [each["devices"] for each in kinds(out)] == [[exactly(count=2)]]


def test_manifests_that_name_no_namespace_are_in_the_one_that_is_given(tmp_path: Path, capsys: Capture) -> None:
    _, out, _ = expect(tmp_path, capsys, m.template(), pod("p", "t"), words=("-n", "team"))
    assert "one is team/p" in out


@pytest.mark.parametrize("name", ["1e3", "0o17", "y", "n", "on", "null", "0x1f", "2001-01-01", "gpu.example.com"])
def test_names_stay_names(tmp_path: Path, capsys: Capture, name: str) -> None:
    asked = {"deviceClassName": name, "capacity": {"requests": {"y": "1e3", "memory": "1.5Gi"}}}
    _, out, _ = expect(tmp_path, capsys, template("t", asked), pod("p", "t"))
    (kind,) = kinds(out)
    assert kind["devices"] == [{"deviceClassName": name, "capacity": {"memory": "1536Mi", "y": "1000"}}]


def test_equal_amounts_and_selectors_are_one_kind(tmp_path: Path, capsys: Capture) -> None:
    first, second = "device.driver == 'a'", "device.driver == 'b'"
    asked = [
        exactly(
            capacity={"requests": {"memory": memory}},
            selectors=[{"cel": {"expression": each}} for each in selectors],
        )
        for memory, selectors in (("1Gi", (first, second)), ("1024Mi", (second, first)))
    ]
    objects = [template(f"t{at}", each) for at, each in enumerate(asked)]
    _, out, _ = expect(tmp_path, capsys, *objects, pod("p", "t0"), pod("q", "t1"))
    assert [each["share"] for each in kinds(out)] == [1000]


NOTHING = {
    "no claim": ((m.pod("p"),), "no pod has a claim for devices that is there: look at other namespaces or files"),
    "none that can be expected": (
        (template("t", exactly(allocationMode="All")), pod("p", "t")),
        "no pod asks for devices in a way that can be expected",
    ),
    "rare kinds": (
        tuple(
            each
            for at in range(1001)
            for each in (template(f"t{at}", exactly(capacity={"requests": {"m": str(at)}})), pod(f"p{at}", f"t{at}"))
        ),
        "each kind of pods is rarer than one of a thousand: there is nothing to expect",
    ),
}


@pytest.mark.parametrize("case", NOTHING)
def test_where_there_is_nothing_to_expect_the_reason_is_said(tmp_path: Path, capsys: Capture, case: str) -> None:
    objects, reason = NOTHING[case]
    status, out, err = expect(tmp_path, capsys, *objects)
    assert (status, out, err.splitlines()[-1]) == (2, "", f"dovetail: expect: {reason}")


def test_kinds_of_objects_that_are_not_read_are_named(tmp_path: Path, capsys: Capture) -> None:
    trainer = {"apiVersion": "acme.io/v1", "kind": "Trainer", "metadata": {"name": "x"}}
    _, out, err = expect(tmp_path, capsys, trainer, m.template(), pod("p", "t"))
    assert "skipped, because they decide nothing here: Trainer (acme.io/v1)" in err
    assert len(kinds(out)) == 1


def test_claims_for_extended_resources_count_and_unreadable_ones_are_said() -> None:
    """A scheduler makes the former; the API server gives the latter."""
    special = structs.replace(b.claim("special", owner_pod_uid="uid-p"), is_extended_resource_claim=True)
    broken = b.claim("broken", invalid="spec.devices: wrong")
    pods = [structs.replace(b.pod("p"), uid="uid-p"), b.pod("q", "broken")]
    claims = [Change(kind=Kind.CLAIMS, key=str(each.id), value=each) for each in (special, broken)]
    waiting = [Change(kind=Kind.PODS, key=str(each.id), value=each) for each in pods]
    found = counted_kinds.of([*claims, *waiting], 16)
    assert [(kind.pods, kind.example.name) for kind in found.kinds] == [(1, "p")]
    assert found.unsaid == {"have a claim that cannot be read": 1}


def test_files_with_errors_are_named_and_the_others_count(tmp_path: Path, capsys: Capture) -> None:
    broken = [template("t2", exactly(count=-1)), pod("q", "t2")]
    status, out, err = expect(tmp_path, capsys, m.template(), pod("p", "t"), *broken)
    assert status == 2
    assert "ResourceClaimTemplate default/t2" in err
    assert len(kinds(out)) == 1


@pytest.mark.parametrize("most", ["0", "33", "many", "-1", "00000000199", "9" * 5000])
def test_how_many_kinds_must_be_a_number(tmp_path: Path, capsys: Capture, most: str) -> None:
    status, out, err = expect(tmp_path, capsys, m.template(), pod("p", "t"), words=(f"--most={most}",))
    assert (status, out) == (2, "")
    assert "is no number from 1 to 32" in err
