"""What `make image` builds, as far as that shows without Debian's packages; the rest is checked by running it."""

import io
import json
import subprocess
import sys
import tarfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.image import __main__ as command
from e2e.image import bill, cached, commands, layers, recipe, releases, staging
from e2e.image.build import Order
from e2e.image.commands import uv
from tests.support import house

MOMENT = "20261125T000000Z"
ORDER = Order(Path("dovetail.whl"), "1.2.3", "registry.example.com/dovetail:1.2.3", MOMENT, 1_795_564_800)
OWN = (f"{recipe.HOME}/bin/dovetail", f"{recipe.SITE}/scheduler")
RELEASES = f"{'a' * 64}  deb.debian.org_debian_dists_bookworm_InRelease\n"
DPKG = (
    "libstdc++6\t12.2.0-14\tamd64\tgcc-12\t12.2.0-14+deb12u1\n"
    "ca-certificates\t20230311\tall\tca-certificates\t20230311\n"
)
"""What dpkg-query prints."""


def _deployment(folder: str) -> dict[str, Any]:
    text = (house.ROOT / "deploy" / folder / "deployment.yaml").read_text(encoding="utf-8")
    pod: dict[str, Any] = yaml.safe_load(text)["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize("folder", ["base", "page"])
def test_the_image_has_the_user_and_the_command_that_deployments_expect(folder: str) -> None:
    pod = _deployment(folder)
    user, group = recipe.CONFIG.user.split(":")
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) == (int(user), int(group))
    (container,) = pod["containers"]
    assert "command" not in container  # the image's entrypoint runs


def test_the_image_runs_what_the_deployment_runs_on_its_ports() -> None:
    (container,) = _deployment("base")["containers"]
    assert recipe.CONFIG.exposed_ports == tuple(f"{each['containerPort']}/tcp" for each in container["ports"])
    assert container["args"][0] == recipe.CONFIG.cmd[0]
    assert recipe.CONFIG.working_dir in {each["mountPath"] for each in container["volumeMounts"]}


def test_the_configuration_becomes_arguments_in_its_order() -> None:
    arguments = recipe.config_arguments(recipe.CONFIG, "1.2.3")
    entrypoint = [each.partition("=")[2] for each in arguments if each.startswith("--config.entrypoint")]
    assert entrypoint == ["/opt/dovetail/bin/python", "-m", "scheduler"]
    assert "--config.label=org.opencontainers.image.version=1.2.3" in arguments
    assert "--config.env=PYTHONUNBUFFERED=1" in arguments


def test_a_snapshot_is_where_all_packages_come_from() -> None:
    assert {each.split()[1] for each in recipe.sources("20261125T000000Z")} == {
        "https://snapshot.debian.org/archive/debian/20261125T000000Z",
        "https://snapshot.debian.org/archive/debian-security/20261125T000000Z",
    }
    assert {each.split()[1] for each in recipe.sources("")} == {
        "https://deb.debian.org/debian",
        "https://deb.debian.org/debian-security",
    }


@pytest.mark.parametrize("snapshot", ["", MOMENT])
def test_only_the_lists_of_a_snapshot_may_be_old_and_they_are_checked(snapshot: str) -> None:
    base = recipe.base_command((Path("/stage"),), Path("/hashes"), Path("/root.tar"), snapshot)
    checked = [each for each in base if each.startswith("--extract-hook=") and each.endswith(f"lists {MOMENT}")]
    assert [any("Check-Valid-Until" in each for each in base), bool(checked)] == [bool(snapshot)] * 2
    assert base[-3:] == recipe.sources(snapshot)


DATES = {
    "debian": "Date: Sat, 11 Jul 2026 10:16:37 UTC",
    "debian-updates": "Date: Tue, 24 Nov 2026 02:14:46 UTC",
    "debian-security": "Date: Tue, 24 Nov 2026 22:33:12 UTC\nValid-Until: Tue, 01 Dec 2026 22:33:12 UTC",
}
"""What Debian signs, as far as it matters: the release has no end, security updates have one."""


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param({}, "", id="as they were"),
        pytest.param({"debian-security": DATES["debian-security"].replace("Dec", "Jan")}, "is an old list", id="old"),
        pytest.param({"debian-security": DATES["debian"]}, "has no Valid-Until", id="no end"),
        pytest.param({"debian-updates": "Date: Wed, 25 Nov 2026 00:00:01 UTC"}, "after the moment", id="later"),
        pytest.param({"debian": "Suite: stable"}, "has no Date", id="no date"),
        pytest.param({"debian-security": None}, "no list of security updates", id="no security updates"),
    ],
)
def test_lists_of_packages_are_those_of_the_moment(tmp_path: Path, changed: dict[str, str | None], words: str) -> None:
    for name, text in (DATES | changed).items():
        if text is not None:
            signed = f"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nOrigin: Debian\n{text}\nMD5Sum:\n"
            (tmp_path / f"snapshot.debian.org_archive_dists_{name}_InRelease").write_text(signed)
    command = (sys.executable, "-I", releases.__file__, str(tmp_path), MOMENT)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, words in done.stderr, bool(done.stderr)) == (bool(words), True, bool(words))


