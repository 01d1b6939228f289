"""
Validates a configuration; each error has the form `path: what is wrong, what to write`.

Also parses addresses (`host:port`).
"""

import copy
import difflib
import ipaddress
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import PurePath
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin

import msgspec

from scheduler.settings import expected_pods
from scheduler.settings.observability import ApiSettings, MetricsSettings
from scheduler.settings.policies import LEVELS
from scheduler.settings.schema import API_VERSION, KIND, LAST_WRITES_SECONDS, LeaderElection, Settings
from solver.domain import EXPECTED_ROOM

_ADDRESS: Final = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<four>[^:\[\]\s/]*)):(?P<port>[0-9]{1,5})", re.ASCII
)
_LARGEST_PORT: Final = 65535


class Address(NamedTuple):
    """A host and a port; `host` None means every address of the machine, port 0 a free one."""

    host: str | None
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of the same machine (of the same pod) can connect."""
        try:
            return self.host is not None and ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        """Write it as it is read."""
        host = self.host or ""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read `host:port`, `:port` or `[ipv6]:port`; raise `ValueError` that says what to write."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > _LARGEST_PORT:
        raise ValueError(f"{text!r} is no address: write host:port, such as :8080, 127.0.0.1:8080 or [::1]:8080")
    return Address(match["six"] or match["four"] or None, int(match["port"]))


_MOST_VALUES: Final = 20
_JITTER: Final = 1.2
"""Retries are spread over up to this multiple of the retry period."""

_WORDS: Final = {
    "float": "a number",
    "int": "a whole number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
_UNQUOTED: Final = frozenset({"int", "float", "bool"})
_ALLOWED: Final = {
    "[-A-Za-z0-9_.]": "letters, digits, '-', '_' and '.'",
    "[-a-z0-9.]": "small letters, digits, '-' and '.'",
    "[-a-z0-9]": "small letters, digits and '-'",
}
"""The character class in the middle of a name's pattern (`schema`), in words."""
_TYPED: Final = re.compile(r"Expected `(?P<wanted>\w+)`(?:, got `(?P<got>\w+)`)?(?P<rest>.*)", re.DOTALL)


def of_document(document: dict[str, Any]) -> tuple[str, ...]:
    """Find a wrong version and unknown keys; for the first of them also what was meant, which is dear to find."""
    unknown = list(_unknown_keys(document, Settings, ""))
    return (
        *_wrong_version(document),
        *(f"{each.place}: unknown field, {_suggestion(each.key, each.known)}" for each in unknown[:_MOST_VALUES]),
        *(f"{each.place}: unknown field" for each in unknown[_MOST_VALUES:]),
    )


def of_values(document: dict[str, Any]) -> tuple[str, ...]:
    """Find all values that cannot be decoded: remove each that the decoder refuses, and decode again."""
    left: dict[str, Any] = _without_unknown(document, Settings) | {"apiVersion": API_VERSION, "kind": KIND}
    errors, removed = list[str](), list[str]()
    while len(errors) < _MOST_VALUES and (message := _refusal(left)):
        _, path, is_key = _located(message)
        if any(each.startswith(path) for each in removed):
            break  # missing only because it was removed
        errors.append(_readable(message, left))
        if not path or is_key:
            break
        removed.append(path)
        _remove(left, path)
    return tuple(errors)


def _located(message: str) -> tuple[str, str, bool]:
    """Split a message of the decoder into the error, the path without `$`, and whether it is about a key."""
    what, _, place = message.rpartition(" - at ")  # the error may hold a user's text, the place does not
    root = place.removeprefix("`key` in ")
    if not what or not root.startswith("`$") or not root.endswith("`"):
        return message, "", False
    return what, root[2:-1].removeprefix("."), root != place


def _refusal(document: object) -> str:
    """Return the decoder's first error; empty without one."""
    try:
        msgspec.convert(document, Settings)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def _without_unknown(value: Any, kind: Any) -> Any:
    """Copy a document without its unknown keys."""
    kind = _bare(kind)
    if get_origin(kind) is tuple and isinstance(value, list):
        return [_without_unknown(item, get_args(kind)[0]) for item in value]
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, dict)):
        return copy.deepcopy(value)
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    return {key: _without_unknown(item, fields[key]) for key, item in value.items() if key in fields}


