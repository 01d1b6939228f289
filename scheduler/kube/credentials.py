"""
Address of the API server and credentials, from a kubeconfig file or the pod's service account.

`load_kubeconfig` and `load_in_cluster` read everything again at each call, because files are rotated and tokens of exec
plugins expire. `Credentials` calls them when a renewal is due.
"""

import asyncio
import datetime as dt
import os
import ssl
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kubernetes.client.configuration import Configuration
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_HOST_ENV_NAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)
from kubernetes.config.kube_config import KubeConfigLoader

from scheduler.kube import kubeconfig
from scheduler.kube.errors import ConfigurationError

TOKEN_FILE_SECONDS: Final = 60.0
"""Period in which a token file is read again; the kubelet renews tokens long before they expire."""
RETRY_SECONDS: Final = 10.0
"""Wait after a failed renewal; the old credentials are used meanwhile."""
_EARLY_SECONDS: Final = 60.0


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
    """Read a kubeconfig file; runs its exec plugin. Raises ConfigurationError."""
    path = path.expanduser().absolute()
    selected = kubeconfig.run_plugin(kubeconfig.select(path, context))
    configuration = Configuration(host=selected.cluster["server"])
    try:
        loader = KubeConfigLoader(selected.as_config(), config_base_path=str(path.parent))  # type: ignore[no-untyped-call] # the package is untyped
        loader.load_and_set(configuration)  # type: ignore[no-untyped-call] # the package is untyped
    except (ConfigException, OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    expires_at = selected.expires_at or getattr(loader, "expiry", None)
    if expires_at is not None:
        left = (expires_at - dt.datetime.now(dt.UTC)).total_seconds()
        refresh_seconds: float | None = max(left - _EARLY_SECONDS, left / 2, 1.0)
    else:
        refresh_seconds = TOKEN_FILE_SECONDS if "tokenFile" in selected.user else None
    return _access(configuration, refresh_seconds, f"{path}: ")


def load_in_cluster(
    token: Path = Path(SERVICE_TOKEN_FILENAME),
    certificate: Path = Path(SERVICE_CERT_FILENAME),
    environment: Mapping[str, str] = os.environ,
) -> ClientConfig:
    """Read the service account that the kubelet mounts. Raises ConfigurationError."""
    if SERVICE_HOST_ENV_NAME not in environment:
        raise ConfigurationError(
            f"no kubeconfig was given and this is no pod ({SERVICE_HOST_ENV_NAME} is not set): "
            "write --kubeconfig FILE, or run in the cluster"
        )
    configuration = Configuration()
    loader = InClusterConfigLoader(  # type: ignore[no-untyped-call] # the package is untyped
        str(token), str(certificate), try_refresh_token=False, environ=environment
    )
    try:
        loader.load_and_set(configuration)  # type: ignore[no-untyped-call] # the package is untyped
    except (ConfigException, OSError) as error:
        raise ConfigurationError(
            f"the pod's service account ({token.parent}) cannot be used: {error} "
            "Set automountServiceAccountToken: true in the pod's spec"
        ) from error
    return _access(configuration, TOKEN_FILE_SECONDS, f"{token.parent}: ")


def _access(configuration: Configuration, refresh_seconds: float | None, said_by: str) -> ClientConfig:
    """Convert the kubernetes package's configuration."""
    authorization = (configuration.api_key.get("BearerToken") or "").strip()
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() == "bearer":
        authorization = f"Bearer {token}"
    if not authorization.isprintable():
        raise ConfigurationError(f"{said_by}the token holds characters that a header cannot carry: log in again")
    server = configuration.host.rstrip("/")
    names = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    files = tuple(str(name or "") for name in names)
    try:
        authority, certificate, key = (Path(name).read_bytes() if name else b"" for name in files)
    except OSError as error:
        raise ConfigurationError(f"{said_by}{error}") from error
    host = urllib.parse.urlsplit(server).hostname or ""
    return ClientConfig(
        server=server,
        authorization=authorization,
        tls=Tls(authority, certificate, key, bool(configuration.verify_ssl)) if server.startswith("https") else None,
        files=(files[0], files[1], files[2]),
        server_name=configuration.tls_server_name or "",
        proxy="" if urllib.request.proxy_bypass(host) else configuration.proxy or "",
        refresh_seconds=refresh_seconds,
    )


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
    if not access.tls.is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class Credentials:
    """
    The current credentials, renewed in a thread when they are due or after a 401.

    One renewal runs at a time; other requests use the old credentials meanwhile, which are still valid. A renewal that
    fails changes nothing, sets `problem`, and is retried later.
    """

    def __init__(self, load: Callable[[], ClientConfig], clock: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._clock = clock
        self._lock = asyncio.Lock()
        self.problem = ""
        self.access = load()
        self.tls = tls_context(self.access)
        self._due = self._next_time(self.access)

    def _next_time(self, access: ClientConfig) -> float:
        return float("inf") if access.refresh_seconds is None else self._clock() + access.refresh_seconds

    async def current(self) -> ClientConfig:
        """Return the credentials to use now, renewed if they are due."""
        if self._clock() >= self._due and not self._lock.locked():
            await self.renew()
        return self.access

    async def renew(self, refused: str = "") -> bool:
        """
        Load again, and say whether the Authorization differs from `refused` now.

        A renewal by another request counts.
        """
        async with self._lock:
            if refused and self.access.authorization != refused:
                return True
            try:
                access = await asyncio.to_thread(self._load)
                if access.tls != self.access.tls:
                    self.tls = tls_context(access)
            except ConfigurationError as error:
                self.problem = str(error)
                self._due = self._clock() + RETRY_SECONDS
                return False
            self.problem = ""
            self.access = access
            self._due = self._next_time(access)
            return self.access.authorization != refused
