"""The neighbours' programs, built once from their Go module: `python -m e2e.neighbours.programs`."""

import http.client
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from e2e.controlplane import build

_SOURCE: Final = Path(__file__).parent / "go"
KUEUE: Final = "sigs.k8s.io/kueue"
KARPENTER: Final = "sigs.k8s.io/karpenter"
KWOK: Final = "sigs.k8s.io/kwok"


def kueue() -> Path:
    """Return Kueue's manager; builds it first where the cache has none (minutes). Raises BuildError."""
    return build.tool("kueue", _SOURCE, f"{KUEUE}/cmd/kueue")


def kwok() -> Path:
    """Return kwok, which makes nodes without a kubelet ready. Raises BuildError."""
    return build.tool("kwok", _SOURCE, f"{KWOK}/cmd/kwok")


def karpenter() -> Path:
    """Return Karpenter with its kwok provider. Raises BuildError."""
    return build.tool("karpenter", _SOURCE, "./karpenter")


def certificates() -> Path:
    """Return the program that makes the certificates of a webhook server. Raises BuildError."""
    return build.tool("certificates", _SOURCE, "./certificates")


def module_folder(module: str) -> Path:
    """Return where the sources of a module of `go.mod` lie, with its manifests. Raises BuildError."""
    command = [*build.go_command_of(_SOURCE), "list", "-m", "-f", "{{.Dir}}", module]
    done = subprocess.run(command, cwd=_SOURCE, env=build.environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0 or not done.stdout.strip():
        raise build.BuildError(f"{module} is not in the module cache: {done.stderr.strip() or 'it was not downloaded'}")
    return Path(done.stdout.strip())


def version(module: str) -> str:
    """Return the version of a module that `go.mod` requires, such as v0.19.0."""
    found = re.search(rf"^\s*{re.escape(module)} (v\S+)", (_SOURCE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise build.BuildError(f"{_SOURCE / 'go.mod'} requires no {module}")
    return found[1]


def is_ready(port: int) -> bool:
    """Whether a program says at `/readyz` of its port on this machine that it is ready."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    try:
        for program in (certificates, kueue, karpenter, kwok):
            print(program())
    except build.BuildError as error:
        sys.exit(str(error))
