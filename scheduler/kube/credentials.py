"""
Address of the API server and credentials, from a kubeconfig file or the pod's service account.

`load_kubeconfig` and `load_in_cluster` read everything again at each call, because files are rotated and tokens of exec
plugins expire. `Credentials` calls them when a renewal is due.
"""

import asyncio
import atexit
import base64
import datetime as dt
import functools
import os
import ssl
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from scheduler.kube.errors import ConfigurationError
from scheduler.kube.http.connection_pool import basic_authorization
from scheduler.kube.login import kubeconfig
from scheduler.kube.login.redaction import without_secrets

TOKEN_FILE_SECONDS: Final = 60.0
"""Period in which a token file is read again; the kubelet renews tokens long before they expire."""
RETRY_SECONDS: Final = 10.0
"""Wait after a failed renewal; the old credentials are used meanwhile."""
_WAIT_SECONDS: Final = 30.0
_EARLY_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 86400.0
"""Credentials are renewed after a day at the latest, whatever expiration they have."""
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SERVICE_HOST: Final = "KUBERNETES_SERVICE_HOST"
_SERVICE_PORT: Final = "KUBERNETES_SERVICE_PORT"


class Tls(NamedTuple):
    """The bytes that a TLS context is made of: with equal bytes connections are kept."""

    certificate_authority: bytes
    certificate: bytes
    key: bytes
    is_verified: bool


class ClientConfig(NamedTuple):
    """
    Server URL without a trailing slash, Authorization header ("": none), TLS and proxy.

    `refresh_seconds` is how long the credentials are valid (None: until a 401).
    """

    server: str
    authorization: str
    tls: Tls | None
    files: tuple[str, str, str]
    server_name: str = ""
    proxy: str = ""
    refresh_seconds: float | None = None


def load_kubeconfig(path: Path, context: str = "") -> ClientConfig:
    """Read a kubeconfig file; runs its credential plugin. Raises ConfigurationError."""
    try:
        path = path.expanduser().absolute()
    except RuntimeError as error:
        raise ConfigurationError(f"{path}: no such home directory: write the whole path") from error
    selected = kubeconfig.run_plugin(kubeconfig.ask_provider(kubeconfig.select(path, context)))
    cluster, user = selected.cluster, selected.user
    server = cluster["server"].rstrip("/")
    try:
        authorization = _authorization(path.parent, user)
        files = _tls_files(path.parent, cluster, user) if server.startswith("https") else ("", "", "")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    refresh_seconds: float | None = TOKEN_FILE_SECONDS if "tokenFile" in user else None
    if selected.expires_at is not None:
        left = (selected.expires_at - dt.datetime.now(dt.UTC)).total_seconds()
        refresh_seconds = min(max(left - _EARLY_SECONDS, left / 2, 1.0), _LONGEST_SECONDS)
    return _config(
        server,
        authorization,
        files,
        is_verified=not cluster.get("insecure-skip-tls-verify"),
        server_name=cluster.get("tls-server-name") or "",
        proxy=cluster.get("proxy-url"),
        refresh_seconds=refresh_seconds,
        said_by=f"{path}: ",
    )


def load_in_cluster(
    token: Path = SERVICE_ACCOUNT / "token",
    certificate: Path = SERVICE_ACCOUNT / "ca.crt",
    environment: Mapping[str, str] = os.environ,
) -> ClientConfig:
    """Read the service account that the kubelet mounts. Raises ConfigurationError."""
    host, port = environment.get(_SERVICE_HOST), environment.get(_SERVICE_PORT)
    if not host or not port:
        missing = _SERVICE_PORT if host else _SERVICE_HOST
        raise ConfigurationError(
            f"no kubeconfig was given and this is no pod ({missing} is not set): "
            "write --kubeconfig FILE, or run in the cluster"
        )
    try:
        authorization = f"Bearer {_filled(token).strip()}"
        _filled(certificate)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"the pod's service account ({token.parent}) cannot be used: {error}. "
            "Set automountServiceAccountToken: true in the pod's spec"
        ) from error
    server = f"https://[{host}]:{port}" if ":" in host or "%" in host else f"https://{host}:{port}"
    files = (str(certificate), "", "")
    return _config(server, authorization, files, refresh_seconds=TOKEN_FILE_SECONDS, said_by=f"{token.parent}: ")


def _filled(path: Path) -> str:
    """Return the text of a file. Raises OSError, and ValueError where it is empty."""
    text = path.read_text()
    if not text:
        raise ValueError(f"{path} is empty")
    return text


def _authorization(folder: Path, user: Mapping[str, Any]) -> str:
    """Make the header of a user's token, or of name and password; "" without. Raises OSError and ValueError."""
    token = user["token"] if "token" in user else _text_of(folder, user.get("tokenFile"))
    if token:
        return f"Bearer {token.strip()}"
    if "username" in user and "password" in user:
        return basic_authorization(user["username"], user["password"])
    return ""


def _text_of(folder: Path, name: str | None) -> str:
    return (folder / name).read_text() if name else ""


