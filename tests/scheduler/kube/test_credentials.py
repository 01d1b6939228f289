import asyncio
import base64
import datetime as dt
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduler.kube import credentials
from scheduler.kube.credentials import ClientConfig, Credentials
from scheduler.kube.errors import ConfigurationError
from scheduler.kube.login import exec_plugin
from scheduler.kube.login import kubeconfig as kubeconfig_module
from tests.support.controlplane import wait_until

CERTIFICATE = base64.b64encode(b"not a certificate").decode()


def kubeconfig(folder: Path, *, cluster: Any = None, user: Any = None, **fields: Any) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/"} if cluster is None else cluster}],
        "users": [{"name": "u", "user": {"token": "secret"} if user is None else user}],
        **fields,
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


def plugin(folder: Path, script: str) -> dict[str, Any]:
    path = folder / "login"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "args": ["a"]}}


def credential(status: str) -> str:
    return (
        f"""echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {status}}}'"""
    )


def test_a_token_becomes_the_authorization(tmp_path: Path) -> None:
    access = credentials.load_kubeconfig(kubeconfig(tmp_path))
    assert (access.server, access.authorization, access.refresh_seconds) == (
        "https://127.0.0.1:6443",
        "Bearer secret",
        None,
    )


def test_a_file_below_an_unknown_home_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no such home directory: write the whole path"):
        credentials.load_kubeconfig(Path("~no-such-user/config"))


def test_plain_http_has_no_tls(tmp_path: Path) -> None:
    access = credentials.load_kubeconfig(kubeconfig(tmp_path, cluster={"server": "http://127.0.0.1:8080"}))
    assert access.tls is None
    assert credentials.tls_context(access) is None


def test_another_context_can_be_chosen(tmp_path: Path) -> None:
    contexts = [
        {"name": "here", "context": {"cluster": "c", "user": "u"}},
        {"name": "there", "context": {"cluster": "d"}},
    ]
    clusters = [{"name": "d", "cluster": {"server": "https://there"}}]
    access = credentials.load_kubeconfig(kubeconfig(tmp_path, contexts=contexts, clusters=clusters), "there")
    assert (access.server, access.authorization) == ("https://there", "")


def test_a_token_file_beside_the_kubeconfig_is_read_and_read_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    access = credentials.load_kubeconfig(kubeconfig(tmp_path, user={"tokenFile": "token"}))
    assert (access.authorization, access.refresh_seconds) == ("Bearer from-file", 60.0)


def test_tls_name_proxy_and_no_verification_are_taken_over(tmp_path: Path) -> None:
    cluster = {
        "server": "https://10.0.0.1",
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
        "insecure-skip-tls-verify": True,
    }
    access = credentials.load_kubeconfig(kubeconfig(tmp_path, cluster=cluster))
    assert (access.server_name, access.proxy) == ("kubernetes", "http://proxy:3128")
    assert access.tls is not None
    assert not access.tls.is_verified


def test_a_plugin_gives_the_token_and_when_to_ask_again(tmp_path: Path) -> None:
    ends = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    user = plugin(tmp_path, credential(f'{{"token": "from-plugin", "expirationTimestamp": "{ends}"}}'))
    access = credentials.load_kubeconfig(kubeconfig(tmp_path, user=user))
    assert access.authorization == "Bearer from-plugin"
    assert access.refresh_seconds is not None
    assert 3500 < access.refresh_seconds < 3600


