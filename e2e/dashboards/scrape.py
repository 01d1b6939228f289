"""
A real Prometheus, without the Operator, scrapes a Dovetail that has work on a real API server; every panel is asked.

Prometheus has what `deploy/monitoring/prometheus` makes: rights, scrape configuration and rules. Dovetail is a process
of this machine, so a pod object in its place leads Prometheus to it.
"""

import contextlib
import json
import math
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml
from rich.console import Console

from e2e import dovetail, prometheus
from e2e.controlplane.plane import REPOSITORY, ControlPlane, free_port
from e2e.controlplane.processes import Component
from e2e.dashboards import pictures
from e2e.dashboards.panels import BOARDS, Look
from e2e.run import view
from e2e.run.stage import Stage

MANIFESTS: Final = REPOSITORY / "deploy" / "monitoring" / "prometheus"
ACCOUNT: Final = ("monitoring", "prometheus-server")
SECONDS: Final = 120.0
_INTERVAL: Final = "1s"


def run(console: Console, drawn_into: Path | None) -> int:
    """Ask every query and say which returned nothing; 1 if one did. The answers may be drawn into a folder."""
    api_port = free_port()
    with contextlib.ExitStack() as ends:
        stage = ends.enter_context(Stage.set_up(console, settings=_settings(api_port)))
        view.follow(stage, console, seconds=SECONDS, keeps_table=False)
        server = ends.enter_context(_prometheus(stage))
        began = time.time()
        _work_again(stage, console)
        answers = _all_answers(stage, api_port, server, began)
    empty = [expr for (expr, _), found in answers.items() if not _has_data(found)]
    for expr in empty:
        console.print(f"no data: {expr}", highlight=False, markup=False)
    console.print(f"{len(answers) - len(empty)} of {len(answers)} queries return data.", highlight=False)
    if drawn_into:
        for board in BOARDS:
            pictures.draw(board, answers, drawn_into / f"{board.name}.png")
    return 1 if empty else 0


def _settings(api_port: int) -> dict[str, Any]:
    """Return a configuration with every series that a setting switches on."""
    return {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "metrics": {"intervalSeconds": 1, "perNode": True, "mostNamespaces": 10},
        "api": {"bindAddress": f"127.0.0.1:{api_port}"},
    }


