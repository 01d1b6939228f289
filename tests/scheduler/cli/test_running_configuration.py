"""Which configuration counts of the schedulers that run."""

from typing import Any

import msgspec
import pytest

from scheduler.cli.sources import running_configuration
from scheduler.cli.sources.running_configuration import NamedSettings, RunningConfigurations
from scheduler.settings import Settings, parse

HEAD = "apiVersion: config.dovetail.dev/v1alpha1\nkind: DovetailConfiguration\n"


def settings(*names: str, driver: str = "a.example.com") -> Settings:
    profiles = ", ".join(f"{{schedulerName: {name}}}" for name in names)
    return parse(f"{HEAD}profiles: [{profiles}]\ndevices: {{owned: {{drivers: [{driver}]}}}}\n", "test")


BLUE, GREEN = NamedSettings("blue", settings("blue")), NamedSettings("green", settings("green"))


@pytest.mark.parametrize(
    ("found", "problems", "name", "chosen", "said"),
    [
        pytest.param((), (), "blue", None, (), id="none runs"),
        pytest.param((BLUE,), (), "", BLUE, (), id="one"),
        pytest.param((BLUE,), (), "green", BLUE, (), id="one without such a profile"),
        pytest.param((BLUE, GREEN), (), "green", GREEN, (), id="two, one with the profile"),
        pytest.param((BLUE, GREEN), ("why",), "green", GREEN, (), id="the profile is known, another file is not"),
        pytest.param((BLUE, GREEN), (), "", None, ("several schedulers run, by blue and green",), id="two"),
        pytest.param((BLUE, BLUE), (), "", BLUE, (), id="two with equal ones"),
        pytest.param((BLUE,), ("why",), "", None, ("why",), id="one of two is not known"),
    ],
)
def test_the_configuration_with_a_profile_for_the_scheduler(
    found: tuple[NamedSettings, ...], problems: tuple[str, ...], name: str, chosen: NamedSettings | None, said: Any
) -> None:
    expected = parse(HEAD, "defaults") if chosen is None else chosen.settings
    assert RunningConfigurations(found, problems).chosen(name) == (expected, said)


def pod(own_name: str, *words: str, created: str = "2026-01-01T00:00:00Z", mount: Any = None, **config_map: Any) -> Any:
    mount = {"name": "config", "mountPath": "/etc/dovetail"} | (mount or {})
    body = {
        "metadata": {
            "name": own_name,
            "namespace": "dovetail-system",
            "creationTimestamp": created,
            "labels": {"pod-template-hash": own_name.split("-")[1]},
            "ownerReferences": [{"name": own_name.rpartition("-")[0]}],
        },
        "spec": {
            "containers": [{"args": ["run", *words], "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, mount]}],  # noqa: S108
            "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "config", "configMap": {"name": "c", **config_map}}],
        },
    }
    return msgspec.convert(body, running_configuration.SchedulerPod)


@pytest.mark.parametrize(
    ("made", "file"),
    [
        (pod("d-1-a", "--config=/etc/dovetail/config.yaml"), ("/etc/dovetail/config.yaml", "c", "config.yaml")),
        (pod("d-1-a", "--config", "/etc/dovetail/config.yaml"), ("/etc/dovetail/config.yaml", "c", "config.yaml")),
        (
            pod("d-1-a", "--config=/etc/dovetail/a/b.yaml", items=[{"key": "k", "path": "a/b.yaml"}]),
            ("/etc/dovetail/a/b.yaml", "c", "k"),
        ),
        (
            pod("d-1-a", "--config=/c.yaml", mount={"mountPath": "/c.yaml", "subPath": "config.yaml"}),
            ("/c.yaml", "c", "config.yaml"),
        ),
        (pod("d-1-a", "--config=/tmp/config.yaml"), ("/tmp/config.yaml", "", "")),  # noqa: S108
        (pod("d-1-a"), ("", "", "")),
    ],
)
def test_the_file_of_a_pod(made: Any, file: tuple[str, str, str]) -> None:
    assert running_configuration.config_files([made]) == (file,)


def test_while_a_new_configuration_is_rolled_out_the_new_one_counts() -> None:
    old = pod("blue-old-x", "--config=/etc/dovetail/c", name="old")
    new = pod("blue-new-y", "--config=/etc/dovetail/c", created="2026-01-02T00:00:00Z", name="new")
    other = pod("green-old-z", "--config=/etc/dovetail/c", name="other")
    assert {file.config_map for file in running_configuration.config_files([new, old, other])} == {"new", "other"}
