"""The list of what is in the image (SBOM, CycloneDX): read from the unpacked image, written by the format's library."""

import datetime as dt
import json
import re
import uuid
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageMetadata, distributions
from pathlib import Path

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from e2e.controlplane.plane import REPOSITORY
from e2e.image import recipe
from e2e.image.build import Order
from e2e.image.commands import ImageError, run

FORMAT = "${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\n"
"""What `debian_components` reads, as dpkg-query's format."""


def text(order: Order, digest: str, root: Path, releases: str) -> str:
    """Return the SBOM of an image that is unpacked at `root`. Raise `ImageError` if it is not valid CycloneDX."""
    listed = run("dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show", f"--showformat={FORMAT}")
    site = distributions(path=[str(root / recipe.SITE)])
    found = [*debian_components(listed), *python_components(each.metadata for each in site), *npm_components()]
    return write(order, digest, found, releases)


def debian_components(listed: str) -> Iterator[Component]:
    """Read the lines of dpkg-query: package, version, architecture, source package and its version."""
    for line in listed.splitlines():
        name, version, architecture, source, source_version = line.split("\t")
        qualifiers = {"arch": architecture, "distro": recipe.SUITE, "upstream": f"{source}@{source_version}"}
        yield _component(PackageURL("deb", "debian", name, version, qualifiers))


def python_components(found: Iterable[PackageMetadata]) -> Iterator[Component]:
    """Read the metadata of installed Python packages."""
    for each in found:
        name = re.sub(r"[-_.]+", "-", each["Name"]).lower()
        yield _component(PackageURL("pypi", None, name, each["Version"]), each.json.get("license_expression"))


def npm_components() -> Iterator[Component]:
    """Read what is built into the pages, from the lock file of their front ends."""
    locked = json.loads((REPOSITORY / "scheduler" / "page" / "front" / "package-lock.json").read_text(encoding="utf-8"))
    for path, each in locked["packages"].items():
        if path and not each.get("dev"):
            *scope, name = path.removeprefix("node_modules/").split("/")
            yield _component(PackageURL("npm", "/".join(scope) or None, name, each["version"]), each["license"])


def _component(purl: PackageURL, licence: object = None) -> Component:
    licences = [LicenseExpression(str(licence))] if licence else []
    return Component(name=purl.name, version=purl.version, purl=purl, bom_ref=str(purl), licenses=licences)


def write(order: Order, digest: str, components: Iterable[Component], releases: str) -> str:
    """
    Write the document: the same text for the same image.

    `releases` has the hashes of Debian's lists of packages, one a line as sha256sum prints them.
    """
    reference = PackageURL("oci", None, "dovetail", digest, {"tag": order.version})
    image = Component(
        name="dovetail", type=ComponentType.CONTAINER, version=order.version, purl=reference, bom_ref=str(reference)
    )
    bom = Bom(components=components, serial_number=uuid.uuid5(uuid.NAMESPACE_URL, str(reference)))
    bom.metadata = BomMetaData(
        component=image,
        timestamp=dt.datetime.fromtimestamp(order.created, dt.UTC),
        properties=[Property(name=f"dovetail:debian:{name}", value=value) for name, value in _origins(order, releases)],
    )
    bom.register_dependency(image, bom.components)
    document = JsonV1Dot6(bom).output_as_string(indent=2)
    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(document):
        raise ImageError(f"the SBOM is not valid CycloneDX: {wrong}")
    return f"{document}\n"


def _origins(order: Order, releases: str) -> Iterator[tuple[str, str]]:
    for at, source in enumerate(recipe.sources(order.snapshot), start=1):
        yield f"source:{at}", source
    for line in releases.splitlines():
        checksum, name = line.split()
        yield f"release:{name}", f"sha256:{checksum}"
