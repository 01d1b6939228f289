"""What a person does with the page of `dovetail page`, which follows its cluster, and has to see then."""

import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import expect

from e2e import dovetail
from e2e.browser import clusters, fit_journey
from e2e.browser.live_server import LiveServer
from e2e.browser.repair_journey import follows_a_repair
from e2e.browser.visit import NARROW, WIDE, Chromium, Fault, UnseenError, Visit, visit
from e2e.controlplane.plane import REPOSITORY, ControlPlane, free_port
from e2e.fleet import fleets, publish
from e2e.fleet.shape import Manifest
from e2e.scenarios.examples import read_examples

_MOST_SHIFT: Final = 0.02
_LOST: Final = re.compile(r"Connection lost since \d\d:\d\d:\d\d UTC: ")
_REFUSED: Final = "the server responded with a status of 40"
_ACCOUNT: Final = ("default", "visitor")


class Cluster:
    """Manifests that the page reads again and again."""

    def __init__(self, folder: Path) -> None:
        self.path: Final = folder / "live.json"
        self.objects = list(clusters.mixed(dt.datetime.now(dt.UTC)))
        self.write(self.objects)

    def write(self, manifests: Iterable[Manifest]) -> None:
        """Change the cluster."""
        listed: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(listed), encoding="utf-8")
        new.rename(self.path)

    def without(self, name: str) -> None:
        """Delete a pod."""
        self.write(each for each in self.objects if each["metadata"]["name"] != name)

    def break_it(self) -> None:
        """Have it be unreadable."""
        self.path.write_text("kind: [", encoding="utf-8")


def opens(seen: Visit, cluster: Cluster, server: LiveServer) -> None:
    """The map is there with its age, nothing moves while the page is built, and only this server was asked."""
    del cluster, server
    expect(seen.page.get_by_role("heading", name="Dovetail")).to_be_visible()
    expect(seen.page.locator(".age")).to_contain_text("old")
    expect(seen.page.get_by_role("alert")).to_be_empty()
    seen.panel("NVIDIA H100 80GB HBM3")
    if seen.shifts() > _MOST_SHIFT:
        raise UnseenError("parts of the page move while it is built")


def reads_the_queue(seen: Visit, cluster: Cluster, server: LiveServer) -> None:
    """The queue is a table with order, age, reason and hint; it can be searched, and says more about a pod."""
    del cluster, server
    seen.page.get_by_role("link", name="Queue").click()
    expect(seen.map).to_be_hidden()
    rows = seen.page.get_by_role("row")
    expect(rows).to_have_count(5)  # with the head
    first = seen.page.get_by_role("row", name=clusters.WAITING[1])
    for text in ("1", "research", "1h40m", "Unschedulable", clusters.HINT):
        expect(first).to_contain_text(text)
    first.get_by_text(clusters.HINT).first.click()
    expect(first.get_by_text(f"dovetail explain pod/{clusters.WAITING[1]} -n {clusters.WAITING[0]}")).to_be_visible()
    seen.page.keyboard.press("/")
    seen.page.keyboard.type("vision segment")
    expect(rows).to_have_count(2)
    seen.page.go_back()
    expect(seen.map).to_be_visible()


def follows(seen: Visit, cluster: Cluster, server: LiveServer) -> None:
    """A pod that is gone leaves the queue by itself; what was searched and chosen stays."""
    del server
    seen.search("claim:research/pretraining-0-gpu")
    seen.page.get_by_role("tabpanel").get_by_role("button").first.click()
    seen.panel("pretraining-0")
    waiting = seen.page.locator(".figures-strip .waiting b")
    expect(waiting).to_have_text("4")
    cluster.without("segment-large")
    expect(waiting).to_have_text("3", timeout=60_000)
    seen.panel("pretraining-0")
    seen.status(r"^8 of ")


def hears_nothing(seen: Visit, cluster: Cluster, server: LiveServer) -> None:
    """A server that is silent on an open connection is said to be, and the picture follows when it goes on."""
    seen.expects_failures()
    server.pause()
    expect(seen.page.get_by_role("alert")).to_contain_text("has been silent for 15 s", timeout=40_000)
    expect(seen.page.get_by_role("alert")).to_contain_text(_LOST)
    cluster.without("segment-large")
    server.go_on()
    expect(seen.page.get_by_role("alert")).to_be_empty(timeout=60_000)
    expect(seen.page.locator(".figures-strip .waiting b")).to_have_text("3", timeout=60_000)


