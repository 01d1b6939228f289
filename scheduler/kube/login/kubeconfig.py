"""
Reads a kubeconfig file, with errors that name file and field.

The `kubernetes` package runs auth providers, and is imported only for users who have one: that takes a second. It gets
only the context that was chosen: its own messages name neither file nor field. No message holds a value that may be
secret.
"""

import base64
import datetime as dt
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import yaml

from scheduler.kube.errors import ConfigurationError
from scheduler.kube.login.exec_plugin import plugin_status
from scheduler.kube.login.redaction import redacted, without_secrets
from scheduler.settings import untrusted_yaml

_SECTIONS = {"context": "contexts", "cluster": "clusters", "user": "users"}
_MOST_BYTES: Final = 16 * 1024 * 1024
"""The largest file: a thousand clusters with their certificates have some megabytes."""
_CLUSTER_TEXTS: Final = ("certificate-authority", "certificate-authority-data", "proxy-url", "tls-server-name")
_USER_TEXTS: Final = ("client-certificate", "client-certificate-data", "client-key", "client-key-data", "tokenFile")


class Selected(NamedTuple):
    """
    One context of a kubeconfig file: where `path` is, the names it uses, its cluster, its user and its namespace.

    `expires_at` is when the credentials that an exec plugin gave have to be renewed (None: it does not say).
    """

    path: Path
    context: str
    cluster_name: str
    cluster: Mapping[str, Any]
    user_name: str
    user: Mapping[str, Any]
    expires_at: dt.datetime | None = None
    namespace: str = ""

    def as_config(self) -> dict[str, Any]:
        """A kubeconfig with this context alone."""
        context = {"cluster": self.cluster_name, "user": self.user_name}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": self.context,
            "contexts": [{"name": self.context, "context": context}],
            "clusters": [{"name": self.cluster_name, "cluster": dict(self.cluster)}],
            "users": [{"name": self.user_name, "user": dict(self.user)}] if self.user_name else [],
        }


def select(path: Path, context: str = "") -> Selected:
    """Read the file and choose the context (empty: its current-context). Raises ConfigurationError."""
    document = _read(path)
    name = context or _text(path, document, "current-context", "")
    if not name:
        raise ConfigurationError(
            f"{path}: current-context is not set: choose one of {_names(document, 'contexts')} with --context, "
            "or run kubectl config use-context"
        )
    chosen = _entry(path, document, "context", name)
    cluster_name = _text(path, chosen, "cluster", f"contexts[{name}].context.")
    user_name = _text(path, chosen, "user", f"contexts[{name}].context.")
    if not cluster_name:
        raise ConfigurationError(f"{path}: contexts[{name}].context.cluster is missing: write the name of a cluster")
    cluster = _entry(path, document, "cluster", cluster_name)
    user = _entry(path, document, "user", user_name) if user_name else {}
    namespace = _text(path, chosen, "namespace", f"contexts[{name}].context.")
    selected = Selected(path, name, cluster_name, cluster, user_name, user, namespace=namespace)
    _check_cluster(selected)
    _check_user(selected)
    return selected


def select_among(paths: Sequence[Path], context: str = "") -> Selected:
    """Choose the context in the first of several files that has it; one has to exist. Raises ConfigurationError."""
    existing = [path for path in paths if _exists(path)] or list(paths[:1])
    documents = {path: _read(path) for path in existing}
    current = (_text(path, document, "current-context", "") for path, document in documents.items())
    name = context or next(filter(None, current), "")
    having = (path for path, document in documents.items() if name and _has_context(document, name))
    return select(next(having, existing[0]), name)


def _exists(path: Path) -> bool:
    """Whether there is something to read, if only an error."""
    try:
        return path.exists()
    except OSError:  # reading it says why
        return True


def _has_context(document: Mapping[str, Any], name: str) -> bool:
    entries = document.get(_SECTIONS["context"])
    return isinstance(entries, list) and any(isinstance(each, dict) and each.get("name") == name for each in entries)


def ask_provider(selected: Selected) -> Selected:
    """Replace `user.auth-provider` by the token that it gives, which wins over others. Raises ConfigurationError."""
    if "auth-provider" not in selected.user:
        return selected
    user = {key: value for key, value in selected.user.items() if key != "auth-provider"}
    only_provider = selected._replace(user={"auth-provider": selected.user["auth-provider"]})
    token, expires_at = _provider_token(only_provider)
    return selected._replace(user=user | ({"token": token} if token else {}), expires_at=expires_at)


