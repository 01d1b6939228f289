"""
Lists names of objects for the Tab key, in a fraction of a second or not at all.

`Client` takes longer to import than a user waits for a completion. So this reads what it needs of a kubeconfig itself,
asks for the columns of a table or for metadata, from the API server's cache, and gives up at everything that is not the
usual: no exec plugin is run, no proxy is used.
"""

import base64
import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

_SECONDS: Final = 0.2
"""For all requests of a completion, with connecting. Starting and reading the kubeconfig takes 0.1 s before it."""
LIMIT: Final = "DOVETAIL_COMPLETION_SECONDS"
"""The environment variable with another limit, for API servers that are far away."""
_MOST_BYTES: Final = 8 * 1024 * 1024
_TABLE: Final = "application/json;as=Table;g=meta.k8s.io;v=v1"
"""What `kubectl get` prints, without the objects: a fifth of the bytes of their metadata."""
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_FROM_CACHE: Final = "resourceVersion=0"
_MOST_KUBECONFIG: Final = 4 * 1024 * 1024


_UNUSABLE: Final = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, IndexError)
"""What reading an answer that is another than expected raises."""


class NamesError(Exception):
    """No names can be listed; nobody is told why, as this answers the Tab key."""


class QuickAccess(NamedTuple):
    """
    A cluster and a user of a kubeconfig, and the namespace of the context; `folder` is that of the file.

    `ends` is when answers are of no use any more, by the monotonic clock.
    """

    folder: Path
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    namespace: str
    ends: float


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
            folder, ends = each.expanduser().absolute().parent, time.monotonic() + _seconds(environment)
            return QuickAccess(folder, cluster, user, chosen.get("namespace") or "default", ends)
    raise NamesError


def _seconds(environment: Mapping[str, str]) -> float:
    try:
        return float(environment.get(LIMIT) or _SECONDS)
    except ValueError:
        raise NamesError from None


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


class NamesQuestion(NamedTuple):
    """What is listed below a path of the API: the names of all objects, or the values of a `label`."""

    path: str
    label: str = ""

    @property
    def target(self) -> str:
        """The path with its query."""
        wanted = f"labelSelector={self.label.replace('/', '%2F')}" if self.label else "includeObject=None"
        return f"{self.path}?{_FROM_CACHE}&{wanted}"

    @property
    def form(self) -> str:
        """What is accepted as an answer."""
        return _METADATA if self.label else _TABLE

    def values_in(self, content: bytes) -> list[str]:
        """Return the names or values in an answer."""
        found = json.loads(content)
        if self.label:
            return [str(each["metadata"]["labels"][self.label]) for each in found.get("items") or ()]
        at = next((number for number, each in enumerate(found["columnDefinitions"]) if each["format"] == "name"), None)
        if at is None:
            raise ValueError("no column of names")
        return [str(each["cells"][at]) for each in found.get("rows") or ()]


def names(access: QuickAccess, *questions: NamesQuestion) -> list[set[str] | None]:
    """
    Answer questions by one connection; None where the API server refuses, or does not know, what is asked.

    Raise `NamesError`.
    """
    try:
        answers = _answers(access, questions)
        return [
            None if content is None else set(question.values_in(content))
            for question, content in zip(questions, answers, strict=True)
        ]
    except _UNUSABLE:
        raise NamesError from None


def _answers(access: QuickAccess, questions: Sequence[NamesQuestion]) -> list[bytes | None]:
    """Send all requests at once; those that a server leaves out, which closes after each, by another connection."""
    found: list[bytes | None] = []
    while len(found) < len(questions):
        told = list(_read(_sent(access, questions[len(found) :])))
        if not told:
            raise ValueError("no answer")
        found += told
    return found


def _sent(access: QuickAccess, questions: Sequence[NamesQuestion]) -> bytes:
    """Send requests, of which the last one ends the connection; return what is answered."""
    scheme, _, rest = str(access.cluster["server"]).rstrip("/").partition("://")
    authority, slash, below = rest.partition("/")
    host, port = _host_and_port(authority, scheme)
    ends = access.ends
    with contextlib.ExitStack() as ends_with:
        connection = ends_with.enter_context(socket.create_connection((host, port), _left(ends)))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else the request waits for an ACK of TLS
        if scheme == "https":
            context = tls_context(access, ends_with)
            name = str(access.cluster.get("tls-server-name") or host)
            connection = ends_with.enter_context(context.wrap_socket(connection, server_hostname=name))
        common = (f"Host: {authority}", *_authorization(access))
        heads = [(f"GET {slash}{below}{each.target} HTTP/1.1", f"Accept: {each.form}", *common) for each in questions]
        heads[-1] = (*heads[-1], "Connection: close")
        connection.sendall("".join("\r\n".join([*head, "", ""]) for head in heads).encode())
        answer = bytearray()
        while len(answer) < _MOST_BYTES:
            connection.settimeout(_left(ends))
            if not (part := connection.recv(65536)):
                break
            answer += part
    return bytes(answer)


def _read(answers: bytes) -> Iterator[bytes | None]:
    """Yield the content of each answer (RFC 9112), None for one that is no success."""
    while answers:
        head, _, answers = answers.partition(b"\r\n\r\n")
        status, *lines = head.split(b"\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
            content, answers = _joined(answers)
        else:
            size = int(fields.get(b"content-length", len(answers)))
            content, answers = answers[:size], answers[size:]
        yield content if status.split(b" ", 2)[1:2] == [b"200"] else None


def _joined(chunks: bytes) -> tuple[bytes, bytes]:
    """Return the content of chunks, and what follows them."""
    parts: list[bytes] = []
    at = 0
    while True:
        line_end = chunks.index(b"\r\n", at)
        size, begin = int(chunks[at:line_end].partition(b";")[0], 16), line_end + 2
        at = begin + size + 2
        if size <= 0:
            return b"".join(parts), chunks[at:]
        parts.append(chunks[begin : begin + size])


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


def tls_context(access: QuickAccess, ends_with: contextlib.ExitStack) -> Any:
    """Make the TLS context that the kubeconfig describes."""
    import ssl  # noqa: PLC0415 - it takes a while to import

    authority = _bytes(access, access.cluster, "certificate-authority")
    if authority is None:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)  # it reads the system's authorities for 0.1 s
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=authority.decode())
    if access.cluster.get("insecure-skip-tls-verify") is True:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate, key = (_bytes(access, access.user, each) for each in ("client-certificate", "client-key"))
    if certificate is not None and key is not None:
        import tempfile  # noqa: PLC0415 - it takes a while to import

        from scheduler import private_file  # noqa: PLC0415 - as above

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