def is_as_after_a_reload(seen: Visit, cluster: Cluster, server: LiveServer) -> None:
    """Pods and claims go and come: the page that follows them is the page that is loaded anew."""
    del server
    seen.search("state:held")
    for names in (
        ("segment-large", "pretraining-0"),
        ("pretraining-0-gpu",),
        ("segment-large", "pretraining-1-gpu"),
        (),
    ):
        waits = seen.page.locator(".figures-strip").inner_text()
        cluster.write(each for each in cluster.objects if each["metadata"]["name"] not in names)
        expect(seen.page.locator(".figures-strip")).not_to_have_text(waits, use_inner_text=True, timeout=60_000)
        followed = _everything(seen)
        seen.page.reload()
        expect(seen.map).to_be_visible()
        if followed != (loaded := _everything(seen)):
            raise UnseenError(f"the page that followed is another one than the loaded one: {followed} {loaded}")


def _everything(seen: Visit) -> list[str]:
    """Return the texts of numbers, queue and devices that are held; without ages, which go on."""
    seen.search("state:held")
    found = [seen.page.locator(".figures-strip").inner_text()]
    for tab in ("Numbers", "Queue", "Devices"):
        seen.tab(tab)
        found.append(seen.page.get_by_role("tabpanel").inner_text())
    return [re.sub(r"\b\d+[dhms](\d+[hms])?\b", "", text) for text in found]


def loses_the_server(seen: Visit, cluster: Cluster, server: LiveServer) -> None:
    """A server that is gone is said at once, with the time; the picture stays, and is live again with the server."""
    del cluster
    seen.expects_failures()
    server.stop()
    expect(seen.page.get_by_role("alert")).to_contain_text(_LOST, timeout=30_000)
    expect(seen.page.locator(".age")).to_contain_text("old")
    seen.panel("NVIDIA H100 80GB HBM3")
    server.start()
    expect(seen.page.get_by_role("alert")).to_be_empty(timeout=60_000)


def loses_the_cluster(seen: Visit, cluster: Cluster, server: LiveServer) -> None:
    """A cluster that cannot be read is said with the reason, and the picture stays."""
    del server
    cluster.break_it()
    expect(seen.page.get_by_role("alert")).to_contain_text("live.json", timeout=60_000)
    seen.panel("NVIDIA H100 80GB HBM3")
    seen.page.reload()
    expect(seen.page.get_by_role("alert")).to_contain_text("Connection lost since", timeout=60_000)
    seen.panel("NVIDIA H100 80GB HBM3")


def has_no_scheduler(seen: Visit, cluster: Cluster, server: LiveServer) -> None:
    """A page that is not connected to a scheduler says so where the decisions would be."""
    del cluster, server
    seen.page.get_by_role("link", name="Decisions").click()
    expect(seen.page.get_by_role("region")).to_contain_text("not connected to the API of a running scheduler")


def uses_the_keyboard(seen: Visit, cluster: Cluster, server: LiveServer) -> None:
    """The views are links, and the queue opens without a pointer."""
    del cluster, server
    seen.page.get_by_role("link", name="Queue").focus()
    seen.page.keyboard.press("Enter")
    expect(seen.page.get_by_role("link", name="Queue")).to_have_attribute("aria-current", "page")
    summary = seen.page.locator("summary").first
    summary.focus()
    seen.page.keyboard.press("Space")
    expect(seen.page.locator("details[open]")).to_have_count(1)


def fits_a_phone(seen: Visit, cluster: Cluster, server: LiveServer) -> None:
    """Nothing is wider than a narrow window, in each view."""
    del cluster, server
    fit_journey.open_view(seen)
    seen.page.get_by_label("Manifest").fill(clusters.asking(9, 1))
    seen.page.get_by_role("button", name="Ask").click()
    expect(fit_journey.verdict(seen)).to_contain_text("It does not fit", timeout=60_000)
    for name in ("Fit", "Queue", "Decisions", "Map"):
        seen.page.get_by_role("link", name=name).click()
        if not seen.fits():
            raise UnseenError(f"the view {name} is wider than the window")


_Act = Callable[[Visit, Cluster, LiveServer], None]
STOPS: Final[tuple[tuple[str, _Act, dict[str, Any]], ...]] = (
    ("opens the live page", opens, {}),
    ("reads the live queue", reads_the_queue, {}),
    ("sees changes come by themselves", follows, {}),
    ("sees after changes what a reload shows", is_as_after_a_reload, {}),
    ("sees that the server is gone", loses_the_server, {}),
    ("sees that the server is silent", hears_nothing, {}),
    ("sees that the cluster cannot be read", loses_the_cluster, {}),
    ("asks whether a manifest fits", fit_journey.asks_whether_it_fits, {}),
    ("pastes something hostile", fit_journey.pastes_something_hostile, {}),
    ("asks with the keyboard", fit_journey.asks_with_the_keyboard, {}),
    ("sees that there are no decisions", has_no_scheduler, {}),
    ("uses the keyboard in the live page", uses_the_keyboard, {}),
    ("has a phone for the live page", fits_a_phone, {"size": NARROW}),
)


