"""
Lists names of objects for the Tab key: one request, in a fraction of a second or not at all.

`Client` takes longer to import than a user waits for a completion. So this reads what it needs of a kubeconfig itself,
asks for metadata only, and gives up at everything that is not the usual: no exec plugin is run, no proxy is used.
"""

import base64
import contextlib
import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from scheduler import private_file

_SECONDS: Final = 0.25
"""For everything: connecting, the request, and its answer."""
LIMIT: Final = "DOVETAIL_COMPLETION_SECONDS"
"""The environment variable with another limit, for API servers that are far away."""
_MOST_OBJECTS: Final = 500
_MOST_BYTES: Final = 4 * 1024 * 1024
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_MOST_KUBECONFIG: Final = 4 * 1024 * 1024


class NamesError(Exception):
    """No names can be listed; nobody is told why, as this answers the Tab key."""


class QuickAccess(NamedTuple):
    """A cluster and a user of a kubeconfig, and the namespace of the context; `folder` is that of the file."""

    folder: Path
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    namespace: str


def find(path: Path | None, context: str, environment: Mapping[str, str] = os.environ) -> QuickAccess:
    """Choose cluster and user as `access.find` does. Raise `NamesError`."""
    named = [Path(each) for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    for each in [path] if path is not None else named or [Path.home() / ".kube" / "config"]:
        document = _document(each.expanduser())
        wanted = context or document.get("current-context", "")
        chosen = _entry(document, "context", wanted)
        if chosen is not None:
            cluster = _entry(document, "cluster", chosen.get("cluster", ""))
            user = _entry(document, "user", chosen.get("user", "")) or {}
            if cluster is None:
                raise NamesError
            return QuickAccess(each.expanduser().absolute().parent, cluster, user, chosen.get("namespace") or "default")
    raise NamesError


def contexts(path: Path | None, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the names of the contexts of the kubeconfig files. Raise `NamesError`."""
    named = [Path(each) for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    files = [path] if path is not None else named or [Path.home() / ".kube" / "config"]
    entries = (each for file in files for each in _document(file.expanduser()).get("contexts") or ())
    return sorted({str(each["name"]) for each in entries if isinstance(each, dict) and "name" in each})


def _document(path: Path) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - it takes a while to import

    try:
        if path.stat().st_size > _MOST_KUBECONFIG:
            raise NamesError
        found = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        raise NamesError from None
    if not isinstance(found, dict):
        raise NamesError
    return found


def _entry(document: Mapping[str, Any], kind: str, name: str) -> dict[str, Any] | None:
    for each in document.get(f"{kind}s") or ():
        if isinstance(each, dict) and each.get("name") == name and isinstance(each.get(kind), dict):
            found: dict[str, Any] = each[kind]
            return found
    return None


def metadata(access: QuickAccess, path: str) -> list[dict[str, Any]]:
    """List the metadata of objects below a path of the API, some hundred at most. Raise `NamesError`."""
    try:
        ends = time.monotonic() + float(os.environ.get(LIMIT) or _SECONDS)
        answer = _get(access, f"{path}?limit={_MOST_OBJECTS}", ends)
        found = json.loads(answer)
        return [each["metadata"] for each in found.get("items") or ()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise NamesError from None


def _get(access: QuickAccess, path: str, ends: float) -> bytes:
    """Send one request of HTTP/1.0, whose answer ends with the connection; return the content of a success."""
    scheme, _, rest = str(access.cluster["server"]).rstrip("/").partition("://")
    authority, slash, below = rest.partition("/")
    host, port = _host_and_port(authority, scheme)
    with contextlib.ExitStack() as ends_with:
        connection = ends_with.enter_context(socket.create_connection((host, port), _left(ends)))
        if scheme == "https":
            context = _tls(access, ends_with)
            name = str(access.cluster.get("tls-server-name") or host)
            connection = ends_with.enter_context(context.wrap_socket(connection, server_hostname=name))
        head = [
            f"GET {slash}{below}{path} HTTP/1.0",
            f"Host: {authority}",
            f"Accept: {_METADATA}",
            *_authorization(access),
        ]
        connection.sendall("\r\n".join([*head, "", ""]).encode())
        answer = bytearray()
        while len(answer) < _MOST_BYTES:
            connection.settimeout(_left(ends))
            if not (part := connection.recv(65536)):
                break
            answer += part
    first, _, content = bytes(answer).partition(b"\r\n\r\n")
    if first.split(b" ", 2)[1:2] != [b"200"]:
        raise ValueError("no success")
    return content


def _host_and_port(authority: str, scheme: str) -> tuple[str, int]:
    host, colon, port = authority.rpartition(":")
    if not colon or "]" in port:
        return authority.strip("[]"), 443 if scheme == "https" else 80
    return host.strip("[]"), int(port)


def _left(ends: float) -> float:
    left = ends - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _tls(access: QuickAccess, ends_with: contextlib.ExitStack) -> Any:
    """Make the TLS context that the kubeconfig describes."""
    import ssl  # noqa: PLC0415 - it takes a while to import

    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    authority = _bytes(access, access.cluster, "certificate-authority")
    if authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=authority.decode())
    if access.cluster.get("insecure-skip-tls-verify") is True:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate, key = (_bytes(access, access.user, each) for each in ("client-certificate", "client-key"))
    if certificate is not None and key is not None:
        folder = Path(ends_with.enter_context(tempfile.TemporaryDirectory()))  # the library reads files only
        for name, content in (("certificate", certificate), ("key", key)):
            private_file.replace(folder / name, content)
        context.load_cert_chain(folder / "certificate", folder / "key")
    return context


def _bytes(access: QuickAccess, section: Mapping[str, Any], name: str) -> bytes | None:
    """Return what a section has in place or in a file; None where it has neither."""
    if section.get(f"{name}-data"):
        return base64.b64decode(section[f"{name}-data"])
    return (access.folder / section[name]).read_bytes() if section.get(name) else None


def _authorization(access: QuickAccess) -> Iterator[str]:
    user = access.user
    token = str(user.get("token") or "")
    if user.get("tokenFile"):
        token = (access.folder / user["tokenFile"]).read_text().strip()
    if token:
        yield f"Authorization: Bearer {token}"
    elif user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        yield f"Authorization: Basic {base64.b64encode(pair).decode()}"
