"""Certificates of page and API: those that the chart makes, and those that it asks cert-manager for."""

import base64
import contextlib
import ssl
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.controlplane.plane import ControlPlane
from e2e.helm.command import RELEASE, ChartError, Helm
from e2e.helm.templates import CHART, NAMESPACE

_VALUES: Final[dict[str, Any]] = {
    "config": {"devices": {"owned": {}}},
    "api": {"enabled": True},
    "page": {"enabled": True},
}
OWN: Final[dict[str, Any]] = {**_VALUES, "certificates": {"source": "chart"}}
"""The values of a release that makes its own certificates."""
_SECRETS: Final = {"dovetail-api-tls": "dovetail-api", "dovetail-page-tls": "dovetail-page"}
"""The Secrets, each with the Service whose name its certificate has."""
_ISSUER: Final = {"name": "mine", "kind": "ClusterIssuer"}


def check(helm: Helm, plane: ControlPlane) -> None:
    """Install the chart with both sources of certificates. Raises ChartError."""
    helm("install", RELEASE, str(CHART), values=OWN)
    made = {name: _data(plane, name) for name in _SECRETS}
    for name, service in _SECRETS.items():
        _require_fit(made[name], f"{service}.{NAMESPACE}.svc")
    helm("upgrade", RELEASE, str(CHART), values={**OWN, "replicas": 3})
    if made != {name: _data(plane, name) for name in _SECRETS}:
        raise ChartError("an upgrade has made new certificates")
    helm("uninstall", RELEASE)
    asked = {**_VALUES, "certificates": {"source": "cert-manager", "issuerRef": _ISSUER}}
    found = {each["metadata"]["name"]: each for each in helm.rendered(asked) if each["kind"] == "Certificate"}
    for name, service in _SECRETS.items():
        spec = found[name]["spec"]
        if (spec["secretName"], spec["dnsNames"][0], spec["issuerRef"]) != (
            name,
            f"{service}.{NAMESPACE}.svc",
            _ISSUER,
        ):
            raise ChartError(f"cert-manager is asked for something else: {yaml.safe_dump(found[name])}")


def _data(plane: ControlPlane, name: str) -> dict[str, bytes]:
    secret = plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
    return {key: base64.b64decode(value) for key, value in secret["data"].items()}


def _require_fit(data: dict[str, bytes], host: str) -> None:
    """Raise ChartError where a client that trusts the certificate cannot speak TLS with a server of this name."""
    serving, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as the page does
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    with tempfile.TemporaryDirectory(prefix="dovetail-certificate-") as folder:
        for key in ("tls.crt", "tls.key"):
            (Path(folder) / key).write_bytes(data[key])
        try:
            serving.load_cert_chain(Path(folder) / "tls.crt", Path(folder) / "tls.key")
            trusting.load_verify_locations(cadata=data["ca.crt"].decode())
            server = serving.wrap_bio(to_server, to_client, server_side=True)
            client = trusting.wrap_bio(to_client, to_server, server_hostname=host)
            for side in (client, server, client, server):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        except ssl.SSLError as error:
            raise ChartError(f"the certificate for {host} cannot be used: {error}") from error
    if client.version() is None or not client.getpeercert():
        raise ChartError(f"no TLS with the certificate for {host}")