def _tls_files(folder: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the files of the authority, the client certificate and its key; "" where there is none."""
    authority = _file(folder, cluster, "certificate-authority")
    return authority, _file(folder, user, "client-certificate"), _file(folder, user, "client-key")


def _file(folder: Path, mapping: Mapping[str, Any], key: str) -> str:
    """Return the file of a certificate or key; one whose content is in the kubeconfig is written to a file."""
    if data := mapping.get(f"{key}-data"):
        if not Path(_temporary_file(base64.b64decode(data))).is_file():
            _temporary_file.cache_clear()  # something tidies the folder for temporary files
        return _temporary_file(base64.b64decode(data))
    return str(folder / mapping[key]) if mapping.get(key) else ""


@functools.cache
def _temporary_file(content: bytes) -> str:
    """Write a file that only this user can read, until this process ends: OpenSSL reads certificates from files."""
    descriptor, name = tempfile.mkstemp()
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    atexit.register(Path(name).unlink, missing_ok=True)
    return name


def _config(
    server: str,
    authorization: str,
    files: tuple[str, str, str],
    *,
    is_verified: bool = True,
    server_name: str = "",
    proxy: str | None = None,
    refresh_seconds: float | None,
    said_by: str,
) -> ClientConfig:
    """Read the files, and choose the proxy: without one in the kubeconfig that of the environment."""
    if not authorization.isprintable():
        raise ConfigurationError(f"{said_by}the token holds characters that a header cannot carry: log in again")
    try:
        authority, certificate, key = (Path(name).read_bytes() if name else b"" for name in files)
    except OSError as error:
        raise ConfigurationError(f"{said_by}{error}") from error
    parts = urllib.parse.urlsplit(server)
    if proxy is None:
        proxies = urllib.request.getproxies()
        proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    bypassed = urllib.request.proxy_bypass(parts.hostname or "")
    return ClientConfig(
        server=server,
        authorization=authorization,
        tls=Tls(authority, certificate, key, is_verified) if server.startswith("https") else None,
        files=files,
        server_name=server_name,
        proxy=_proxy_url(proxy, said_by) if proxy and not bypassed else "",
        refresh_seconds=refresh_seconds,
    )


def _proxy_url(text: str, said_by: str) -> str:
    """Return the URL of a proxy, which may be written without a scheme. Raises ConfigurationError."""
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urllib.parse.urlsplit(url)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ConfigurationError(
            f"{said_by}the proxy {without_secrets(text)!r} is not valid: write http://HOST:PORT or https://HOST:PORT, "
            "as proxy-url in the kubeconfig or in the environment (HTTPS_PROXY)"
        )
    return url


def tls_context(access: ClientConfig) -> ssl.SSLContext | None:
    """Build the TLS context, None for plain HTTP. Raises ConfigurationError."""
    if access.tls is None:
        return None
    authority, certificate, key = access.files
    try:
        context = ssl.create_default_context(cafile=authority or None)
        if certificate:
            context.load_cert_chain(certificate, key or None)
    except (ssl.SSLError, OSError) as error:
        which = certificate or authority
        raise ConfigurationError(f"{which}: no usable certificate or key: {error}") from error
    # Cluster CAs are often made without the key identifiers that Python 3.13 began to insist on.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # As in Go, and in Python from 3.13 on: whatever is in the file is trusted, also a certificate that signs no other.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if not access.tls.is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class Credentials:
    """
    The current credentials, renewed in a thread when they are due or after a 401.

    One renewal runs at a time, and none that fails changes anything: it sets `problem`, and is tried again later. A
    request waits for a renewal within its own time. Others use the old credentials meanwhile, which are still valid.
    """

    def __init__(self, load: Callable[[], ClientConfig], clock: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._clock = clock
        self._renewal: asyncio.Task[None] | None = None
        self.problem = ""
        self.access = load()
        self.tls = tls_context(self.access)
        self._due = self._next_time(self.access)

    def _next_time(self, access: ClientConfig) -> float:
        return float("inf") if access.refresh_seconds is None else self._clock() + access.refresh_seconds

    async def current(self, seconds: float = _WAIT_SECONDS) -> ClientConfig:
        """Return the credentials to use now; where they are due, wait at most so long for new ones."""
        if self._clock() >= self._due and self._renewal is None:
            await self._renewed(seconds)
        return self.access

    async def renew(self, refused: str = "", seconds: float = _WAIT_SECONDS) -> bool:
        """
        Load again within some seconds, and say whether the Authorization differs from `refused` now.

        A renewal by another request counts.
        """
        if not refused or self.access.authorization == refused:
            await self._renewed(seconds)
        return self.access.authorization != refused

    async def _renewed(self, seconds: float) -> None:
        """Wait for a renewal, which goes on where it takes longer."""
        if self._renewal is None:
            self._renewal = asyncio.create_task(self._load_again())
        _, pending = await asyncio.wait((self._renewal,), timeout=seconds)
        if pending:
            self.problem = f"it has not ended within {seconds:.1f} s"

    async def _load_again(self) -> None:
        try:
            access, tls = await asyncio.to_thread(self._loaded)
        except Exception as error:  # noqa: BLE001 - whatever a file or plugin brings, the old credentials stay
            self.problem = str(error) if isinstance(error, ConfigurationError) else type(error).__name__
            self._due = self._clock() + RETRY_SECONDS
        else:
            self.problem = ""
            self.access, self.tls = access, tls
            self._due = self._next_time(access)
        finally:
            self._renewal = None

    def _loaded(self) -> tuple[ClientConfig, ssl.SSLContext | None]:
        """Load, and make a TLS context where the certificates are others."""
        access = self._load()
        return access, self.tls if access.tls == self.access.tls else tls_context(access)
