"""The files of `make release ARGS=--local`: `install.yaml` on the real API server, and the checksums."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from e2e.controlplane import build
from e2e.controlplane.plane import ControlPlane
from e2e.helm.kustomize import Manifest, rendered
from e2e.release import __main__ as release
from e2e.release import checked, install_file
from scheduler.settings import parse

IMAGE = "registry.example.com:5000/team/dovetail:1.2.3"


def names(objects: Iterable[Manifest]) -> set[tuple[str, str]]:
    """Kinds and names; the name of the ConfigMap ends in a hash of its content, or not."""
    found = ((each["kind"], each["metadata"]["name"]) for each in objects)
    return {(kind, "config" if kind == "ConfigMap" else name) for kind, name in found}


@pytest.mark.controlplane
def test_install_yaml_is_all_of_the_default_with_an_image_and_a_choice_of_devices(tmp_path: Path) -> None:
    path = tmp_path / "install.yaml"
    path.write_text(install_file.text(IMAGE, "1.2.3"), encoding="utf-8")
    objects = list(yaml.safe_load_all(path.read_text()))

    assert names(objects) == names(rendered("overlays/default"))
    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGE
    (config,) = (each for each in objects if each["kind"] == "ConfigMap")
    settings = parse(config["data"]["config.yaml"], "install.yaml")
    assert settings.devices.owned.node_selector is not None

    with ControlPlane.start() as plane:
        said = checked.check(plane, path)
        assert said[1] == f"its image is {IMAGE}"
        path.write_text(path.read_text().replace("kind: Deployment", "kind: Deploiment"))
        with pytest.raises(checked.InstallError, match="Deploiment"):
            checked.check(plane, path)


@pytest.mark.parametrize("image", ["dovetail", "registry.example.com:5000/dovetail"])
def test_an_image_without_a_tag_is_refused(image: str) -> None:
    with pytest.raises(build.BuildError, match="write NAME:TAG"):
        install_file._image(image)  # noqa: SLF001 - without a control plane


def test_an_image_by_its_digest() -> None:
    found = install_file._image("r.example.com/dovetail@sha256:00")  # noqa: SLF001 - as above
    assert found == {"name": "dovetail", "newName": "r.example.com/dovetail", "digest": "sha256:00"}


def test_checksums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    (tmp_path / "b.whl").write_bytes(b"wheel")
    (tmp_path / "a.tar").write_bytes(b"x" * 3_000_000)
    (tmp_path / "image").mkdir()
    (tmp_path / release.CHECKSUMS).write_text(release.checksums(tmp_path))
    subprocess.run(["sha256sum", "--check", "--strict", release.CHECKSUMS], cwd=tmp_path, check=True)
    assert [line.split()[1] for line in release.checksums(tmp_path).splitlines()] == ["a.tar", "b.whl"]
    (tmp_path / "a.tar").write_bytes(b"y")
    done = subprocess.run(["sha256sum", "--check", release.CHECKSUMS], cwd=tmp_path, check=False, capture_output=True)
    assert done.returncode == 1


def test_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release.main(["--local", "--image=x:1", f"--output={tmp_path}"]) == 1
    assert "has no *.whl, *-image.tar, image.cdx.json, sbom.cdx.json: run make image sbom" in capsys.readouterr().err
    assert release.main(["--image=x:1"]) == 2