def broken(said: str, *, user: Any = None, cluster: Any = None, name: str = "", **fields: Any) -> Any:
    return pytest.param({"user": user, "cluster": cluster, **fields}, said, id=name)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        broken(
            "current-context is not set: choose one of here with --context",
            name="no context",
            **{"current-context": ""},
        ),
        broken("there is no context 'gone': the file has here", name="unknown context", **{"current-context": "gone"}),
        broken("there is no cluster 'c': the file has no clusters", name="no cluster", clusters=[]),
        broken("there is no user 'u': the file has other", name="no user", users=[{"name": "other", "user": {}}]),
        broken("contexts must be a list", name="contexts", contexts={"a": 1}),
        broken("clusters[c].cluster.server is None: write the address", name="no server", cluster={"x": 1}),
        broken(
            "clusters[c].cluster.server is '10.0.0.1'", name="server without scheme", cluster={"server": "10.0.0.1"}
        ),
        broken("clusters[c].cluster.server is 'https://x:***'", name="port", cluster={"server": "https://x:port"}),
        broken("clusters[c].cluster.server is 'https://'", name="no host", cluster={"server": "https://"}),
        broken(
            "clusters[c].cluster.certificate-authority: ca.crt does not exist",
            name="no ca file",
            cluster={"server": "https://x", "certificate-authority": "ca.crt"},
        ),
        broken(
            "clusters[c].cluster.certificate-authority-data is not base64",
            name="ca no base64",
            cluster={"server": "https://x", "certificate-authority-data": "?"},
        ),
        broken("users[u].user.client-key is missing", name="no key", user={"client-certificate-data": CERTIFICATE}),
        broken(
            "users[u].user.client-certificate is missing", name="no certificate", user={"client-key-data": CERTIFICATE}
        ),
        broken("users[u].user.tokenFile: gone does not exist", name="no token file", user={"tokenFile": "gone"}),
        broken("users[u].user.token must be a text", name="token", user={"token": 7}),
        broken(
            "users[u].user.exec.command: 'no-such-login' is not installed: see the manual",
            name="no plugin",
            user={"exec": {"apiVersion": "v1", "command": "no-such-login", "installHint": "see the manual"}},
        ),
        broken("the token holds characters", name="token with a line break", user={"token": "a\nb"}),
        broken(
            "current-context is not set: choose one of no contexts",
            name="no context, and a number of them",
            contexts=5,
            **{"current-context": ""},
        ),
        *(
            broken(
                f"clusters[c].cluster.{key} must be a text",
                name=f"{key} is a number",
                cluster={"server": "https://x", key: 7},
            )
            for key in ("certificate-authority", "certificate-authority-data", "proxy-url", "tls-server-name")
        ),
        broken("users[u].user.client-key must be a text", name="a key is a list", user={"client-key": ["a"]}),
        broken(
            "clusters[c].cluster.certificate-authority-data is not base64",
            name="ca is no ascii",
            cluster={"server": "https://x", "certificate-authority-data": "é"},
        ),
        broken("cannot be read: File name too long", name="a name is too long", user={"tokenFile": "a" * 300}),
        broken(
            "the credential plugin failed with status 1",
            name="extensions are a number",
            cluster={"server": "https://x", "extensions": 5},
            user={"exec": {"apiVersion": "v1", "command": "false", "provideClusterInfo": True}},
        ),
    ],
)
def test_the_error_of_a_kubeconfig_names_file_and_field(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    path = kubeconfig(tmp_path, **fields)
    with pytest.raises(ConfigurationError) as raised:
        credentials.load_kubeconfig(path)
    assert said in str(raised.value)
    assert str(raised.value).startswith(str(path))


def test_a_kubeconfig_that_cannot_be_read_is_an_error_in_plain_words(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"a: \xff")
    long = tmp_path / ("a" * 300)
    broken = ((binary, "not UTF-8: save the file as UTF-8"), (tmp_path, "Is a directory"), (long, "File name too long"))
    for path, said in broken:
        with pytest.raises(ConfigurationError) as raised:
            credentials.load_kubeconfig(path)
        assert str(raised.value) == f"{path}: cannot be read: {said}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no kubeconfig"),
        ("- a", "is no kubeconfig"),
        ("a: [", "is not YAML from line 2, column 1: write a kubeconfig as `kubectl config view --raw`"),
        (None, "no such file"),
    ],
    ids=["empty", "a list", "broken", "missing"],
)
def test_a_file_that_is_no_kubeconfig_is_an_error(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        credentials.load_kubeconfig(path)


def test_a_file_without_an_end_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="/dev/zero: is larger than 16 MiB"):
        credentials.load_kubeconfig(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'please log in' >&2; exit 1", "the credential plugin failed with status 1: please log in"),
        ("echo nonsense", "the credential plugin printed no ExecCredential with a status"),
        (credential("{}"), "printed neither status.token nor status.clientCertificateData"),
        (credential('{"token": 7}'), "a status.token that is no text"),
        (credential('{"token": "t", "expirationTimestamp": "soon"}'), "expirationTimestamp 'soon' is no RFC 3339 time"),
        (credential('{"token": "t", "expirationTimestamp": 7}'), "expirationTimestamp '7' is no RFC 3339 time"),
        (
            credential('{"token": "t", "expirationTimestamp": "2026-01-31T12:00:00"}'),
            "has to write one with an offset",
        ),
        ('echo \'{"apiVersion": "other/v1", "status": {}}\'', "exec.apiVersion is 'client.authentication.k8s.io/v1'"),
        ("kill -9 $$", "failed with status -9: run it by hand to see why"),
    ],
    ids=["fails", "nonsense", "nothing", "token", "time", "number", "no offset", "version", "killed"],
)
def test_the_error_of_a_failed_plugin_has_its_output(tmp_path: Path, script: str, said: str) -> None:
    path = kubeconfig(tmp_path, user=plugin(tmp_path, script))
    with pytest.raises(ConfigurationError) as raised:
        credentials.load_kubeconfig(path)
    assert said in str(raised.value)
    assert "users[u].user.exec" in str(raised.value)


