"""
Asks a running scheduler, for the command line.

The question goes through the API server's proxy of a Service, with the caller's credentials, or straight to a URL. The
proxy removes `Authorization` once it has checked it. So the caller's token is in a header of its own, which the API
server sends on over TLS. That is the token of the kubeconfig; or with `service_account` one that the API server makes
for that account and that is valid at the scheduler only. Client certificates need the latter.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from scheduler import API_SERVICE
from scheduler.api import access_reviews
from scheduler.api.queries import CALLER_HEADER, NOT_LEADING, PREFIX
from scheduler.kube import paths
from scheduler.kube.access import ClusterAccess
from scheduler.kube.client import Client
from scheduler.kube.credentials import ClientConfig, Tls
from scheduler.kube.errors import ApiError, ConfigurationError, NotFound
from scheduler.kube.login.redaction import without_secrets
from scheduler.settings import Address

_PORT: Final = "api"
_MOST_TRIES: Final = 24
"""The proxy chooses a replica at random, and only the leader answers: of two, it is missed once in ten million."""
_SECONDS: Final = 10.0
_UNAVAILABLE: Final = 503
_NO_ENDPOINTS: Final = "no endpoints available"
"""Kubernetes 1.37 says the same of a Service that does not exist as of one without ready pods; before, it is a 404."""


class SchedulerAddress(NamedTuple):
    """
    The address of the scheduler's API, and the caller's credentials.

    `service` is `NAMESPACE/NAME`; `server` is a URL instead of it, whose certificate `certificate_authority` signed.
    `service_account` is `NAMESPACE/NAME` of the account that asks; "" is the user of the kubeconfig.
    """

    service: str = API_SERVICE
    server: str = ""
    certificate_authority: Path | None = None
    service_account: str = ""


async def ask(access: ClusterAccess, address: SchedulerAddress, name: str, parameters: Mapping[str, str]) -> bytes:
    """Return the document that a running scheduler answers with. Raise `KubeError`."""
    async with access.connect() as client:
        token = await _token(client, address.service_account)
        if address.server:
            return await ask_as(address, token, name, parameters)
        return await _through_the_proxy(client, address.service, token, (name, parameters))


async def ask_as(address: SchedulerAddress, token: str, name: str, parameters: Mapping[str, str]) -> bytes:
    """
    Return the document that the scheduler at a URL answers the caller of a token. Raise `KubeError`.

    Behind the URL of a Service each connection leads to one of the replicas, so each try has one of its own.
    """
    path = f"{PREFIX}/{name}"
    for _ in range(_MOST_TRIES):
        try:
            async with _direct(address, token) as scheduler:
                return await scheduler.request("GET", path, query=parameters, timeout_seconds=_SECONDS)
        except ApiError as error:
            if error.reason != NOT_LEADING:
                raise
    raise ConfigurationError(
        f"no replica behind {without_secrets(address.server)} leads: look at /readyz?verbose of each"
    )


async def _token(client: Client, service_account: str) -> str:
    if service_account:
        namespace, name = _split(service_account, "--service-account")
        return await access_reviews.request_token(client, namespace, name)
    token = await client.bearer_token()
    if not token:
        raise ConfigurationError(
            "the kubeconfig has a client certificate and no token, and the scheduler checks tokens: write "
            "--service-account NAMESPACE/NAME of an account that may list pods and for which you may create tokens"
        )
    return token


async def _through_the_proxy(client: Client, service: str, token: str, asked: tuple[str, Mapping[str, str]]) -> bytes:
    namespace, name = _split(service, "--service")
    path = f"{paths.CORE}/namespaces/{namespace}/services/https:{name}:{_PORT}/proxy{PREFIX}/{asked[0]}"
    headers = {CALLER_HEADER: f"Bearer {token}"}
    for _ in range(_MOST_TRIES):
        try:
            return await client.request("GET", path, query=asked[1], headers=headers, timeout_seconds=_SECONDS)
        except ApiError as error:
            if isinstance(error, NotFound) or (error.status == _UNAVAILABLE and _NO_ENDPOINTS in str(error)):
                raise ConfigurationError(
                    f"no scheduler answers behind the Service {service}: it does not exist, or none of its pods is "
                    "ready. The API of a scheduler is off unless it is switched on (docs/history.md); where it is, "
                    f"write --service NAMESPACE/NAME, or --server URL ({error})"
                ) from error
            if error.reason != NOT_LEADING:
                raise
        await asyncio.sleep(0)
    raise ConfigurationError(f"no replica behind the Service {service} leads: look at /readyz?verbose of each")


@contextlib.asynccontextmanager
async def _direct(address: SchedulerAddress, token: str) -> AsyncIterator[Client]:
    """Open a client of a URL. A token is sent in plain text to this machine only."""
    scheme = _scheme(address.server)
    if scheme is None:
        raise ConfigurationError(
            f"--server: {without_secrets(address.server)!r} is not valid: write https://HOST:PORT, or http://127.0.0.1:PORT"
        )
    authority = str(address.certificate_authority or "")
    tls = Tls(authority.encode(), b"", b"", is_verified=True) if scheme == "https" else None
    config = ClientConfig(address.server.rstrip("/"), f"Bearer {token}", tls, (authority, "", ""))
    async with Client.with_credentials(lambda: config, max_connections=1) as client:
        yield client


def _scheme(server: str) -> str | None:
    """Return the scheme of a URL to which a token may be sent; None for any other text."""
    try:
        parts = urlsplit(server)
        host, is_port = parts.hostname or "", parts.port != 0
    except ValueError:
        return None
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and Address(host, 0).is_loopback)
    return parts.scheme if host and is_port and is_safe else None


def _split(text: str, option: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ConfigurationError(f"{option}: {text!r} is not valid: write NAMESPACE/NAME")
    return namespace, name
