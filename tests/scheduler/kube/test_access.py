"""Which cluster a command talks to, as kubectl decides it."""

from pathlib import Path

import pytest
import yaml

from scheduler.kube import access
from scheduler.kube.access import ClusterAccess, wait_for
from scheduler.kube.errors import ConfigurationError


def kubeconfig(path: Path, *contexts: str, current: str = "", namespace: str = "") -> Path:
    given = {"namespace": namespace} if namespace else {}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "contexts": [{"name": each, "context": {"cluster": "c", "user": "u", **given}} for each in contexts],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def test_the_file_of_the_flag_comes_first(tmp_path: Path) -> None:
    flag = kubeconfig(tmp_path / "flag", "a", current="a", namespace="team")
    other = kubeconfig(tmp_path / "other", "b", current="b")
    assert access.find(flag, "", {"KUBECONFIG": str(other)}) == ClusterAccess(flag, "a", "team")


def test_the_namespace_of_a_context_without_one_is_default(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "a", "b", current="a")
    assert access.find(None, "b", {"KUBECONFIG": str(path)}) == ClusterAccess(path, "b", "default")


@pytest.mark.parametrize(("context", "expected"), [("", "b"), ("a", "a"), ("c", "c")])
def test_of_several_files_the_first_with_the_context_is_read(context: str, expected: str, tmp_path: Path) -> None:
    first = kubeconfig(tmp_path / "first", "a")
    second = kubeconfig(tmp_path / "second", "a", "b", "c", current="b")
    named = f"{tmp_path / 'absent'}:{first}:{second}"
    found = access.find(None, context, {"KUBECONFIG": named})
    assert found == ClusterAccess(first if expected == "a" else second, expected)


def test_a_context_that_no_file_has(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "a", current="a")
    with pytest.raises(ConfigurationError, match="there is no context 'x': the file has a"):
        access.find(path, "x", {})


def test_files_that_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="first: no such file"):
        access.find(None, "", {"KUBECONFIG": f"{tmp_path / 'first'}:{tmp_path / 'second'}"})


def test_a_pod_without_a_kubeconfig_uses_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "namespace").write_text("team\n")
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert access.find(None, "", environment, tmp_path) == ClusterAccess(None, "", "team")


def test_without_anything_the_usual_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"\.kube/config: no such file"):
        access.find(None, "", {})


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's user: without $HOME and without an entry in /etc/passwd."""

    def without_entry(_user: int) -> None:
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", without_entry)


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home_has_no_usual_file(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("team\n")
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert access.find(None, "", environment, tmp_path) == ClusterAccess(None, "", "team")
    with pytest.raises(ConfigurationError, match=r"~/\.kube/config: no such file"):
        access.find(None, "", {})


class Large:
    texts = 0

    def __repr__(self) -> str:
        self.texts += 1
        return "the objects of a whole cluster"


def test_no_text_is_made_of_what_a_coroutine_returns() -> None:
    """`asyncio.run` makes one, by way of `signal.getsignal`."""
    made = Large()

    async def found() -> Large:
        return made

    assert wait_for(found()) is made
    assert made.texts == 0


def test_its_error_is_raised() -> None:
    async def fails() -> None:
        raise ValueError("as it is")

    with pytest.raises(ValueError, match="as it is"):
        wait_for(fails())