def of_settings(settings: Settings) -> tuple[str, ...]:
    """Find values that contradict each other."""
    return (
        *_doubled_names(settings),
        *_expected_pods(settings),
        *_reclaim(settings),
        *_addresses(settings),
        *_metrics(settings),
        *_api(settings),
        *_folders(settings),
        *_election(settings.leader_election),
        *_times(settings),
    )


def _readable(message: str, document: dict[str, Any]) -> str:
    """Rewrite a message of the decoder: path without root, types in terms of YAML."""
    what, path, is_key = _located(message)
    if is_key:
        path += " (a key)"
    if what.startswith("Invalid enum value"):
        return f"{path}: {_not_known(_value_at(document, path), _choices(_type_at(path)))}"
    typed = _TYPED.fullmatch(what)
    if typed is None:
        return f"{path}: {what}"
    wanted = _WORDS.get(typed["wanted"], typed["wanted"])
    if typed["got"]:
        advice = ", write it in quotes" if typed["wanted"] == "str" and typed["got"] in _UNQUOTED else ""
        return f"{path}: expected {wanted}, got {_WORDS.get(typed['got'], typed['got'])}{advice}"
    if "regex" in typed["rest"]:
        value = _value_at(document, path)
        allowed = next(words for part, words in _ALLOWED.items() if part in typed["rest"])
        return f"{path}: {value!r} is no name: write {allowed}, a letter or digit at both ends"
    return f"{path}: {_value_at(document, path)} is out of range, expected {wanted}{typed['rest']}"


def _wrong_version(document: dict[str, Any]) -> Iterator[str]:
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if key not in document:
            yield f"{key}: missing, write {key}: {wanted}"
        elif document[key] != wanted:
            yield f"{key}: {document[key]!r} is not known, write {wanted}"


class _UnknownKey(NamedTuple):
    """A key, where it stands, and the keys that are known there."""

    place: str
    key: str
    known: tuple[str, ...]


def _unknown_keys(value: object, kind: Any, path: str) -> Iterator[_UnknownKey]:
    """Walk document and structs in parallel; the decoder reports values of the wrong shape."""
    kind = _bare(kind)
    if get_origin(kind) is tuple and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown_keys(item, get_args(kind)[0], f"{path}[{index}]")
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, dict)):
        return
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for key, item in value.items():
        place = f"{path}.{key}" if path else str(key)
        if key in fields:
            yield from _unknown_keys(item, fields[key], place)
        else:
            yield _UnknownKey(place, str(key), tuple(fields))


def _doubled_names(settings: Settings) -> Iterator[str]:
    seen: dict[str, int] = {}
    for index, profile in enumerate(settings.profiles):
        first = seen.setdefault(profile.scheduler_name, index)
        if first != index:
            yield (
                f"profiles[{index}].schedulerName: {profile.scheduler_name!r} is the name of profiles[{first}], "
                "write another name"
            )


def _expected_pods(settings: Settings) -> Iterator[str]:
    for index, profile in enumerate(settings.profiles):
        place = f"profiles[{index}].expectedPods"
        yield from expected_pods.errors(profile.expected_pods, place)
        if profile.expected_pods and EXPECTED_ROOM not in LEVELS[profile.policy]:
            yield f"{place}: the policy {profile.policy} leaves no room for them, write pack, or nothing here"


def _reclaim(settings: Settings) -> Iterator[str]:
    for index, profile in enumerate(settings.profiles):
        if profile.preemption.reclaim.enabled and not (profile.preemption.enabled and profile.preemption.devices):
            place = f"profiles[{index}].preemption.reclaim.enabled"
            yield f"{place}: devices are taken back by eviction, write preemption.enabled and preemption.devices: true"


def _addresses(settings: Settings) -> Iterator[str]:
    for section, text in (("health", settings.health.bind_address), ("metrics", settings.metrics.bind_address)):
        try:
            parse_address(text)
        except ValueError as error:
            yield f"{section}.bindAddress: {error}"


def _metrics(settings: Settings) -> Iterator[str]:
    metrics = settings.metrics
    yield from _half_certificate("metrics", metrics)
    if metrics.tls_cert_file and metrics.bind_address == settings.health.bind_address:
        yield (
            f"metrics.bindAddress: {metrics.bind_address} is health.bindAddress, too, and probes have no token: "
            "write another port, or no tlsCertFile"
        )