def travel(chromium: Chromium, folder: Path) -> Iterator[tuple[str, str]]:
    """Make every visit; give its name and what was wrong, empty where all was seen."""
    for name, act, window in STOPS:
        cluster, fault = Cluster(folder), Fault()
        with fault, LiveServer("-f", str(cluster.path)) as server, visit(chromium, server.address, **window) as seen:
            act(seen, cluster, server)
        yield name, fault.text
    for name, visits in (
        ("gives a token", shows_what_a_token_may_see),
        ("reads the decisions", reads_decisions),
        ("follows a repair", follows_a_repair),
    ):
        fault = Fault()
        with fault:
            visits(chromium, lambda _, __: None)
        yield name, fault.text


def photograph(chromium: Chromium, folder: Path, pictures: Path) -> Iterator[Path]:
    """Take the pictures that are looked at; the forbidden one is of a real API server."""
    cluster = Cluster(folder)
    windows: dict[str, dict[str, Any]] = {"light": {}, "dark": {"theme": "dark"}, "narrow": {"size": NARROW}}
    with LiveServer("-f", str(cluster.path)) as server:
        for name, window in windows.items():
            with visit(chromium, server.address, **window) as seen:
                seen.settle()
                yield _picture(seen, pictures / f"live-{name}.png")
                seen.page.get_by_role("link", name="Queue").click()
                seen.page.locator("summary").first.click()
                yield _picture(seen, pictures / f"live-queue-{name}.png")
                yield from fit_journey.photograph(seen, pictures, name)
        for name, window in windows.items():
            with visit(chromium, server.address, **window) as seen:
                yield from _photograph_lost(seen, server, pictures, name)
    cluster.write(clusters.empty())
    with (
        LiveServer("-f", str(cluster.path)) as server,
        visit(chromium, f"{server.address}#queue", has_map=False) as seen,
    ):
        expect(seen.page.get_by_role("region").get_by_text("No pod waits.")).to_be_visible()
        yield _picture(seen, pictures / "live-queue-empty.png")
    with ControlPlane.start() as plane:
        plane.kubectl("create", "serviceaccount", _ACCOUNT[1], "-n", _ACCOUNT[0])
        kubeconfig = plane.kubeconfig_for_service_account(*_ACCOUNT)
        with (
            LiveServer("--kubeconfig", str(kubeconfig)) as server,
            visit(chromium, f"{server.address}#queue", has_map=False) as seen,
        ):
            expect(seen.page.get_by_text("not listed, because it is forbidden")).to_be_visible()
            expect(seen.page.get_by_role("region").get_by_text("Pods may not be listed")).to_be_visible()
            yield _picture(seen, pictures / "live-forbidden.png")
    taken: list[Path] = []

    def look(seen: Visit, name: str) -> None:
        taken.append(_picture(seen, pictures / f"live-{name}.png"))

    shows_what_a_token_may_see(chromium, look)
    reads_decisions(chromium, look)
    follows_a_repair(chromium, look)
    yield from taken


def _photograph_lost(seen: Visit, server: LiveServer, pictures: Path, window: str) -> Iterator[Path]:
    """Take pictures of the page while its server is silent, and when it is gone."""
    seen.expects_failures()
    server.pause()
    expect(seen.page.get_by_role("alert")).to_contain_text("has been silent for 15 s", timeout=40_000)
    yield _picture(seen, pictures / f"live-silent-{window}.png")
    server.stop()
    expect(seen.page.get_by_role("alert")).to_contain_text("does not answer", timeout=60_000)
    yield _picture(seen, pictures / f"live-disconnected-{window}.png")
    seen.page.get_by_role("link", name="Queue").click()
    yield _picture(seen, pictures / f"live-queue-disconnected-{window}.png")
    server.start()


_Look = Callable[[Visit, str], None]


def shows_what_a_token_may_see(chromium: Chromium, look: _Look) -> None:
    """The page asks for a token, says why it refuses one, and shows the cluster with another."""
    with ControlPlane.start() as plane:
        plane.kubectl("create", "serviceaccount", _ACCOUNT[1], "-n", _ACCOUNT[0])
        with _with_tokens(plane) as server, visit(chromium, server.address, failure=_REFUSED) as seen:
            _give_tokens(seen, plane, look)