@contextlib.contextmanager
def _prometheus(stage: Stage) -> Iterator[str]:
    """Start Prometheus, wait until it has scraped Dovetail, and give its address."""
    plane, folder = stage.plane, stage.plane.folder / "prometheus"
    folder.mkdir()
    config = _configured(plane, folder)
    _put_pod(plane, int(stage.address.rpartition(":")[2]))
    address = f"127.0.0.1:{free_port()}"
    flags = [
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    # It knows no end of standard input: the kernel ends it when this process is gone.
    command = ["setpriv", "--pdeathsig", "KILL", str(prometheus.binary("prometheus")), *flags]
    with Component("prometheus", command, folder / "prometheus.log", cwd=folder) as running:
        _wait(running, lambda: _has_data(_query(f"http://{address}", "query", query="dovetail_build_info")))
        yield f"http://{address}"


def _configured(plane: ControlPlane, folder: Path) -> Path:
    """Apply the manifests; write the files of the ConfigMap, and a prometheus.yml that names them."""
    namespace, account = ACCOUNT
    plane.kubectl("create", "namespace", namespace)
    plane.kubectl("-n", namespace, "create", "serviceaccount", account)
    plane.kubectl("apply", "--server-side", "-k", str(MANIFESTS))
    files = plane.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/dovetail-prometheus")["data"]
    scrape = yaml.safe_load(files["scrape.yaml"])
    for found in scrape["scrape_configs"][0]["kubernetes_sd_configs"]:  # in a cluster Prometheus knows its API server
        found["kubeconfig_file"] = str(plane.kubeconfig_for_service_account(namespace, account))
    (folder / "scrape.yaml").write_text(yaml.safe_dump(scrape))
    (folder / "rules.yaml").write_text(files["rules.yaml"])
    config = {
        "global": {"scrape_interval": _INTERVAL, "evaluation_interval": _INTERVAL},
        "scrape_config_files": ["scrape.yaml"],
        "rule_files": ["rules.yaml"],
    }
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    return path


def _put_pod(plane: ControlPlane, port: int) -> None:
    """Create a pod as the Deployment makes them, whose address is the process of this machine."""
    deployment = plane.request("GET", f"/apis/apps/v1/namespaces/{dovetail.NAMESPACE}/deployments/dovetail")
    template = deployment["spec"]["template"]
    template["spec"]["nodeName"] = plane.request("GET", "/api/v1/nodes?limit=1")["items"][0]["metadata"]["name"]
    for declared in template["spec"]["containers"][0]["ports"]:
        declared["containerPort"] = port if declared["name"] == "metrics" else declared["containerPort"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"]["name"] = "dovetail-0"
    pods = f"/api/v1/namespaces/{dovetail.NAMESPACE}/pods"
    plane.request("POST", pods, pod)
    while plane.request("GET", f"{pods}/dovetail-0")["status"]["phase"] != "Running":  # the kubelet gives it an address
        time.sleep(0.1)
    address = {"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}}
    plane.request("PATCH", f"{pods}/dovetail-0/status", address, content="application/merge-patch+json")


def _work_again(stage: Stage, console: Console) -> None:
    """Delete the examples and apply them once more, so that what was counted before goes on while it is scraped."""
    files = [flag for example in stage.examples for flag in ("-f", str(example.path))]
    stage.plane.kubectl("delete", "--ignore-not-found", *files)
    stage.plane.kubectl("apply", *files)
    view.follow(stage, console, seconds=SECONDS, keeps_table=False)
    # The pod of high priority may have come first: it comes once more, and this time it must evict another one.
    stage.plane.kubectl("delete", "deployment", "urgent")
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and any(row.state == "Pending" for row in stage.rows() if "everyday" in row.pod):
        time.sleep(0.2)
    stage.plane.kubectl("apply", *files)
    view.follow(stage, console, seconds=SECONDS, keeps_table=False)


def _all_answers(stage: Stage, api_port: int, server: str, began: float) -> dict[tuple[str, bool], list[Any]]:
    """Ask all queries, again for a while where one has no data, because a rate needs two scrapes."""
    flags = ("-A", "--server", f"http://127.0.0.1:{api_port}", "--kubeconfig", str(stage.plane.kubeconfig))
    end, answers = time.monotonic() + SECONDS, dict[tuple[str, bool], list[Any]]()
    while time.monotonic() < end and not (answers and all(map(_has_data, answers.values()))):
        subprocess.run([sys.executable, "-m", "scheduler", "history", *flags], check=False, capture_output=True)
        answers = dict(_answers(server, began))
    return answers


def _answers(server: str, began: float) -> Iterator[tuple[tuple[str, bool], list[Any]]]:
    """Evaluate each query as Grafana does: numbers and tables now, all others over the time since `began`."""
    ended = time.time()
    seconds = f"{ended - began:.0f}s"
    variables = {"$namespace": dovetail.NAMESPACE, "$device_class": ".*", "$__range": seconds, "$__rate_interval": "4s"}
    for board in BOARDS:
        for panel in board.panels:
            for query in panel.queries:
                expr = query.expr
                for name, value in variables.items():
                    expr = expr.replace(name, value)
                is_instant = panel.look in {Look.NUMBER, Look.TABLE}
                if is_instant:
                    found = _query(server, "query", query=expr)
                else:
                    found = _query(server, "query_range", query=expr, start=began, end=ended, step=1)
                yield (query.expr, is_instant), found


def _query(server: str, kind: str, **arguments: Any) -> list[Any]:
    """Return the series of an answer."""
    url = f"{server}/api/v1/{kind}?{urllib.parse.urlencode(arguments)}"
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - the Prometheus that was started here
        found: list[Any] = json.load(answer)["data"]["result"]
    return found


def _has_data(found: list[Any]) -> bool:
    """Whether a series has a finite number."""
    values = (value for series in found for value in series.get("values", [series.get("value")]))
    return any(math.isfinite(float(value[1])) for value in values)


def _wait(running: Component, is_there: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        running.check()
        with contextlib.suppress(OSError):
            if is_there():
                return
        time.sleep(0.5)
    raise running.error(f"has not scraped Dovetail after {SECONDS:.0f} s")