@pytest.mark.parametrize(
    ("path", "layer"),
    [
        pytest.param("usr/bin/python3", 0, id="Debian"),
        pytest.param("opt", 0, id="the folder of opt"),
        pytest.param("opt/dovetails", 0, id="a name that only begins so"),
        pytest.param("opt/dovetail", 1, id="the folder of both"),
        pytest.param(f"{recipe.SITE}/numpy/__init__.py", 1, id="a library"),
        pytest.param(f"{recipe.SITE}/scheduler_of_others/__init__.py", 1, id="a library with such a name"),
        pytest.param("opt/dovetail/bin/python", 1, id="the interpreter"),
        pytest.param(f"{recipe.SITE}/scheduler", 2, id="a package of Dovetail"),
        pytest.param(f"{recipe.SITE}/scheduler/__pycache__/run.cpython-311.pyc", 2, id="a compiled module of Dovetail"),
        pytest.param("opt/dovetail/bin/dovetail", 2, id="a command of Dovetail"),
    ],
)
def test_each_path_is_in_one_layer(path: str, layer: int) -> None:
    assert layers.layer_of(path, OWN) == layer


def _root(path: Path, *, user: int, umask: int) -> Path:
    """A root file system as mmdebstrap writes it, built by a user with some umask."""
    entries: list[tuple[str, int, bytes, str]] = [
        (".", 0o755, tarfile.DIRTYPE, ""),
        ("./dev", 0o755, tarfile.DIRTYPE, ""),
        ("./dev/null", 0o666, tarfile.CHRTYPE, ""),
        ("./opt/dovetail/bin", 0o777, tarfile.DIRTYPE, ""),
        ("./opt/dovetail/bin/dovetail", 0o777, tarfile.REGTYPE, ""),
        ("./opt/dovetail/bin/python", 0o777, tarfile.SYMTYPE, "/usr/bin/python3"),
        (f"./{recipe.SITE}/numpy/core.py", 0o666, tarfile.REGTYPE, ""),
        (f"./{recipe.SITE}/scheduler/run.py", 0o666, tarfile.REGTYPE, ""),
        ("./usr/bin/perl", 0o755, tarfile.REGTYPE, ""),
        ("./usr/bin/perl5.36", 0o755, tarfile.LNKTYPE, "./usr/bin/perl"),
        ("./usr/bin/chage", 0o2755, tarfile.REGTYPE, ""),
    ]
    with tarfile.open(path, "w") as archive:
        for name, mode, kind, target in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, target
            is_ours = "opt" in name
            entry.uid = entry.gid = user if is_ours else 42
            entry.mode = mode & ~umask if is_ours and kind != tarfile.SYMTYPE else mode
            content = name.encode() if kind == tarfile.REGTYPE else b""
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def _split(folder: Path, *, user: int = 0, umask: int = 0o022) -> list[Path]:
    folder.mkdir()
    parts = [folder / f"{name}.tar" for name in ("debian", "dependencies", "dovetail")]
    layers.split(_root(folder / "root.tar", user=user, umask=umask), parts, OWN)
    return parts


def _entries(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path) as archive:
        return {each.name: each for each in archive}


def test_every_file_but_device_nodes_is_in_the_layers_once(tmp_path: Path) -> None:
    assert [list(_entries(each)) for each in _split(tmp_path / "layers")] == [
        ["dev", "usr/bin/perl", "usr/bin/perl5.36", "usr/bin/chage"],
        ["opt/dovetail/bin", "opt/dovetail/bin/python", f"{recipe.SITE}/numpy/core.py"],
        ["opt/dovetail/bin/dovetail", f"{recipe.SITE}/scheduler/run.py"],
    ]


def test_files_keep_their_content_and_links_their_target(tmp_path: Path) -> None:
    debian, _, own = _split(tmp_path / "layers")
    with tarfile.open(own) as archive:
        content = archive.extractfile(f"{recipe.SITE}/scheduler/run.py")
        assert content is not None
        assert content.read() == f"./{recipe.SITE}/scheduler/run.py".encode()
    assert _entries(debian)["usr/bin/perl5.36"].linkname == "usr/bin/perl"


def test_debian_keeps_its_owners_and_modes_and_the_rest_is_roots_and_readable(tmp_path: Path) -> None:
    debian, libraries, own = (_entries(each) for each in _split(tmp_path / "layers", user=1000, umask=0o077))
    assert (debian["usr/bin/chage"].gid, debian["usr/bin/chage"].mode) == (42, 0o2755)
    modes = {each.name: (each.uid, oct(each.mode)) for each in (*libraries.values(), *own.values())}
    assert modes == {
        "opt/dovetail/bin": (0, "0o755"),
        "opt/dovetail/bin/python": (0, "0o777"),
        f"{recipe.SITE}/numpy/core.py": (0, "0o644"),
        "opt/dovetail/bin/dovetail": (0, "0o755"),
        f"{recipe.SITE}/scheduler/run.py": (0, "0o644"),
    }


