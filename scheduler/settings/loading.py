"""From a file and the command line to settings that hold together, or to a message that says what to write."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from scheduler.settings import untrusted_yaml, validation
from scheduler.settings.schema import API_VERSION, KIND, Settings, default

_MOST_BYTES: Final = 1024 * 1024
"""Of the file; a ConfigMap holds no more."""
_MOST_PROBLEMS: Final = 20
_LONGEST: Final = 400
"""Characters of one problem."""


class SettingsError(ValueError):
    """The configuration cannot be used; the message names the file, the key and what to write instead."""


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says; None and empty leave the file's value."""

    scheduler_names: tuple[str, ...] = ()
    leader_elect: bool | None = None
    bind_address: str | None = None
    log_level: str | None = None
    log_format: str | None = None


def load(path: Path | None = None, overrides: Overrides | None = None) -> Settings:
    """Read a configuration file (None: the defaults), put the flags on top and check the whole."""
    settings = default() if path is None else parse(_text_of(path), str(path))
    if overrides is None:
        return settings
    return _overridden(settings, overrides, "command line" if path is None else f"{path} with the command line")


def parse(text: str, source: str) -> Settings:
    """Read the text of a configuration file; `source` names it in messages."""
    try:
        document = untrusted_yaml.load(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"{source}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise SettingsError(f"{source}: expected a mapping that starts with apiVersion: {API_VERSION} and kind: {KIND}")
    return _checked(document, source)


def _text_of(path: Path) -> str:
    """Read a file, or say why it cannot be read."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise SettingsError(f"{path}: is larger than {_MOST_BYTES // 1024} KiB: that is no configuration file")
        return raw.decode("utf-8")
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: cannot be read: not UTF-8") from error


def _overridden(settings: Settings, overrides: Overrides, source: str) -> Settings:
    """Put the flags on top of the file: a name that the file knows keeps its profile."""
    document = msgspec.to_builtins(settings)
    if overrides.scheduler_names:
        known = {profile["schedulerName"]: profile for profile in document["profiles"]}
        document["profiles"] = [known.get(name, {"schedulerName": name}) for name in overrides.scheduler_names]
    flags = (
        (document["leaderElection"], "enabled", overrides.leader_elect),
        (document, "bindAddress", overrides.bind_address),
        (document["logging"], "level", overrides.log_level),
        (document["logging"], "format", overrides.log_format),
    )
    for section, key, value in flags:
        if value is not None:
            section[key] = value
    return _checked(document, source)


def _checked(document: dict[str, Any], source: str) -> Settings:
    """Turn a decoded document into settings; every problem that is found at once goes into one message."""
    found = (*validation.of_document(document), *validation.of_values(document))
    if not found:
        settings = msgspec.convert(document, Settings)
        found = validation.of_settings(settings)
        if not found:
            return settings
    raise SettingsError(f"{source}: {'; '.join(_few(found))}")


def _few(found: tuple[str, ...]) -> Iterator[str]:
    """Keep a message readable: the first problems, and of each its beginning."""
    for each in found[:_MOST_PROBLEMS]:
        yield each if len(each) <= _LONGEST else f"{each[:_LONGEST]}… ({len(each)} characters)"
    if len(found) > _MOST_PROBLEMS:
        yield f"and {len(found) - _MOST_PROBLEMS} more"
