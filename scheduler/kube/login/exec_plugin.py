"""
Runs the credential plugin of a kubeconfig (`user.exec`; client.authentication.k8s.io, ExecCredential).

A plugin has a deadline. It runs in a session of its own, so that whatever it has started ends with it.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from scheduler.kube.errors import ConfigurationError
from scheduler.kube.login.redaction import redacted

PLUGIN_SECONDS: Final = 30.0
"""How long a plugin may take: a login over the network has a few round trips."""
_PERSON_SECONDS: Final = 300.0
"""How long it may take where a person at a terminal may have to answer it."""
_MOST_CHARACTERS: Final = 1 << 20
_CLUSTER_CONFIG: Final = "client.authentication.k8s.io/exec"


def plugin_status(plugin: Mapping[str, Any], cluster: Mapping[str, Any], folder: Path, field: str) -> dict[str, Any]:
    """
    Run a plugin in the folder of its kubeconfig, and return `status` of the ExecCredential that it prints.

    `field` is where the kubeconfig has the plugin, for errors. Raises ConfigurationError, which holds nothing that the
    plugin has printed to its standard output.
    """
    command = _command(plugin, field)
    environment = os.environ | _variables(plugin, field)
    is_interactive = sys.stdout.isatty()
    environment["KUBERNETES_EXEC_INFO"] = json.dumps(_question(plugin, cluster, is_interactive=is_interactive))
    try:
        process = subprocess.Popen(  # noqa: S603 - what the user's own file names
            command,
            stdin=sys.stdin if is_interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=sys.stderr if is_interactive else subprocess.PIPE,
            cwd=folder,
            env=environment,
            encoding="utf-8",
            errors="replace",
            start_new_session=not is_interactive,  # a program in another session cannot ask for a password
        )
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{field}.command: it cannot be started: {error}") from error
    out = _output(process, field, _PERSON_SECONDS if is_interactive else PLUGIN_SECONDS)
    return _status(out, plugin.get("apiVersion"), field)


def _command(plugin: Mapping[str, Any], field: str) -> list[str]:
    arguments = plugin.get("args") or []
    if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
        raise ConfigurationError(f"{field}.args must be a list of texts: put numbers in quotes")
    return [str(plugin.get("command", "")), *arguments]


def _variables(plugin: Mapping[str, Any], field: str) -> dict[str, str]:
    try:
        variables = {each["name"]: each["value"] for each in plugin.get("env") or ()}
    except (KeyError, TypeError):
        variables = {"": None}
    if not all(isinstance(each, str) for pair in variables.items() for each in pair):
        raise ConfigurationError(f"{field}.env must be a list of {{name, value}}, both texts: put numbers in quotes")
    return variables


def _question(plugin: Mapping[str, Any], cluster: Mapping[str, Any], *, is_interactive: bool) -> dict[str, Any]:
    """Return the ExecCredential that the plugin reads from KUBERNETES_EXEC_INFO."""
    spec: dict[str, Any] = {"interactive": is_interactive}
    if plugin.get("provideClusterInfo"):
        listed = cluster.get("extensions")
        extensions = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        configs = [each.get("extension") for each in extensions if each.get("name") == _CLUSTER_CONFIG]
        spec["cluster"] = dict(cluster) | ({"config": configs[0]} if configs else {})
    return {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": spec}


def _output(process: subprocess.Popen[str], field: str, seconds: float) -> str:
    """Return what the plugin prints, which has to end in time; else end it, and what it has started."""
    with process:
        try:
            out, said = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            raise ConfigurationError(
                f"{field}: the credential plugin did not end within {seconds:g} s, and was ended: run it by hand to "
                "see what it waits for"
            ) from None
    if process.returncode != 0:
        raise ConfigurationError(
            f"{field}: the credential plugin failed with status {process.returncode}: "
            f"{redacted(said or '') or 'run it by hand to see why'}"
        )
    return out


def _end(process: subprocess.Popen[str]) -> None:
    """End a plugin that was not waited for yet, so that its number is still its own, and its session."""
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _status(out: str, api_version: object, field: str) -> dict[str, Any]:
    """Return `status` of an ExecCredential."""
    try:
        answer = json.loads(out) if len(out) <= _MOST_CHARACTERS else None
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or not isinstance(answer.get("status"), dict):
        raise ConfigurationError(
            f"{field}: the credential plugin printed no ExecCredential with a status: run it by hand to see what it "
            "prints"
        )
    if answer.get("apiVersion") != api_version:
        raise ConfigurationError(
            f"{field}.apiVersion is {api_version!r}, and the credential plugin answered with another one: write the "
            "one that it prints"
        )
    status: dict[str, Any] = answer["status"]
    return status
