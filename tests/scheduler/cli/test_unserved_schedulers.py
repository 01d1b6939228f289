"""Pods whose schedulerName no Dovetail serves: `fit`, `simulate` and `repair plan` say so first, with one status."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scheduler.settings import default
from scheduler.settings.scheduler_names import unserved
from tests.scheduler.cli.test_fit import cluster, deployment
from tests.scheduler.cli.test_repair_plan import fragmented
from tests.support import manifests as m

Capture = pytest.CaptureFixture[str]
__all__ = ["cluster", "fragmented"]

CONFIG = """\
apiVersion: config.dovetail.dev/v1alpha1
kind: DovetailConfiguration
profiles: [{schedulerName: dovetail}, {schedulerName: gpu-batch}]
"""


class Asked(NamedTuple):
    """A cluster, and what is asked about it."""

    folder: Path
    cluster: Path
    capsys: Capture

    def __call__(self, command: str, file: Path, *options: str | Path) -> int:
        """Ask about a file; give the exit status."""
        return m.run(command, "-f", file, *(("--cluster",) if command == "fit" else ("-f",)), self.cluster, *options)

    def pods(self, *pods: m.Manifest) -> Path:
        """Write a file."""
        return m.write_yaml(self.folder / "pods.yaml", *pods)

    def evicting(self, name: str) -> Path:
        """Write a configuration in which the profile of a name evicts, and another that does not."""
        rules = "preemption: {enabled: true, devices: true, minimumRunSeconds: 0}"
        path = self.folder / "config.yaml"
        path.write_text(CONFIG.replace(f"schedulerName: {name}", f"schedulerName: {name}, {rules}"), encoding="utf-8")
        return path

    def printed(self) -> tuple[str, str]:
        """Standard output and error, with the line breaks of the former as blanks."""
        found = self.capsys.readouterr()
        return " ".join(found.out.split()), found.err


@pytest.fixture
def asked(tmp_path: Path, cluster: Path, capsys: Capture) -> Asked:
    return Asked(tmp_path, cluster, capsys)


def said(name: str) -> str:
    return unserved(name, default().scheduler_names)


def job(pod: m.Manifest) -> m.Manifest:
    spec = {"template": {"spec": {**pod["spec"], "restartPolicy": "Never"}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": spec}


@pytest.mark.parametrize("name", ["dovetial", "volcano", "default-scheduler"])
@pytest.mark.parametrize(
    ("made", "options"),
    [
        pytest.param(lambda pod: pod, (), id="pod"),
        pytest.param(lambda pod: deployment(1, pod), ("--count", "max"), id="copies of a Deployment"),
        pytest.param(job, ("--add-nodes",), id="nodes for a Job"),
    ],
)
def test_fit_says_first_that_nobody_takes_the_pods(asked: Asked, name: str, made: Any, options: Any) -> None:
    """And then what would be if they had the name to write: the status is no."""
    file = m.write_yaml(asked.folder / "pods.yaml", made(m.pod("p", template_name="t", schedulerName=name)))
    assert asked("fit", file, *options) == 1
    shown, error = asked.printed()
    assert shown.startswith(f"No pod would start: {said(name)}. With that name: ")
    assert error == ""

    assert asked("fit", file, *options, "-o", "json") == 1
    found = json.loads(asked.capsys.readouterr().out)
    assert found["unserved"] == said(name)
    assert found["starts" if "--add-nodes" in options else "fits"] is False
    assert len(found["plan"]["placements"]) == 1


def test_fit_says_nothing_of_a_name_that_is_served(asked: Asked) -> None:
    file = asked.pods(m.pod("p", template_name="t", schedulerName="gpu-batch"))
    assert asked("fit", file, "--config", asked.evicting("dovetail"), "-o", "json") == 0
    assert json.loads(asked.capsys.readouterr().out)["unserved"] is None


def test_the_pods_are_decided_by_the_profile_that_is_meant(asked: Asked) -> None:
    """It evicts; the defaults, which a scheduler with the misspelt name would have, do not."""
    urgent = m.pod("urgent", template_name="two", priority=1000, schedulerName="dovetial")
    file = asked.pods(m.template("two", count=2), urgent)
    assert asked("fit", file, "--config", asked.evicting("dovetail"), "-o", "json") == 1
    found = json.loads(asked.capsys.readouterr().out)
    assert len(found["plan"]["preemptions"][0]["victims"]) == 1


def test_the_option_asks_what_a_scheduler_of_that_name_would_decide(asked: Asked) -> None:
    file = asked.pods(m.pod("p", template_name="t", schedulerName="volcano"))
    assert asked("fit", file, "--scheduler-name", "volcano") == 0
    shown, error = asked.printed()
    assert shown.startswith("It fits: 1 pod would start now.")
    assert f"{said('volcano')}. The answer is what a scheduler with that name would decide" in error


def test_a_file_of_several_schedulers_names_the_misspelt_one(asked: Asked) -> None:
    others = (m.pod("b", schedulerName="dovetial"), m.pod("c", schedulerName="volcano"))
    file = asked.pods(m.pod("a", template_name="t"), *others)
    assert asked("fit", file) == 2
    error = asked.printed()[1]
    assert "the pods name several schedulers, dovetail, dovetial, volcano: choose with --scheduler-name" in error
    assert (said("dovetial") in error, said("volcano") in error) == (True, False)

    assert asked("fit", file, "--scheduler-name", "dovetail") == 1
    shown, error = asked.printed()
    assert shown.startswith("It fits: 1 pod would start now.")
    assert said("dovetial") in error


def test_simulate_says_the_same_of_a_misspelt_name(asked: Asked) -> None:
    assert asked("simulate", asked.pods(m.pod("a"), m.pod("b", schedulerName="dovetial"))) == 1
    assert f"warning: {said('dovetial')}\n" in asked.printed()[1]


def test_simulate_without_a_pod_to_decide_about_says_why_in_one_statement(asked: Asked) -> None:
    other = "1 pod without nodeName names another scheduler ({}) than dovetail and is left out (see --scheduler-name)."
    for name, status, more in (("volcano", 0, ""), ("dovetial", 1, f" {said('dovetial')}.")):
        file = asked.pods(m.pod("b", schedulerName=name))
        assert asked("simulate", file) == status
        shown, error = asked.printed()
        assert shown == f"No pod waits for scheduler dovetail: {other.format(name)}{more}"
        assert "another scheduler" not in error
        assert said(name) not in error

        assert asked("simulate", file, "-o", "json") == status
        assert other.format(name).removesuffix(".") in asked.printed()[1], "a document has no sentence"


def test_simulated_pods_that_name_none_are_decided_by_the_first_profile(asked: Asked) -> None:
    """Not by the defaults of a profile of the API's name."""
    urgent = m.pod("urgent", template_name="two", priority=1000, schedulerName=None)
    file = asked.pods(m.template("two", count=2), urgent)
    assert asked("simulate", file, "--config", asked.evicting("dovetail"), "-o", "json") == 1
    assert len(json.loads(asked.capsys.readouterr().out)["preemptions"][0]["victims"]) == 1


def test_moves_for_a_pod_that_nobody_takes(fragmented: Path, capsys: Capture) -> None:
    objects = json.loads(fragmented.read_text())["items"]
    large = next(each for each in objects if each["metadata"]["name"] == "large")
    large["spec"]["schedulerName"] = "dovetial"

    assert m.run("repair", "plan", "--for", "pod", "large", "-f", m.write_json(fragmented, objects)) == 1

    found = capsys.readouterr()
    assert "1 move (proven: it cannot be done with fewer)." in found.out
    assert f"{said('dovetial')}. The moves are those for a pod with that name" in found.err
