"""
Reads settings from a file and the command line, and checks them; a message says what to write instead.

`RENAMED` lists the configuration keys that have a new name: a file with the old one keeps working, with a warning. To
rename a key, rename its field in `schema` and add a line there. The default file, the schema and error messages show
the new key only.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from scheduler.settings import untrusted_yaml, validation
from scheduler.settings.schema import API_VERSION, KIND, Settings, default

RENAMED: Final = {
    "holds": "nodeReservations",
    "nodeReservations.maxNodesPercentOfNamespace": "nodeReservations.maxNodesPercentPerNamespace",
    "devices.allocateWherePluginsServe": "devices.allocateOnDevicePluginNodes",
    "solver.costMilliseconds": "solver.evaluationMilliseconds",
    "solver.costlySeconds": "solver.costlyPodSeconds",
    "solver.costlyMemoryLimitMiB": "solver.costlyPodMemoryLimitMiB",
    "queue.maxPassedOverSeconds": "queue.starvationSeconds",
    "queue.costlyShare": "queue.costlyPodShare",
}
"""
Old key to new key, each as a path from the top of the file.

Applied in this order: a section before the keys in it, whose old paths then start with the section's new name.
"""


SPLIT: Final = {"bindAddress": ("health", "metrics")}
"""Old key at the top of the file to the sections that have a key of this name now, each with the old one's value."""


def _split(document: dict[str, Any]) -> Iterator[str]:
    """Move values to where they belong now, and return a warning for each. Beside a new key the old one stays."""
    for key, names in SPLIT.items():
        sections = [document.setdefault(name, {}) for name in names] if key in document else []
        if sections and all(isinstance(each, dict) and key not in each for each in sections):
            value = document.pop(key)
            for section in sections:
                section[key] = value
            yield f"{key} is deprecated, write {' and '.join(f'{name}.{key}' for name in names)}"


def _rename(document: dict[str, Any]) -> Iterator[str]:
    """
    Replace old keys in a document by new ones, and return a warning for each.

    Where the file has both, the old one stays, and the check of the document refuses it as unknown.
    """
    for old, new in RENAMED.items():
        *above, name = old.split(".")
        section = _section(document, above)
        if section is None or name not in section:
            continue
        *above, new_name = new.split(".")
        target = _section(document, above)
        if target is not None and new_name not in target:
            target[new_name] = section.pop(name)
            yield f"{old} is deprecated, write {new}"


def _section(document: Any, path: list[str]) -> dict[str, Any] | None:
    """Find the mapping at a path; None where there is none."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else None


_MOST_BYTES: Final = 1024 * 1024
"""The largest file; a ConfigMap cannot be larger."""
_MOST_PROBLEMS: Final = 20
_LONGEST: Final = 400
"""Characters of one problem."""


class SettingsError(ValueError):
    """The configuration cannot be used; the message names the file, the key and what to write instead."""


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of the command line; None and empty leave the file's value."""

    scheduler_names: tuple[str, ...] = ()
    leader_elect: bool | None = None
    bind_address: str | None = None
    """The address of health, and of metrics where these have no other."""
    metrics_bind_address: str | None = None
    log_level: str | None = None
    log_format: str | None = None


def _ignore(_: str) -> None:
    """Drop a warning."""


def load(
    path: Path | None = None, overrides: Overrides | None = None, warn: Callable[[str], None] = _ignore
) -> Settings:
    """
    Read a configuration file (None: the defaults), apply the flags and check the result.

    `warn` gets a message for each deprecated key. Raise `SettingsError`.
    """
    settings = default() if path is None else parse(_text_of(path), str(path), warn)
    if overrides is None:
        return settings
    return _overridden(settings, overrides, "command line" if path is None else f"{path} with the command line")


def served(settings: Settings, scheduler_name: str) -> tuple[str, Settings]:
    """Return a scheduler name ("": that of the first profile), and the settings with a profile for it."""
    name = scheduler_name or settings.profiles[0].scheduler_name
    if name in settings.scheduler_names:
        return name, settings
    return name, _overridden(settings, Overrides(scheduler_names=(name,)), "command line")


def parse(text: str, source: str, warn: Callable[[str], None] = _ignore) -> Settings:
    """Read the text of a configuration file; `source` names it in messages, `warn` gets one for each old key."""
    try:
        document = untrusted_yaml.load(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"{source}: {untrusted_yaml.problem(error)}") from error
    if not isinstance(document, dict):
        raise SettingsError(f"{source}: expected a mapping that starts with apiVersion: {API_VERSION} and kind: {KIND}")
    for warning in (*_rename(document), *_split(document)):
        warn(f"{source}: {warning}")
    return _checked(document, source)


def _text_of(path: Path) -> str:
    """Read a file; raise `SettingsError` that says why it cannot be read."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise SettingsError(f"{path}: is larger than {_MOST_BYTES // 1024} KiB, the limit for a configuration file")
        return raw.decode("utf-8")
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: cannot be read: not UTF-8") from error


def _overridden(settings: Settings, overrides: Overrides, source: str) -> Settings:
    """Apply the flags. A scheduler name with a profile in the file keeps that profile."""
    document = msgspec.to_builtins(settings)
    if overrides.scheduler_names:
        known = {profile["schedulerName"]: profile for profile in document["profiles"]}
        document["profiles"] = [known.get(name, {"schedulerName": name}) for name in overrides.scheduler_names]
    flags = (
        (document["leaderElection"], "enabled", overrides.leader_elect),
        (document["health"], "bindAddress", overrides.bind_address),
        (document["metrics"], "bindAddress", overrides.metrics_bind_address or overrides.bind_address),
        (document["logging"], "level", overrides.log_level),
        (document["logging"], "format", overrides.log_format),
    )
    for section, key, value in flags:
        if value is not None:
            section[key] = value
    return _checked(document, source)


def _checked(document: dict[str, Any], source: str) -> Settings:
    """Convert a decoded document to settings; one message names every problem."""
    found = (*validation.of_document(document), *validation.of_values(document))
    if not found:
        settings = msgspec.convert(document, Settings)
        found = validation.of_settings(settings)
        if not found:
            return settings
    raise SettingsError(f"{source}: {'; '.join(_first_problems(found))}")


def _first_problems(found: tuple[str, ...]) -> Iterator[str]:
    """Shorten a message: only the first problems, each cut where it is long."""
    for each in found[:_MOST_PROBLEMS]:
        yield each if len(each) <= _LONGEST else f"{each[:_LONGEST]}… ({len(each)} characters)"
    if len(found) > _MOST_PROBLEMS:
        yield f"and {len(found) - _MOST_PROBLEMS} more"