def test_who_builds_makes_no_difference(tmp_path: Path) -> None:
    root = _split(tmp_path / "root")
    user = _split(tmp_path / "user", user=1000, umask=0o002)
    assert [each.read_bytes() for each in root] == [each.read_bytes() for each in user]


def test_every_locked_library_has_a_wheel_for_the_image(tmp_path: Path) -> None:
    site = staging.stage_dependencies(tmp_path / "dependencies")
    assert (site / "ortools").is_dir()
    assert not (site / "bin").exists()
    assert list(site.glob("pydantic_core/*.cpython-311-*.so"))


def test_the_wheels_commands_start_the_python_of_the_image(tmp_path: Path) -> None:
    build = (uv(), "build", "--quiet", "--wheel", "--require-hashes", "--build-constraints", "deploy/build/backend.txt")
    subprocess.run((*build, "--out-dir", str(tmp_path)), cwd=house.ROOT, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    stage = tmp_path / "stage"
    site = staging.stage_wheel(stage, wheel)
    assert (stage / "bin" / "dovetail").read_text().startswith(f"#!{recipe.INTERPRETER}\n")
    (record,) = site.glob("*.dist-info/RECORD")
    listed = {line.rpartition(",")[0].rpartition(",")[0] for line in record.read_text().splitlines()}
    assert [each for each in listed if not (site / each).exists()] == []
    names = {Path(each).name for each in layers.own_paths(stage)}
    assert names == {
        "dovetail",
        "kubectl-dovetail",
        "kubectl_complete-dovetail",
        "scheduler",
        "solver",
        record.parent.name,
    }


def _bill() -> str:
    found = [*bill.debian_components(DPKG), *bill.python_components([distribution("msgspec").metadata])]
    return bill.write(ORDER, "sha256:1", found, RELEASES)


def test_the_sbom_names_debians_packages_and_those_of_python() -> None:
    found = {each["purl"] for each in json.loads(_bill())["components"]}
    assert found == {
        "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14?arch=amd64&distro=bookworm&upstream=gcc-12%4012.2.0-14%2Bdeb12u1",
        "pkg:deb/debian/ca-certificates@20230311?arch=all&distro=bookworm&upstream=ca-certificates%4020230311",
        f"pkg:pypi/msgspec@{distribution('msgspec').version}",
    }


def test_the_sbom_names_the_packages_that_are_built_into_the_pages() -> None:
    found = {each.name: str(each.purl) for each in bill.npm_components()}
    own = json.loads((house.ROOT / "scheduler" / "page" / "front" / "package.json").read_text(encoding="utf-8"))
    assert found == {name: f"pkg:npm/{name}@{version}" for name, version in own["dependencies"].items()}


def test_the_sbom_says_which_lists_of_packages_were_read() -> None:
    metadata = json.loads(_bill())["metadata"]
    properties = {each["name"]: each["value"] for each in metadata["properties"]}
    assert properties["dovetail:debian:release:deb.debian.org_debian_dists_bookworm_InRelease"] == f"sha256:{'a' * 64}"
    assert properties["dovetail:debian:source:1"] == recipe.sources(ORDER.snapshot)[0]
    assert metadata["component"]["version"] == "1.2.3"


def test_the_same_image_has_the_same_sbom() -> None:
    assert _bill() == _bill()


ARGUMENTS = ("--wheel", "dovetail.whl", "--name", "dovetail:1.2.3", "--created", "0")


def test_a_snapshot_is_a_moment(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main((*ARGUMENTS, "--snapshot", "latest"))
    assert "'latest' is no moment of Debian's archive: write one like 20261125T000000Z" in capsys.readouterr().err


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert command.main(ARGUMENTS) == 1
    assert (
        "not found: mmdebstrap, umoci, skopeo; on Debian and Ubuntu write: apt-get install mmdebstrap"
        in capsys.readouterr().err
    )


def test_the_image_for_tests_is_built_once_for_each_wheel_and_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel, built = tmp_path / "dovetail.whl", []

    def build(name: str, wheel: Path, kept: Path) -> None:
        built.append((name, wheel.read_text()))
        kept.write_text(f"{name} with {wheel.read_text()}")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(commands, "require", lambda: None)
    monkeypatch.setattr(cached, "_wheel", lambda _folder: wheel)
    monkeypatch.setattr(cached, "_build", build)
    wanted = [("a:1", "one"), ("a:1", "one"), ("a:1", "two"), ("b:1", "two")]
    for name, content in wanted:
        wheel.write_text(content)
        assert cached.archive(name, tmp_path).read_text() == f"{name} with {content}"
    assert built == wanted[1:]
    assert len(list((tmp_path / "cache").rglob("*.tar"))) == 1