def test_a_ca_that_is_no_certificate_is_an_error(tmp_path: Path) -> None:
    cluster = {"server": "https://x", "certificate-authority-data": CERTIFICATE}
    access = credentials.load_kubeconfig(kubeconfig(tmp_path, cluster=cluster))
    with pytest.raises(ConfigurationError, match="no usable certificate or key"):
        credentials.tls_context(access)


IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    token, certificate = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("of-the-pod\n")
    certificate.write_text("ca")
    access = credentials.load_in_cluster(token, certificate, IN_CLUSTER)
    assert (access.server, access.authorization) == ("https://10.0.0.1:443", "Bearer of-the-pod")
    assert access.refresh_seconds == 60.0
    token.write_text("renewed")
    assert credentials.load_in_cluster(token, certificate, IN_CLUSTER).authorization == "Bearer renewed"


def test_outside_a_cluster_it_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="write --kubeconfig FILE, or run in the cluster"):
        credentials.load_in_cluster(tmp_path / "token", tmp_path / "ca.crt", {})


def test_the_error_of_a_pod_without_a_token_names_the_field(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="automountServiceAccountToken: true"):
        credentials.load_in_cluster(tmp_path / "token", tmp_path / "ca.crt", IN_CLUSTER)


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def numbered(*, refresh_seconds: float | None = 60.0) -> Callable[[], ClientConfig]:
    count = iter(range(100))

    def load() -> ClientConfig:
        return ClientConfig("http://x", f"Bearer {next(count)}", None, ("", "", ""), refresh_seconds=refresh_seconds)

    return load


SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "proxy",
    [
        f"socks5://ann:{SECRET}@proxy:1080",
        f"http://ann:{SECRET}@proxy:0",
        f"http://ann:a/{SECRET}@proxy:port",
        f"ann:{SECRET}@proxy:port",
        f"http://ann:{SECRET}",
        f"socks5://proxy/?password={SECRET}",
        f"http://[::1:{SECRET}@x",
    ],
)
def test_no_message_holds_the_password_of_a_proxy_or_server(proxy: str, tmp_path: Path) -> None:
    for cluster in ({"server": "https://x", "proxy-url": proxy}, {"server": proxy}):
        with pytest.raises(ConfigurationError) as raised:
            credentials.load_kubeconfig(kubeconfig(tmp_path, cluster=cluster))
        assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "said",
    [
        f"Authorization: Bearer {SECRET}",
        f"token={SECRET}",
        f'"client_secret": "{SECRET}"',
        f"GET https://ann:{SECRET}@login/",
        "refused: eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl" + SECRET,
    ],
)
def test_no_message_holds_a_secret_that_a_plugin_says(said: str, tmp_path: Path) -> None:
    outputs = (f"cat >&2 <<'E'\n{said}\nE\nexit 1", f"cat <<'E'\n{said}\nE", f"cat <<'E'\n{said}\nE\nexit 1")
    for script in outputs:
        with pytest.raises(ConfigurationError) as raised:
            credentials.load_kubeconfig(kubeconfig(tmp_path, user=plugin(tmp_path, script)))
        assert SECRET not in str(raised.value)
    with pytest.raises(ConfigurationError) as raised:
        credentials.load_kubeconfig(
            kubeconfig(tmp_path, contexts=[{"name": "here", "context": {"cluster": {"a": said}}}])
        )
    assert SECRET not in str(raised.value)


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_plugin_that_does_not_end_is_ended_with_all_that_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "PLUGIN_SECONDS", 0.5)
    pids, communicate = tmp_path / "pids", subprocess.Popen.communicate

    def begun(process: "subprocess.Popen[str]", **options: Any) -> tuple[str, str]:
        wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"))
        return communicate(process, **options)

    monkeypatch.setattr(subprocess.Popen, "communicate", begun)
    script = f"sleep 600 & echo $! $$ > {pids}; wait"
    with pytest.raises(ConfigurationError, match=r"exec: the credential plugin did not end within 0\.5 s"):
        credentials.load_kubeconfig(kubeconfig(tmp_path, user=plugin(tmp_path, script)))
    for pid in map(int, pids.read_text().split()):
        while not ended(pid):
            time.sleep(0.01)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.datetimes().map(str),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ),
    st.sampled_from(["token", "expirationTimestamp", "clientCertificateData", "clientKeyData"]),
)
def test_whatever_a_plugin_prints_is_an_answer_or_an_error_that_names_the_field(value: Any, key: str) -> None:
    user = {"exec": {"apiVersion": "v1"}}
    selected = kubeconfig_module.Selected(Path("config"), "here", "c", {}, "u", user)
    try:
        answered = kubeconfig_module.with_plugin_answer(selected, "users[u].user.exec", {"token": "t", key: value})
    except ConfigurationError as error:
        said = str(error)
    else:
        said = "users[u].user.exec: "
        assert answered.expires_at is None or answered.expires_at.tzinfo is not None
        assert isinstance(answered.user.get("token", ""), str)
    assert said.startswith("users[u].user.exec: ")