def run_plugin(selected: Selected) -> Selected:
    """
    Replace `user.exec` by what the credential plugin gives, waiting for it to end.

    A token or a client certificate that is written in the file wins, as in kubectl. Raises ConfigurationError.
    """
    plugin = selected.user.get("exec")
    if plugin is None or "token" in selected.user or "tokenFile" in selected.user:
        return selected
    field = f"{selected.path}: users[{selected.user_name}].user.exec"
    command = str(plugin.get("command", ""))
    folder = selected.path.parent
    if shutil.which(command) is None and not _is_file(folder / command, f"{field}.command"):
        hint = str(plugin.get("installHint") or "install it, or write its whole path").strip()
        raise ConfigurationError(f"{field}.command: {command!r} is not installed: {hint}")
    return with_plugin_answer(selected, field, plugin_status(plugin, selected.cluster, folder, field))


def _provider_token(selected: Selected) -> tuple[str, dt.datetime | None]:
    """Return the token of the auth provider ("": it gives none), and when it expires."""
    from kubernetes.client.configuration import Configuration  # noqa: PLC0415 - see above
    from kubernetes.config.config_exception import ConfigException  # noqa: PLC0415 - the same
    from kubernetes.config.kube_config import KubeConfigLoader  # noqa: PLC0415 - the same

    make_loader: Any = KubeConfigLoader  # the package is untyped
    configuration = Configuration()
    try:
        loader = make_loader(selected.as_config(), config_base_path=str(selected.path.parent))
        loader.load_and_set(configuration)
    except (ConfigException, OSError, ValueError, KeyError, TypeError) as error:
        field = f"{selected.path}: users[{selected.user_name}].user.auth-provider"
        raise ConfigurationError(f"{field}: {redacted(str(error))}") from error
    authorization: str = configuration.api_key.get("BearerToken") or ""
    expiry = getattr(loader, "expiry", None)
    if not isinstance(expiry, dt.datetime):
        expiry = None
    elif expiry.tzinfo is None:
        expiry = expiry.replace(tzinfo=dt.UTC)
    return authorization.removeprefix("Bearer").strip(), expiry


def with_plugin_answer(selected: Selected, field: str, given: Mapping[str, Any]) -> Selected:
    """Put the answer of the plugin (ExecCredential.status) in the place of `exec`."""
    user = {key: value for key, value in selected.user.items() if key != "exec"}
    for key in ("token", "clientCertificateData", "clientKeyData"):
        if not isinstance(given.get(key) or "", str):
            raise ConfigurationError(f"{field}: the credential plugin printed a status.{key} that is no text")
    if given.get("token"):
        user["token"] = given["token"]
    if given.get("clientCertificateData"):
        user["client-certificate-data"] = _encoded(given["clientCertificateData"])
        user["client-key-data"] = _encoded(given.get("clientKeyData") or "")
    if "token" not in user and "client-certificate-data" not in user:
        raise ConfigurationError(
            f"{field}: the credential plugin printed neither status.token nor status.clientCertificateData: "
            "run it by hand and log in again"
        )
    return selected._replace(user=user, expires_at=_expiration(given.get("expirationTimestamp"), field))


def _expiration(stamp: object, field: str) -> dt.datetime | None:
    """Return the time of `status.expirationTimestamp`; None where there is none."""
    if stamp is None or stamp == "":
        return None
    try:
        moment = dt.datetime.fromisoformat(stamp) if isinstance(stamp, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ConfigurationError(
            f"{field}: status.expirationTimestamp {redacted(str(stamp))!r} is no RFC 3339 time: the credential plugin "
            "has to write one with an offset, such as 2026-01-31T12:00:00Z"
        )
    return moment


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode(errors="replace")).decode()


