"""The scheduler's own API on the real API server: through its proxy, with tokens and rights that it decides about."""

import json
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from e2e.controlplane.access import Access, RequestError
from e2e.controlplane.plane import free_port
from scheduler.cli.main import main
from scheduler.worker import recording
from tests.scheduler.cli.test_page import running
from tests.support.controlplane import wait_until
from tests.support.forwarding import forward
from tests.support.people import may
from tests.support.shell_world import Start, World

COMPONENT = Path(__file__).parents[2] / "deploy" / "api"
RBAC = "/apis/rbac.authorization.k8s.io/v1"

pytestmark = pytest.mark.controlplane


class Desk:
    """A scheduler with its API, a Service that leads to it, and accounts that ask."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.plane, self.folder = world, world.plane, folder
        self.port = free_port()
        self.plane.kubectl("apply", "--server-side", "-f", str(COMPONENT / "clusterrolebinding.yaml"))
        forward(self.world, COMPONENT / "service.yaml", self.port)

    def config(self, requests_per_second: float) -> Path:
        document = {
            "apiVersion": "config.dovetail.dev/v1alpha1",
            "kind": "DovetailConfiguration",
            "api": {
                "bindAddress": f"0.0.0.0:{self.port}",
                "tlsCertFile": str(self.plane.folder / "serving.crt"),
                "tlsKeyFile": str(self.plane.folder / "serving.key"),
                "requestsPerSecond": requests_per_second,
            },
            "history": {"files": {"folder": str(self.folder / "decisions")}},
        }
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    def account(self, name: str, *resources: str) -> Path:
        """Return a kubeconfig of a service account that may list these resources in the test's namespace."""
        namespace = self.world.namespace
        metadata = {"name": name, "namespace": namespace}
        subject = {"kind": "ServiceAccount", **metadata}
        self.plane.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": metadata})
        rules = [{"apiGroups": ["", "resource.k8s.io"], "resources": resources or ["configmaps"], "verbs": ["list"]}]
        self._grant(namespace, name, rules, subject)
        role, *_ = yaml.safe_load_all((COMPONENT / "role.yaml").read_text())
        self._grant(namespace, f"{name}-way", role["rules"], subject)
        asking = self.plane.access_for_service_account(namespace, name)
        wait_until(lambda: all(may(asking, rule, namespace) for rule in (*rules, *role["rules"])))
        return self.plane.kubeconfig_for_service_account(namespace, name)

    def _grant(self, namespace: str, name: str, rules: list[Any], subject: Any) -> None:
        metadata = {"name": name, "namespace": namespace}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        self.plane.request("POST", f"{RBAC}/namespaces/{namespace}/roles", {"metadata": metadata, "rules": rules})
        binding = {"metadata": metadata, "roleRef": reference, "subjects": [subject]}
        self.plane.request("POST", f"{RBAC}/namespaces/{namespace}/rolebindings", binding)

    def place(self, name: str) -> str:
        """Have a pod placed on a device; return `driver/pool/device`."""
        self.world.pod(name)
        wait_until(lambda: bool((self.world.get_pod(name) or {}).get("spec", {}).get("nodeName")))
        (claim,) = [each for each in self.world.claims() if each["metadata"]["ownerReferences"][0]["name"] == name]
        (device,) = self.world.devices(claim["metadata"]["name"])
        return f"{self.world.driver}/{device}"

    def ask(self, kubeconfig: Path, *words: str) -> int:
        """Run a command as the owner of a kubeconfig."""
        own = [f"--kubeconfig={kubeconfig}", f"--service={self.world.namespace}/dovetail-api"]
        return main([words[0], *own, *words[1:]])


@pytest.fixture
def desk(request: pytest.FixtureRequest, world: World, start: Start, account: Path, tmp_path: Path) -> Desk:
    """A scheduler with its API and a node with two devices; a parameter is the requests per second of a caller."""
    world.add_nodes(1, 2)
    made = Desk(world, tmp_path)
    world.template()
    start(account, f"--config={made.config(getattr(request, 'param', 5.0))}")
    return made


