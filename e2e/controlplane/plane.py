"""The control plane as one value: started, asked for ways in, and ended with everything that it started."""

import contextlib
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Self

import yaml

from e2e.controlplane import build, versions
from e2e.controlplane.access import Access, RequestError
from e2e.controlplane.gates import FeatureGates, api_flags, gate_flags
from e2e.controlplane.processes import Component, ComponentError, Stoppable

REPOSITORY = Path(__file__).parents[2]
READY_SECONDS = 120.0
TOKEN_SECONDS = 24 * 3600
WITHOUT_CLIENT_LIMITS = 5000  # the controller manager and the peer must not be what a measurement measures
SCHEDULER_USER = "system:kube-scheduler"
NODE_USER = "system:node:"
NODE_RESTRICTION = "--enable-admission-plugins=NodeRestriction"
AUDIT_POLICY = Path(__file__).parent / "audit-policy.yaml"
CRITICAL_QUOTA = Path(__file__).parent / "critical-quota.yaml"
AUDIT_LOG_MIB = 100_000
"""More than a run writes: the file is never rotated."""

NODE_LIFECYCLE = "node-lifecycle-controller"
NODE_GRACE_SECONDS = 10
"""With `node_lifecycle`, a node whose kubelet is silent for so long is taken for dead; 50 by default of Kubernetes."""

# Nothing here has a kubelet or a cloud: these would taint nodes for silence, or wait for addresses that never come.
CONTROLLERS_OFF = ("node-ipam-controller", NODE_LIFECYCLE)
CLOUD_CONTROLLERS_OFF = ("node-route-controller", "cloud-node-lifecycle-controller", "service-lb-controller")
LAST_WITH_CLOUD_CONTROLLERS = 36


class KubectlError(RuntimeError):
    """A kubectl command failed; the message is what it said."""