def reads_decisions(chromium: Chromium, look: _Look) -> None:
    """Decisions of a running scheduler have bounds and proof; a pod's name there and on the map leads to its way."""
    with ControlPlane.start(kubelet=True) as plane, _scheduling(plane) as api:
        server = LiveServer("--kubeconfig", str(plane.kubeconfig), "--server", api)
        with server, visit(chromium, f"{server.address}#decisions", has_map=False) as seen:
            table = seen.page.get_by_role("table").first
            expect(table).to_contain_text("placed", timeout=60_000)
            expect(table.get_by_role("cell").first).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
            table.locator("summary").first.click()
            expect(table.locator("details[open] li").first).to_contain_text("(best)")
            look(seen, "decisions")
            seen.page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
            look(seen, "decisions-narrow")
            if not seen.fits():
                raise UnseenError("the decisions are wider than the window")
            seen.page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})
            seen.page.get_by_role("table").nth(1).get_by_role("link").first.click()
            expect(seen.page.get_by_role("heading", name="The way of pod")).to_be_visible()
            expect(seen.page.get_by_role("rowheader").first).to_be_visible()
            look(seen, "pod")
            seen.page.get_by_role("link", name="Map").click()
            seen.search("state:held")
            seen.page.get_by_role("tabpanel").get_by_role("button").first.click()
            seen.page.get_by_role("tabpanel").get_by_role("definition").get_by_role("link").first.click()
            expect(seen.page.get_by_role("heading", name="The way of pod")).to_be_visible()


@contextmanager
def _scheduling(plane: ControlPlane) -> Iterator[str]:
    """Have Dovetail schedule the examples while the block runs; give the address of its API."""
    with ThreadPoolExecutor(1) as thread:  # this one has an event loop of the browser's driver
        thread.submit(publish.publish_to, plane.kubeconfig, fleets.demo_fleet()).result()
    kubeconfig, api = dovetail.install(plane), f"127.0.0.1:{free_port()}"
    plane.kubectl("apply", "--server-side", "-f", str(REPOSITORY / "deploy" / "api" / "clusterrolebinding.yaml"))
    head = {"apiVersion": "config.dovetail.dev/v1alpha1", "kind": "DovetailConfiguration"}
    config = plane.folder / "config.yaml"
    config.write_text(json.dumps({**head, "api": {"bindAddress": api}}), encoding="utf-8")
    running = dovetail.Dovetail.start(kubeconfig, plane.folder / "dovetail.log", f"--config={config}")
    try:
        plane.kubectl("apply", "-f", "-", input="\n---\n".join(each.path.read_text() for each in read_examples()))
        yield f"http://{api}"
    finally:
        running.stop()


def _with_tokens(plane: ControlPlane) -> LiveServer:
    files = (f"--tls-{each}-file={plane.folder / f'serving.{end}'}" for each, end in (("cert", "crt"), ("key", "key")))
    return LiveServer("--kubeconfig", str(plane.kubeconfig), *files, scheme="https")


def _give_tokens(seen: Visit, plane: ControlPlane, look: _Look) -> None:
    """Give a wrong token, one without rights, and that of an administrator."""
    field, button = seen.page.get_by_label("Token"), seen.page.get_by_role("button", name="Show the cluster")
    expect(field).to_be_visible()
    look(seen, "token")
    field.fill("wrong")
    button.click()
    expect(seen.page.get_by_text("Refused: the token is not accepted")).to_be_visible()
    look(seen, "token-refused")
    field.fill(plane.access_for_service_account(*_ACCOUNT).token)
    field.press("Enter")
    expect(seen.page.get_by_text("cannot list resourceslices.resource.k8s.io").first).to_be_visible()
    look(seen, "token-forbidden")
    seen.page.get_by_role("button", name="Use another token").click()
    field.fill(plane.access_for_service_account(*_ACCOUNT).token)
    button.click()
    expect(seen.page.get_by_text("cannot list resourceslices.resource.k8s.io").first).to_be_visible()
    may = ("--clusterrole=cluster-admin", f"--serviceaccount={_ACCOUNT[0]}:{_ACCOUNT[1]}")
    plane.kubectl("create", "clusterrolebinding", "visitors", *may)
    expect(seen.map).to_be_visible(timeout=60_000)
    seen.page.reload()
    expect(seen.map).to_be_visible(timeout=60_000)


def _picture(seen: Visit, path: Path) -> Path:
    seen.page.screenshot(path=path)
    return path