async def test_credentials_are_renewed_when_they_are_due() -> None:
    clock = Time()
    known = Credentials(numbered(), clock)
    assert (await known.current()).authorization == "Bearer 0"
    clock.now = 59.0
    assert (await known.current()).authorization == "Bearer 0"
    clock.now = 60.0
    assert (await known.current()).authorization == "Bearer 1"
    assert (await known.current()).authorization == "Bearer 1"


async def test_refused_credentials_are_renewed_once_for_all_requests() -> None:
    known = Credentials(numbered(refresh_seconds=None), Time())
    assert await asyncio.gather(*(known.renew("Bearer 0") for _ in range(5))) == [True] * 5
    assert known.access.authorization == "Bearer 1"


async def test_a_renewal_that_brings_the_same_is_no_reason_to_try_again() -> None:
    access = ClientConfig("http://x", "Bearer same", None, ("", "", ""))
    assert not await Credentials(lambda: access, Time()).renew("Bearer same")


async def test_a_renewal_that_fails_leaves_what_there_is_and_is_tried_again_later() -> None:
    clock, load = Time(), numbered()
    broken = False

    def sometimes() -> ClientConfig:
        if broken:
            raise ConfigurationError("the file is gone")
        return load()

    known = Credentials(sometimes, clock)
    broken, clock.now = True, 60.0
    assert (await known.current()).authorization == "Bearer 0"
    assert known.problem == "the file is gone"
    broken, clock.now = False, 65.0
    assert (await known.current()).authorization == "Bearer 0"
    clock.now = 70.0
    assert (await known.current()).authorization == "Bearer 1"
    assert known.problem == ""


class HangingOnce:
    """A plugin that hangs at its second call until it is let go."""

    def __init__(self) -> None:
        self._calls = 0
        self.let_go = threading.Event()

    def __call__(self) -> ClientConfig:
        self._calls += 1
        if self._calls == 2:
            assert self.let_go.wait(60)
        return ClientConfig("http://x", f"Bearer {self._calls}", None, ("", "", ""), refresh_seconds=60.0)


async def test_a_request_waits_for_a_renewal_that_hangs_only_within_its_time_and_others_not_at_all() -> None:
    clock, load = Time(), HangingOnce()
    known = Credentials(load, clock)
    clock.now = 60.0
    try:
        assert (await known.current(0.01)).authorization == "Bearer 1"
        assert "has not ended within 0.0 s" in known.problem
        assert (await known.current(3600.0)).authorization == "Bearer 1"
        assert not await known.renew("Bearer 1", 0.01)
    finally:
        load.let_go.set()
    assert await known.renew("Bearer 1")
    assert (known.access.authorization, known.problem) == ("Bearer 2", "")


async def test_a_caller_that_gives_up_ends_no_renewal_of_others() -> None:
    clock, load = Time(), HangingOnce()
    known = Credentials(load, clock)
    clock.now = 60.0
    first = asyncio.create_task(known.renew("Bearer 1"))
    await asyncio.sleep(0)
    second = asyncio.create_task(known.renew("Bearer 1"))
    await asyncio.sleep(0)
    first.cancel()
    load.let_go.set()
    assert await second
    assert first.cancelled()


