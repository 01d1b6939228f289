"""
Kueue as a process: its own manifests without what needs a kubelet, its own rights, webhooks on a port of this machine.

What a cluster does with containers is done here by hand: the Secret of Kueue's certificates is also a folder, and each
webhook has a URL in place of a Service. All else is as Kueue ships it.
"""

import base64
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import yaml

from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane, free_port
from e2e.controlplane.processes import Component
from e2e.neighbours import programs

NAMESPACE: Final = "kueue-system"
ACCOUNT: Final = "kueue-controller-manager"
READY_SECONDS: Final = 60.0
_SERVICE: Final = f"kueue-webhook-service.{NAMESPACE}.svc"
_SECRET: Final = "kueue-webhook-server-cert"
_LEFT_OUT: Final = ("APIService", "ConfigMap", "Deployment", "Service")
"""Kinds of Kueue's manifests that need a kubelet, or that stand in files here."""

Json = dict[str, Any]


class Kueue(Component):
    """Kueue's running manager; `stop` kills it, and everything that it installed stays."""

    def __init__(self, plane: ControlPlane, config: Path, *flags: str) -> None:
        """Use `start`."""
        kubeconfig = plane.kubeconfig_for_service_account(NAMESPACE, ACCOUNT)
        command: list[str | Path] = [
            programs.kueue(),
            f"--config={config}",
            f"--kubeconfig={kubeconfig}",
            "--zap-log-level=2",
            *flags,
        ]
        # It knows no end of standard input: the kernel ends it when this process is gone.
        super().__init__(
            "kueue", ["setpriv", "--pdeathsig", "KILL", *command], plane.folder / "kueue.log", cwd=plane.folder
        )

    @classmethod
    def start(
        cls,
        plane: ControlPlane,
        *,
        classes: Mapping[str, str],
        gates: Mapping[str, bool] | None = None,
        settings: Json | None = None,
    ) -> Self:
        """
        Install Kueue where it is not, start it and wait until it admits (2 to 3 s; minutes to build it).

        `classes` gives the name in quotas of each DeviceClass. `gates` and `settings` are more feature gates and more
        fields of its Configuration. Raises BuildError or ComponentError, with nothing left running.
        """
        programs.kueue()  # builds it, with which the module with its manifests comes
        folder = plane.folder / "kueue"
        ports = free_port(), free_port()
        _make_certificates(folder)
        plane.kubectl(
            "apply", "--server-side", "--force-conflicts", "-f", "-", input=_manifests(plane, folder, ports[0])
        )
        config = folder / "configuration.yaml"
        config.write_text(yaml.safe_dump(_configuration(folder, ports, classes, gates or {}) | (settings or {})))
        kueue = cls(plane, config)
        try:
            # Before, its webhooks refuse every Job and pod.
            kueue.wait_until(lambda: programs.is_ready(ports[1]), READY_SECONDS, poll_seconds=0.05)
            kueue.wait_until(lambda: _admits(plane), READY_SECONDS, poll_seconds=0.05)
        except BaseException:
            kueue.stop()
            raise
        return kueue


def _admits(plane: ControlPlane) -> bool:
    """Whether its webhooks answer the API server, asked with an object that is not kept."""
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "dovetail-is-kueue-there"},
    }
    try:
        plane.request("POST", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors?dryRun=All", flavor)
    except RequestError:
        return False
    return True


def _make_certificates(folder: Path) -> None:
    """Make authority, certificate and keys in a folder that has none."""
    folder.mkdir(exist_ok=True)
    if not (folder / "tls.crt").exists():
        subprocess.run([programs.certificates(), folder, "kueue-ca", _SERVICE], check=True)


def _manifests(plane: ControlPlane, folder: Path, port: int) -> str:
    """Return Kueue's manifests as this machine can have them, and the Secret of its certificates."""
    source = programs.module_folder(programs.KUEUE) / "config" / "default"
    manifests = [each for each in yaml.safe_load_all(plane.kubectl("kustomize", str(source))) if each]
    authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    kept = [each for each in manifests if each["kind"] not in _LEFT_OUT]
    for manifest in kept:
        for client in _client_configs(manifest):
            path = client.pop("service")["path"]
            client |= {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority}
        if manifest["kind"] == "Secret" and manifest["metadata"]["name"] == _SECRET:
            files = "ca.crt", "ca.key", "tls.crt", "tls.key"
            manifest["data"] = {name: base64.b64encode((folder / name).read_bytes()).decode() for name in files}
    return yaml.safe_dump_all(kept)


def _client_configs(manifest: Json) -> Iterator[Json]:
    """Give each place where a manifest says how the API server reaches Kueue."""
    for webhook in manifest.get("webhooks", []):
        yield webhook["clientConfig"]
    webhook = manifest.get("spec", {}).get("conversion", {}).get("webhook")
    if manifest["kind"] == "CustomResourceDefinition" and webhook:
        yield webhook["clientConfig"]


def _configuration(folder: Path, ports: tuple[int, int], classes: Mapping[str, str], gates: Mapping[str, bool]) -> Json:
    webhook, health = ports
    mappings = [
        {"name": quota, "deviceClassNames": [name for name in classes if classes[name] == quota]}
        for quota in dict.fromkeys(classes.values())
    ]
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhook, "certDir": str(folder)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": True},
        # The API server reaches no Service of this machine, which its aggregated API would need.
        "featureGates": {"VisibilityOnDemand": False, "KueueDRAIntegration": True, **gates},
        "integrations": {"frameworks": ["batch/job", "pod"]},
        "clientConnection": {"qps": 300, "burst": 500},
        "controller": {
            "groupKindConcurrency": {
                "Job.batch": 5,
                "Pod": 5,
                "Workload.kueue.x-k8s.io": 10,
                "LocalQueue.kueue.x-k8s.io": 5,
                "Cohort.kueue.x-k8s.io": 1,
                "ClusterQueue.kueue.x-k8s.io": 5,
                "ResourceFlavor.kueue.x-k8s.io": 1,
            }
        },
        "resources": {"deviceClassMappings": mappings},
    }