def test_the_history_of_a_pod_names_node_and_devices(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    device = desk.place("p")
    reader = desk.account("reader", "pods", "resourceclaims")

    assert desk.ask(reader, "history", f"pod/{desk.world.namespace}/p", "-o", "json") == 0

    document = json.loads(capsys.readouterr().out)
    bound = document["items"][0]
    assert (document["kind"], bound["result"]) == ("History", "Bound")
    assert (bound["name"], bound["node"], bound["devices"]) == ("p", desk.world.nodes[0], [device])
    decision = next(each for each in document["items"] if each["type"] == "Decision" and each.get("placed"))
    assert decision["placed"][0]["devices"] == [device]
    assert desk.ask(reader, "history", f"pod/{desk.world.namespace}/p") == 0
    table = capsys.readouterr().out
    assert "Bound" in table
    assert device.rpartition("/")[2] in table


def test_a_caller_sees_what_the_caller_may_list(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.place("p")
    namespace = desk.world.namespace
    stranger = desk.account("stranger")
    half = desk.account("half", "pods")

    assert desk.ask(stranger, "history", "-n", namespace) == 2
    assert f"cannot list pods in the namespace '{namespace}'" in capsys.readouterr().err
    assert desk.ask(half, "history", "-n", namespace, "-o", "json") == 3
    found = capsys.readouterr()
    assert json.loads(found.out)["hidden"]["devices"] >= 1
    assert [each for each in json.loads(found.out)["items"] if each.get("devices")] == []
    assert "you may not list them" in found.err


def test_a_token_for_the_scheduler_alone_is_enough(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.place("p")
    desk.account("reader", "pods", "resourceclaims")
    namespace = desk.world.namespace
    admin = desk.plane.kubeconfig

    options = ("-n", namespace, f"--service-account={namespace}/reader", "-o", "json")
    assert desk.ask(admin, "history", *options) == 0
    assert json.loads(capsys.readouterr().out)["items"]
    token = desk.plane.request(
        "POST",
        f"/api/v1/namespaces/{namespace}/serviceaccounts/reader/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["dovetail.dev"]}},
    )["status"]["token"]
    useless = Access(desk.plane.admin.host, desk.plane.admin.port, desk.plane.admin.ca, token)
    with pytest.raises(RequestError) as refused:
        useless.request("GET", "/api/v1/pods")
    assert refused.value.status == 401


def test_the_page_shows_the_way_of_a_pod(desk: Desk) -> None:
    device = desk.place("p")
    namespace = desk.world.namespace
    reader = desk.account("reader", "pods", "resourceclaims")
    with running(f"--kubeconfig={reader}", f"--service={namespace}/dovetail-api") as url:
        decisions = f"{url}v1alpha1/decisions?namespace={namespace}&pod=p"
        with urlopen(decisions, timeout=30) as response:  # noqa: S310 - the address of our own server
            found = json.load(response)
        bound = found["events"][0]
        assert (bound["what"], bound["node"]) == ("Bound", desk.world.nodes[0])
        assert device.rpartition("/")[2] in bound["devices"]
        assert any(each["placed"] for each in found["decisions"])


@pytest.mark.parametrize("desk", [0.01], indirect=True)
def test_a_caller_that_asks_too_often_is_refused(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.place("p")  # the scheduler leads
    reader = desk.account("reader", "pods", "resourceclaims")

    statuses = [desk.ask(reader, "history", "-n", desk.world.namespace) for _ in range(2)]

    assert statuses == [0, 2]
    assert "429" in capsys.readouterr().err


@pytest.mark.parametrize("desk", [100.0], indirect=True)
@pytest.mark.parametrize("words", [("devices",), ("devices", "-n", "{namespace}"), ("free", "--by", "class,node")])
def test_a_running_scheduler_and_the_api_server_give_the_same_numbers(
    words: tuple[str, ...], desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.place("p")
    admin = desk.plane.kubeconfig
    asked = [*(word.format(namespace=desk.world.namespace) for word in words), "-o", "json"]

    def of_scheduler() -> Any:
        assert desk.ask(admin, *asked) == 0
        return json.loads(capsys.readouterr().out, object_hook=lambda found: without_reserved(found, is_known=False))

    def of_api_server() -> Any:
        assert main([*asked, f"--kubeconfig={admin}"]) == 0
        return json.loads(capsys.readouterr().out, object_hook=lambda found: without_reserved(found, is_known=True))

    assert of_api_server()["items"]
    wait_until(lambda: of_scheduler() == of_api_server())  # other tests may still remove devices: both are asked anew


def without_reserved(found: dict[str, Any], *, is_known: bool) -> dict[str, Any]:
    """What is reserved for starving pods stands in the Lease, which is read beside the API server alone."""
    assert (found.pop("reserved", None) is not None) <= is_known
    return found


@pytest.mark.parametrize("desk", [100.0], indirect=True)
def test_the_running_scheduler_lists_its_queue(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("p", "q"):  # the node has two devices; where they are bound, the scheduler leads
        desk.place(name)
    desk.world.pod("late")

    def waiting() -> list[dict[str, Any]]:
        assert desk.ask(desk.plane.kubeconfig, "queue", "-n", desk.world.namespace, "-o", "json") == 0
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["pods"]
        return found

    def has_failed(pod: dict[str, Any]) -> bool:
        is_put_back = pod["state"] in {"unschedulable", "backoff"}  # not while it is decided again
        return is_put_back and pod.get("attempts", 0) > 0 and pod["reason"] == "Unschedulable"

    wait_until(lambda: [has_failed(each) for each in waiting()] == [True])
    assert waiting()[0]["why"]


def test_decisions_are_saved_for_replay(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.place("p")
    wait_until(lambda: any((desk.folder / "decisions").glob("dovetail-decision-*.json")))
    decided = [recording.read(each) for each in (desk.folder / "decisions").glob("dovetail-decision-*.json")]
    assert "p" in {pod.id.name for each in decided for pod in each.batch.pods}
    (path, *_) = [
        path
        for path in (desk.folder / "decisions").glob("dovetail-decision-*.json")
        if recording.read(path).batch.pods[0].id.name == "p"
    ]

    assert main(["replay", str(path)]) in {0, 1}
    assert "p" in capsys.readouterr().out