async def test_no_exception_of_a_renewal_reaches_the_request() -> None:
    clock, answers = Time(), [ClientConfig("http://x", "a", None, ("", "", ""), refresh_seconds=60.0)]
    known = Credentials(answers.pop, clock)
    clock.now = 60.0
    assert (await known.current()).authorization == "a"
    assert known.problem == "IndexError"


def test_name_and_password_become_the_authorization(tmp_path: Path) -> None:
    user = {"username": "ann", "password": "geheim: ü"}
    expected = "Basic " + base64.b64encode(b"ann:geheim: \xc3\xbc").decode()
    assert credentials.load_kubeconfig(kubeconfig(tmp_path, user=user)).authorization == expected


def test_an_auth_provider_gives_the_token(tmp_path: Path) -> None:
    token = "e30.e30.signature"
    provider = {"name": "oidc", "config": {"id-token": token}}
    user = {"auth-provider": provider, "token": "of-the-file"}
    assert credentials.load_kubeconfig(kubeconfig(tmp_path, user=user)).authorization == f"Bearer {token}"


def test_without_a_token_of_its_provider_a_user_has_that_of_the_file(tmp_path: Path) -> None:
    user = {"auth-provider": {"name": "unknown"}, "token": "of-the-file"}
    assert credentials.load_kubeconfig(kubeconfig(tmp_path, user=user)).authorization == "Bearer of-the-file"


def test_the_error_of_an_auth_provider_names_the_file(tmp_path: Path) -> None:
    expired = ".".join(("e30", base64.urlsafe_b64encode(b'{"exp": 1}').decode().rstrip("="), "signature"))
    path = kubeconfig(tmp_path, user={"auth-provider": {"name": "oidc", "config": {"id-token": expired}}})
    with pytest.raises(ConfigurationError, match=str(path)):
        credentials.load_kubeconfig(path)


def test_certificates_of_the_kubeconfig_become_files_that_are_written_again_when_they_vanish(tmp_path: Path) -> None:
    cluster = {"server": "https://x", "certificate-authority-data": CERTIFICATE}
    first = credentials.load_kubeconfig(kubeconfig(tmp_path, cluster=cluster))
    assert first.tls is not None
    assert first.tls.certificate_authority == b"not a certificate"
    Path(first.files[0]).unlink()
    again = credentials.load_kubeconfig(kubeconfig(tmp_path, cluster=cluster))
    assert Path(again.files[0]).read_bytes() == b"not a certificate"


def test_certificates_are_read_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"authority")
    (tmp_path / "user.crt").write_bytes(b"certificate")
    cluster = {"server": "https://x", "certificate-authority": "ca.crt"}
    user = {"client-certificate": "user.crt", "client-key-data": CERTIFICATE}
    access = credentials.load_kubeconfig(kubeconfig(tmp_path, cluster=cluster, user=user))
    assert access.tls == credentials.Tls(b"authority", b"certificate", b"not a certificate", is_verified=True)


def test_without_a_proxy_in_the_kubeconfig_that_of_the_environment_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    there = kubeconfig(tmp_path, cluster={"server": "https://there"})
    assert credentials.load_kubeconfig(there).proxy == "http://proxy:3128"
    assert credentials.load_kubeconfig(kubeconfig(tmp_path)).proxy == ""


def test_the_address_in_a_pod_may_be_of_ipv6(tmp_path: Path) -> None:
    token, certificate = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("t")
    certificate.write_text("ca")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert credentials.load_in_cluster(token, certificate, environment).server == "https://[fd00::1]:443"
    certificate.write_text("")
    with pytest.raises(ConfigurationError, match=r"ca\.crt is empty"):
        credentials.load_in_cluster(token, certificate, environment)


def test_a_proxy_may_be_written_without_a_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "proxy:3128")
    monkeypatch.setenv("no_proxy", "")
    assert credentials.load_kubeconfig(kubeconfig(tmp_path)).proxy == "http://proxy:3128"


@pytest.mark.parametrize("proxy", ["socks5://proxy:1080", "http://", "http://proxy:0"])
def test_a_proxy_of_another_kind_is_refused(proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(ConfigurationError, match=rf"the proxy '{proxy}' is not valid: write http://HOST:PORT"):
        credentials.load_kubeconfig(kubeconfig(tmp_path))
