"""`dovetail expect`: what pods ask for, written as a profile expects it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.settings import parse
from tests.support import manifests as m

Capture = pytest.CaptureFixture[str]
HEAD = {"apiVersion": "config.dovetail.dev/v1alpha1", "kind": "DovetailConfiguration"}


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
    status = m.run("expect", "-f", m.write_yaml(folder / "pods.yaml", *objects), *words)
    said = capsys.readouterr()
    return status, said.out, said.err


def kinds(text: str) -> list[dict[str, Any]]:
    """Read what was printed, which a profile accepts."""
    profile: dict[str, list[dict[str, Any]]] = yaml.safe_load(text)
    parse(yaml.safe_dump({**HEAD, "profiles": [profile]}), "what was printed").policy("dovetail")
    return profile["expectedPods"]


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


def test_a_namespace(tmp_path: Path, capsys: Capture) -> None:
    def there(body: m.Manifest) -> m.Manifest:
        return {**body, "metadata": {**body["metadata"], "namespace": "team"}}

    objects = [template("t", exactly()), pod("p", "t"), there(template("t", exactly(count=2))), there(pod("p", "t"))]
    _, out, _ = expect(tmp_path, capsys, *objects, words=("-n", "team"))
    assert [each["devices"] for each in kinds(out)] == [[exactly(count=2)]]
    assert "one is team/p" in out


def test_without_devices_there_is_nothing_to_expect(tmp_path: Path, capsys: Capture) -> None:
    status, out, err = expect(tmp_path, capsys, m.pod("p"))
    assert (status, out) == (2, "")
    assert err == "dovetail: expect: no pod has a claim for devices: look at other namespaces, or at files with -f\n"


def test_files_with_errors_are_named_and_the_others_count(tmp_path: Path, capsys: Capture) -> None:
    broken = [template("t2", exactly(count=-1)), pod("q", "t2")]
    status, out, err = expect(tmp_path, capsys, m.template(), pod("p", "t"), *broken)
    assert status == 2
    assert "ResourceClaimTemplate default/t2" in err
    assert len(kinds(out)) == 1


@pytest.mark.parametrize("most", ["0", "33", "many", "-1", "9" * 5000])
def test_how_many_kinds_must_be_a_number(tmp_path: Path, capsys: Capture, most: str) -> None:
    status, out, err = expect(tmp_path, capsys, m.template(), pod("p", "t"), words=(f"--most={most}",))
    assert (status, out) == (2, "")
    assert "is no number from 1 to 32" in err