def _read(path: Path) -> Mapping[str, Any]:
    """The file as a mapping."""
    try:
        document = untrusted_yaml.load(_content(path).decode("utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: no such file: give --kubeconfig the path of an existing one") from None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: cannot be read: not UTF-8: save the file as UTF-8") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f" from line {mark.line + 1}, column {mark.column + 1}"
        raise ConfigurationError(
            f"{path}: is not YAML{place}: write a kubeconfig as `kubectl config view --raw` prints it, or give "
            "--kubeconfig the path of one"
        ) from error
    if not isinstance(document, dict):
        raise ConfigurationError(f"{path}: is no kubeconfig: it must hold clusters, contexts and users")
    return document


def _content(path: Path) -> bytes:
    """Read a file. Raises OSError, and ConfigurationError where it is too large."""
    with path.open("rb") as file:
        raw = file.read(_MOST_BYTES + 1)
    if len(raw) > _MOST_BYTES:
        raise ConfigurationError(f"{path}: is larger than {_MOST_BYTES // 2**20} MiB: give --kubeconfig a smaller file")
    return raw


def _names(document: Mapping[str, Any], section: str) -> str:
    """The names in a section, for a message."""
    entries = document.get(section)
    listed = entries if isinstance(entries, list) else []
    names = [str(entry.get("name")) for entry in listed if isinstance(entry, dict)]
    return ", ".join(sorted(names)) if names else f"no {section}"


def _text(path: Path, mapping: Mapping[str, Any], key: str, prefix: str) -> str:
    """A text field, empty where it is missing."""
    value = mapping.get(key) or ""
    if not isinstance(value, str):
        is_number = isinstance(value, int | float)
        written = repr(value) if is_number else "a list or mapping"
        raise ConfigurationError(f"{path}: {prefix}{key} must be a text, not {written}: put it in quotes")
    return value


def _entry(path: Path, document: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    """The entry of a named list (`contexts: [{name, context: {…}}]`)."""
    section = _SECTIONS[kind]
    entries = document.get(section) or []
    if not isinstance(entries, list):
        raise ConfigurationError(f"{path}: {section} must be a list of {{name, {kind}}}")
    for entry in entries:
        if isinstance(entry, dict) and entry.get("name") == name:
            value = entry.get(kind)
            if not isinstance(value, dict):
                raise ConfigurationError(f"{path}: {section}[{name}].{kind} is missing")
            return value
    raise ConfigurationError(f"{path}: there is no {kind} {name!r}: the file has {_names(document, section)}")


def _check_cluster(selected: Selected) -> None:
    """Server address and CA."""
    field = f"{selected.path}: clusters[{selected.cluster_name}].cluster"
    server = selected.cluster.get("server")
    if not isinstance(server, str) or not _is_address(server):
        written = without_secrets(server) if isinstance(server, str) else server
        raise ConfigurationError(
            f"{field}.server is {written!r}: write the address of the API server, https://host:port"
        )
    _check_texts(selected.cluster, _CLUSTER_TEXTS, field)
    _check_material(selected, field, selected.cluster, "certificate-authority")


def _is_address(server: str) -> bool:
    try:
        parts = urlsplit(server)
        return parts.scheme in {"https", "http"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _check_user(selected: Selected) -> None:
    """Client certificate, key and token."""
    field = f"{selected.path}: users[{selected.user_name}].user"
    user = selected.user
    _check_texts(user, _USER_TEXTS, field)
    for key in ("client-certificate", "client-key"):
        _check_material(selected, field, user, key)
    has_certificate, has_key = (
        any(name in user for name in (key, f"{key}-data")) for key in ("client-certificate", "client-key")
    )
    if has_certificate != has_key:
        missing = "client-key" if has_certificate else "client-certificate"
        raise ConfigurationError(f"{field}.{missing} is missing: a client certificate needs its key")
    token = user.get("token")
    if token is not None and (not isinstance(token, str) or not token.strip()):
        raise ConfigurationError(f"{field}.token must be a text that is not empty")
    token_file = user.get("tokenFile")
    if token is None and token_file and not _is_file(selected.path.parent / token_file, f"{field}.tokenFile"):
        raise ConfigurationError(f"{field}.tokenFile: {token_file} does not exist")
    if "exec" in user and not isinstance(user["exec"], dict):
        raise ConfigurationError(f"{field}.exec must hold apiVersion, command and args")


def _check_texts(mapping: Mapping[str, Any], keys: Sequence[str], field: str) -> None:
    """Some fields are texts where they are written; none of them is shown, because it may be secret."""
    for key in keys:
        if not isinstance(mapping.get(key) or "", str):
            raise ConfigurationError(f"{field}.{key} must be a text: put it in quotes")


def _is_file(path: Path, field: str) -> bool:
    """Whether the file that a field names exists. Raises ConfigurationError where that cannot be said."""
    try:
        return path.is_file()
    except OSError as error:
        raise ConfigurationError(f"{field}: {path.name} cannot be read: {error.strerror}") from error


def _check_material(selected: Selected, field: str, mapping: Mapping[str, Any], key: str) -> None:
    """A file's name under `key`, or its content in base64 under `key-data`."""
    data = mapping.get(f"{key}-data")
    if data:
        try:
            base64.b64decode(data, validate=True)
        except ValueError as error:
            raise ConfigurationError(f"{field}.{key}-data is not base64: {error}") from error
        return
    name = mapping.get(key)
    if name and not _is_file(selected.path.parent / name, f"{field}.{key}"):
        raise ConfigurationError(f"{field}.{key}: {name} does not exist")