def _api(settings: Settings) -> Iterator[str]:
    api = settings.api
    yield from _half_certificate("api", api)
    if not api.bind_address:
        return
    try:
        address = parse_address(api.bind_address)
    except ValueError as error:
        yield f"api.bindAddress: {error}"
        return
    if not (api.tls_cert_file and api.tls_key_file) and not address.is_loopback:
        yield (
            f"api.bindAddress: {api.bind_address} is no loopback address, and callers send tokens: "
            "write tlsCertFile and tlsKeyFile, or 127.0.0.1:PORT"
        )


def _half_certificate(section: str, settings: ApiSettings | MetricsSettings) -> Iterator[str]:
    if bool(settings.tls_cert_file) != bool(settings.tls_key_file):
        missing = "tlsKeyFile" if settings.tls_cert_file else "tlsCertFile"
        yield f"{section}.{missing}: is empty, write the path of a file: certificate and key belong together"


def _folders(settings: Settings) -> Iterator[str]:
    folder = settings.history.files.folder
    if folder and PurePath(folder) == PurePath(settings.solver.snapshot_folder):
        yield (
            f"history.files.folder: {folder} is solver.snapshotFolder, too, and each would remove the other's files: "
            "write another folder"
        )


def _election(election: LeaderElection) -> Iterator[str]:
    if not election.enabled:
        return
    longest = election.lease_duration_seconds - LAST_WRITES_SECONDS
    if election.renew_deadline_seconds > longest:
        yield (
            f"leaderElection.renewDeadlineSeconds: {election.renew_deadline_seconds:g} is too long, "
            f"write at most leaseDurationSeconds - {LAST_WRITES_SECONDS:g} ({longest:g})"
        )
    if election.retry_period_seconds * _JITTER >= election.renew_deadline_seconds:
        yield (
            f"leaderElection.retryPeriodSeconds: {election.retry_period_seconds:g} is too long, "
            f"write less than renewDeadlineSeconds / {_JITTER} ({election.renew_deadline_seconds / _JITTER:.3g})"
        )


def _times(settings: Settings) -> Iterator[str]:
    queue, election = settings.queue, settings.leader_election
    if queue.initial_backoff_seconds > queue.max_backoff_seconds:
        yield (
            f"queue.initialBackoffSeconds: {queue.initial_backoff_seconds:g} is too long, "
            f"write at most maxBackoffSeconds ({queue.max_backoff_seconds:g})"
        )
    timeout = settings.commit.request_timeout_seconds
    left = election.lease_duration_seconds - election.renew_deadline_seconds
    if election.enabled and timeout >= left > 0:
        yield (
            f"commit.requestTimeoutSeconds: {timeout:g} is too long, "
            f"write less than leaderElection's leaseDurationSeconds - renewDeadlineSeconds ({left:g})"
        )


def _not_known(value: object, choices: tuple[str, ...]) -> str:
    return f"{value!r} is not known, {_suggestion(str(value), choices)}"


def _suggestion(word: str, choices: tuple[str, ...]) -> str:
    """Suggest the nearest choice, or all choices if none is near."""
    near = difflib.get_close_matches(word.lower(), [choice.lower() for choice in choices], n=1)
    for choice in choices:
        if near and choice.lower() == near[0]:
            return f"did you mean {choice}?"
    return f"write one of: {', '.join(choices)}"


def _remove(document: Any, path: str) -> None:
    """Remove a value; for an item, the whole list, because the positions of the other items would change."""
    steps = _steps(path)
    while len(steps) > 1 and isinstance(steps[-1], int):
        steps.pop()
    for step in steps[:-1]:
        document = document[step]
    del document[steps[-1]]


def _steps(path: str) -> list[str | int]:
    """Split `profiles[0].policy` into its steps."""
    return [int(index) if index else key for key, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path)]


def _value_at(document: Any, path: str) -> object:
    for step in _steps(path):
        document = document[step]
    return document


def _type_at(path: str) -> Any:
    kind: Any = Settings
    for step in _steps(path):
        kind = _bare(kind)
        if isinstance(step, int):
            kind = get_args(kind)[0]
        else:
            kind = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}[step]
    return _bare(kind)


def _bare(kind: Any) -> Any:
    """Return the type without its annotation."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _choices(kind: Any) -> tuple[str, ...]:
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return tuple(kind)
    return tuple(get_args(kind))