class ControlPlane(Stoppable):
    """
    A running control plane; `start` makes one, the end of a `with` block (or `stop`) ends it and its state.

    Should this process die without either, its components notice and end by themselves (see `processes.Component`).
    """

    def __init__(self, kubernetes: str, binary: Path, folder: Path, feature_gates: FeatureGates) -> None:
        """Use `start`."""
        self.kubernetes = kubernetes
        self.folder = folder
        self.audit_log: Path | None = None
        """One audit event (audit.k8s.io/v1) in JSON a line; only with `audit_log`."""
        self.critical_quota = False
        self.node_lifecycle = False
        self.service_accounts = False
        self.feature_gates = feature_gates
        self.components: dict[str, Component] = {}
        self._binary = binary
        self._ends = contextlib.ExitStack()
        self._tokens = {"admin": secrets.token_hex(16), SCHEDULER_USER: secrets.token_hex(16)}
        self._port = free_port()
        self._etcd = ""
        self.admin = self._access(self._tokens["admin"])
        self.kubeconfig = folder / "admin.kubeconfig"

    @classmethod
    def start(
        cls,
        *,
        kubernetes: str | None = None,
        feature_gates: FeatureGates = "on",
        kube_scheduler: bool = False,
        kubelet: bool = False,
        audit_log: bool = False,
        critical_quota: bool = False,
        node_lifecycle: bool = False,
        node_accounts: Sequence[str] = (),
        service_accounts: bool = False,
        folder: Path | None = None,
    ) -> Self:
        """
        Start etcd, API server and controller manager, and wait until they work (about 5 s; minutes to build them).

        `kubernetes` is a minor version (`versions.chosen`). `kube_scheduler` and `kubelet` start these too; with
        `audit_log` the API server writes down what `audit-policy.yaml` says, and with `critical_quota` pods of the
        system's priority classes need a ResourceQuota, as on GKE. With `node_lifecycle`, for real kubelets, nodes are
        tainted until they are ready and when their kubelets fall silent. With `node_accounts`, names of nodes, their
        kubelets may come with accounts of their own (`access_for_node`). With `service_accounts`, for real kubelets,
        pods get a token of their ServiceAccount. State, logs and credentials go to `folder`, which then stays, else to
        a temporary folder that goes. Raises BuildError, UnknownVersionError or ComponentError, with nothing left
        running.
        """
        kubernetes = versions.chosen(kubernetes)
        binary = build.controlplane_binary(kubernetes)
        keep = folder is not None
        folder = folder or Path(tempfile.mkdtemp(prefix="dovetail-controlplane-"))
        folder.mkdir(parents=True, exist_ok=True)
        plane = cls(kubernetes, binary, folder.resolve(), feature_gates)
        plane.audit_log = plane.folder / "audit.log" if audit_log else None
        plane.critical_quota = critical_quota
        plane.node_lifecycle = node_lifecycle
        plane.service_accounts = service_accounts
        plane._tokens |= {f"{NODE_USER}{name}": secrets.token_hex(16) for name in node_accounts}
        if not keep:
            plane._ends.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            plane._start_all()
            if kubelet:
                plane.start_kubelet()
            if kube_scheduler:
                plane.start_kube_scheduler()
        except BaseException:
            plane.stop()
            raise
        return plane

    def stop(self) -> None:
        """End every component, the last started first, and remove the temporary folder; a second call does nothing."""
        self._ends.close()

    # ways in

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self.admin.server

    @property
    def kubectl_binary(self) -> Path:
        """The kubectl that was built along, for a person to use."""
        return self._binary.with_name("kubectl")

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 - subprocess calls it so
        """Run kubectl as admin and return what it prints. Raises KubectlError with its message."""
        flags = [f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.folder / 'discovery'}"]
        command = [str(self.kubectl_binary), *flags, *arguments]
        done = subprocess.run(command, input=input, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def request(self, method: str, path: str, body: Any = None, *, content: str = "application/json") -> Any:
        """Send one request as admin and return the decoded JSON. Raises RequestError."""
        return self.admin.request(method, path, body, content=content)

    def access_for_service_account(self, namespace: str, name: str) -> Access:
        """Get a token for an existing service account (TokenRequest API), with whatever RBAC grants it."""
        wanted = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        token: str = self.request("POST", path, wanted)["status"]["token"]
        return self._access(token)

    def kubeconfig_for_service_account(self, namespace: str, name: str) -> Path:
        """Write a kubeconfig file for an existing service account."""
        path = self.folder / f"{namespace}-{name}.kubeconfig"
        return self.access_for_service_account(namespace, name).write_kubeconfig(path)

    def access_for_node(self, name: str) -> Access:
        """Return the way of the kubelet of a node of `node_accounts`. Raises KeyError for another one."""
        return self._access(self._tokens[f"{NODE_USER}{name}"])

    # more components

    def start_kube_scheduler(
        self, config: Path | None = None, *, client_qps: int | None = WITHOUT_CLIENT_LIMITS
    ) -> Component:
        """
        Start the peer with a KubeSchedulerConfiguration file, or without profiles of its own, and wait for it.

        The copy it runs with gets the address, no leader election, and `client_qps` requests per second (None: what
        the file says, or its default of 50). `stop` of the returned component ends it before the rest; its `access`
        answers `request("GET", "/metrics")`.
        """
        settings = yaml.safe_load(config.read_text()) if config else {}
        settings.setdefault("apiVersion", "kubescheduler.config.k8s.io/v1")
        settings.setdefault("kind", "KubeSchedulerConfiguration")
        settings["leaderElection"] = {"leaderElect": False}
        # As its own account in a cluster: with that one's rights and its share (flow schema) of the API server.
        kubeconfig = self._access(self._tokens[SCHEDULER_USER]).write_kubeconfig(self.folder / "scheduler.kubeconfig")
        connection = settings.setdefault("clientConnection", {})
        connection["kubeconfig"] = str(kubeconfig)
        if client_qps is not None:
            connection.update(qps=client_qps, burst=client_qps)
        path = self.folder / "kube-scheduler.yaml"
        path.write_text(yaml.safe_dump(settings))
        port = free_port()
        scheduler = self._start(
            "kube-scheduler",
            f"--config={path}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self.folder / 'serving.crt'}",
            f"--tls-private-key-file={self.folder / 'serving.key'}",
            "--authorization-always-allow-paths=/readyz,/metrics",
            *gate_flags(self.feature_gates, self.kubernetes),
        )
        access = scheduler.access = Access(host="127.0.0.1", port=port, ca=self.folder / "ca.crt", token="")
        self._wait(scheduler, lambda: _failing_checks(access))
        return scheduler

    def start_kubelet(self, *arguments: str) -> Component:
        """Start the stand-in for kubelets and drivers as a process of its own; `arguments` are its command line's."""
        module = "e2e.controlplane.kubelet"
        command = [sys.executable, "-m", module, f"--kubeconfig={self.kubeconfig}", *arguments]
        return self._add(Component("kubelet", command, self.folder / "kubelet.log", cwd=REPOSITORY))

    def change_version(self, kubernetes: str) -> None:
        """Replace the API server and the controller manager by another version's, on the same etcd and address."""
        binary = build.controlplane_binary(kubernetes)
        for name in ("kube-controller-manager", "kube-apiserver"):
            self.components.pop(name).stop()
        self.kubernetes, self._binary = kubernetes, binary
        self._start_servers()

    def restart(self, meanwhile: Callable[[Path], object]) -> None:
        """Stop etcd and all that depends on it, hand over the folder of etcd's data, and start everything again."""
        for name in ("kube-controller-manager", "kube-apiserver", "etcd"):
            self.components.pop(name).stop()
        meanwhile(self.folder / "etcd")
        self._etcd = self._start_etcd()
        self._start_servers()

    # how it starts

    def _start_all(self) -> None:
        subprocess.run([self._binary, "credentials", self.folder], check=True, capture_output=True)
        self.admin.write_kubeconfig(self.kubeconfig)
        self._etcd = self._start_etcd()
        self._start_servers()

    def _start_servers(self) -> None:
        self._start_api_server(self._etcd)
        self._wait(self.components["kube-apiserver"], self._api_server_fails)
        self._start_controller_manager()
        self._wait(self.components["kube-controller-manager"], self._missing_account)

    def _start_etcd(self) -> str:
        clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._start(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",  # this state is of no use after a crash of the machine
            "--log-level=warn",
        )
        return clients

    def _start_api_server(self, etcd: str) -> None:
        tokens = self.folder / "tokens.csv"
        tokens.touch(mode=0o600)
        nodes = [user for user in self._tokens if user.startswith(NODE_USER)]
        groups = {"admin": ",system:masters", **dict.fromkeys(nodes, ",system:nodes")}
        lines = [f"{token},{user},{user}{groups.get(user, '')}\n" for user, token in self._tokens.items()]
        tokens.write_text("".join(lines))
        # Limits of requests in flight and priority and fairness stay as in any cluster: what is tested here must live
        # with them, and brings flow schemas of its own.
        self._start(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--tls-cert-file={self.folder / 'serving.crt'}",
            f"--tls-private-key-file={self.folder / 'serving.key'}",
            f"--cert-dir={self.folder}",
            f"--token-auth-file={tokens}",
            *(["--authorization-mode=Node,RBAC", NODE_RESTRICTION] if nodes else ["--authorization-mode=RBAC"]),
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'service-account.key'}",
            f"--service-account-signing-key-file={self.folder / 'service-account.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # No pod finds the API server by EndpointSlices: nodes hand on what pods send to its Service.
            "--endpoint-reconciler-type=none",
            *self._admission_flags(),
            *api_flags(self.feature_gates),
            *gate_flags(self.feature_gates, self.kubernetes),
            *self._audit_flags(),
            *([f"--admission-control-config-file={CRITICAL_QUOTA}"] if self.critical_quota else []),
        )

    def _admission_flags(self) -> tuple[str, ...]:
        """Leave out tokens for pods, and a taint of new nodes that only the node lifecycle controller takes away."""
        is_wanted = {"ServiceAccount": self.service_accounts, "TaintNodesByCondition": self.node_lifecycle}
        off = [name for name, is_on in is_wanted.items() if not is_on]
        return (f"--disable-admission-plugins={','.join(off)}",) if off else ()

    def _audit_flags(self) -> tuple[str, ...]:
        if self.audit_log is None:
            return ()
        one_file = f"--audit-log-maxsize={AUDIT_LOG_MIB}"
        return f"--audit-policy-file={AUDIT_POLICY}", f"--audit-log-path={self.audit_log}", one_file

    def _start_controller_manager(self) -> None:
        has_cloud = versions.minor(self.kubernetes) <= LAST_WITH_CLOUD_CONTROLLERS
        off = [*CONTROLLERS_OFF, *(CLOUD_CONTROLLERS_OFF if has_cloud else ())]
        if self.node_lifecycle:
            off.remove(NODE_LIFECYCLE)
        self._start(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            "--secure-port=0",
            "--leader-elect=false",
            "--controllers=*," + ",".join(f"-{name}" for name in off),
            "--node-monitor-period=1s",
            f"--node-monitor-grace-period={NODE_GRACE_SECONDS}s",
            # With the default of 20 a second, claims made from templates are the slowest thing in the cluster.
            f"--kube-api-qps={WITHOUT_CLIENT_LIMITS}",
            f"--kube-api-burst={WITHOUT_CLIENT_LIMITS}",
            f"--root-ca-file={self.folder / 'ca.crt'}",
            *gate_flags(self.feature_gates, self.kubernetes),
        )

    def _start(self, name: str, *flags: str) -> Component:
        return self._add(Component(name, [self._binary, name, *flags], self.folder / f"{name}.log", cwd=self.folder))

    def _add(self, component: Component) -> Component:
        self.components[component.name] = component
        self._ends.callback(component.stop)
        return component

    def _access(self, token: str) -> Access:
        return Access(host="127.0.0.1", port=self._port, ca=self.folder / "ca.crt", token=token)

    def _wait(self, component: Component, missing: Callable[[], str]) -> None:
        """Wait until `missing` returns an empty string, telling every 5 s what it returned."""
        began = time.monotonic()
        next_line = began + 5
        while what := missing():
            component.check()
            now = time.monotonic()
            if now > began + READY_SECONDS:
                raise component.error(f"is not ready after {READY_SECONDS:.0f} s, it lacks {what}")
            if now > next_line:
                next_line += 5
                print(f"waiting for {component.name}, {now - began:.0f} s: {what}", file=sys.stderr, flush=True)
            time.sleep(0.05)

    def _api_server_fails(self) -> str:
        self.components["etcd"].check()
        return _failing_checks(self.admin)

    def _missing_account(self) -> str:
        """Name the first thing that controllers make in an empty cluster while it is missing, or an empty string."""
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        try:
            self.request("GET", path)
        except RequestError:
            return path
        return ""


_MOST_CHECKS: Final = 3
"""Checks that are named while they are not ready."""


def _failing_checks(access: Access) -> str:
    """Return what a component says is not ready yet, or an empty string."""
    try:
        access.request("GET", "/readyz?verbose")
    except RequestError as error:
        lines = str(error).splitlines()
        failing = [line.split()[0].removeprefix("[-]").rpartition("/")[2] for line in lines if line.startswith("[-]")]
        more = f" and {len(failing) - _MOST_CHECKS} more" if len(failing) > _MOST_CHECKS else ""
        return ", ".join(failing[:_MOST_CHECKS]) + more or lines[0]
    except OSError as error:
        return str(error)
    return ""


def free_port() -> int:
    """
    Find a port of 127.0.0.1 that no process listens on.

    It lies below the range that the kernel gives to outgoing connections, or one of those could take it before the
    server does. Of two processes that look at once, one in thousands gets the port of the other.
    """
    for _ in range(1000):
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise ComponentError("no free port between 20000 and 32000 was found")
