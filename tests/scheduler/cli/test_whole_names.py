"""Names that a user copies into the next command are whole on a terminal of 80 columns, whatever prints them."""

import io
import json
import re
import sys
from pathlib import Path

import pytest
from rich.text import Text

from scheduler.simulation import printing
from tests.scheduler.cli.test_explain_command import save
from tests.scheduler.cli.test_quota_command import quota
from tests.scheduler.cli.test_repair_plan import runs
from tests.scheduler.cli.test_simulated_preemption import CONFIG
from tests.support import builders as b
from tests.support import manifests as m

WIDTH = 80
QUOTA = quota("all", team="red", limit=1)
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "red"}}}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def long(name: str, length: int) -> str:
    """A name of so many characters that ends as it begins: what is cut away at either end is missed."""
    return f"{name}-{'x' * (length - 2 * len(name) - 2)}-{name}"


class Names(dict[str, str]):
    """Short names and long ones; the objects that are made have the short ones."""

    def write(self, path: Path, *objects: m.Manifest) -> Path:
        """Write objects with the long names."""
        text = json.dumps(objects)
        for short, name in self.items():
            text = text.replace(f'"{short}"', f'"{name}"').replace(f'"{short}-gpu"', f'"{name}-gpu"')
        return m.write_json(path, json.loads(text))


CLUSTER = [
    *(m.device_class(), m.template(), m.template("two", count=2), NAMESPACE),
    *(each for number in (1, 2) for each in (m.node(f"node{number}"), m.slice_of(f"node{number}"))),
    *(each for number in (1, 2) for each in runs(f"small{number}", f"node{number}", "gpu-0")),
]
ONE, TWO = m.pod("new", template_name="t"), m.pod("large", template_name="two", priority=9)
QUESTIONS = {
    "fit": ((ONE,), ("new", "node"), ()),
    "fit after a move": ((TWO,), ("large", "small", "node1", "node2"), ()),
    "fit after an eviction": ((TWO,), ("large", "small", "node"), ("--config", "CONFIG")),
    "fit with a quota": ((QUOTA, ONE), ("new",), ()),
    "fit --add-nodes": ((TWO, ONE), ("large", "new", "node"), ("--add-nodes",)),
    "simulate": ((ONE, TWO), ("large", "new"), ()),
    "repair plan": ((TWO,), ("small", "node1", "node2"), ()),
    "devices": ((), ("small1", "small2", "node1", "node2"), ()),
    "free": ((), ("node",), ("--by", "node")),
    "quota": ((QUOTA, ONE), ("all",), ()),
}


@pytest.mark.parametrize("length", [20, 45, 57])
@pytest.mark.parametrize("question", QUESTIONS)
def test_names_are_whole(question: str, length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line is wider than the terminal only where it has nothing but such a name."""
    shorts = ("node1", "node2", "small1", "small2", "new", "large", "all")
    names = Names({each: long(each, length) for each in shorts})
    objects, copied, options = QUESTIONS[question]
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    words = [str(config) if each == "CONFIG" else each for each in options]
    if question.startswith("fit"):
        cluster = names.write(tmp_path / "cluster.json", *CLUSTER, *(each for each in objects if each is QUOTA))
        pods = names.write(tmp_path / "pods.json", *(each for each in objects if each is not QUOTA))
        words = ["fit", "-f", str(pods), "--cluster", str(cluster), *words]
    else:
        every = names.write(tmp_path / "every.json", *CLUSTER, *objects)
        wanted = ("--for", "pod", names["large"]) if question == "repair plan" else ()
        words = [*question.split(), *wanted, "-f", str(every), *words]
    to = Terminal()
    for key, value in {"COLUMNS": str(WIDTH), "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(sys, "stdout", to)
    assert m.run(*words) in {0, 1}

    text = re.sub(r"\x1b\[\d*m", "", to.getvalue())
    shown = [name for short, name in names.items() if short.startswith(copied)]
    assert any(name in text for name in shown), text
    for short in copied:
        if short in names:
            assert names[short] in text, text
    whole = text
    for name in names.values():
        whole = whole.replace(name, "")
    assert "-xxx" not in whole, "a name that is cut or folded"
    wide = [line for line in text.splitlines() if len(line) > WIDTH]
    assert all(max(map(len, line.split())) > WIDTH - 8 for line in wide), wide


def test_without_room_for_a_name_it_has_a_line_of_its_own() -> None:
    to = io.StringIO()
    console, name = printing.console(to, width=40), "p" * 63
    printing.show_table(
        console, ("POD", "NODE", "WHY"), [tuple(map(Text, (name, "n1", "it waits, as others do, for long")))]
    )
    assert to.getvalue().splitlines() == [
        "",
        "POD   NODE",
        "    WHY",
        name,
        "n1",
        "    it waits, as others do, for long",
        "",
    ]


@pytest.mark.parametrize(
    ("width", "length", "tables"), [(80, 16, "one"), (80, 17, "each"), (100, 36, "one"), (100, 37, "each")]
)
def test_explain_names_requests_whole(
    width: int, length: int, tables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = long("gpus", length)
    objects = (b.node("n1"), b.gpu_slice("n1", count=2), b.gpu_class(), b.claim("c", b.request(name, count=3)))
    asked = save(tmp_path / "case.json", *objects, pods=(b.pod("p", "c"),))
    to = Terminal()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "stdout", to)
    assert m.run("explain", "p", "--snapshot", asked) == 1
    text = re.sub(r"\x1b\[\d*m", "", to.getvalue())
    (heads,) = (line for line in text.splitlines() if "NEEDS" in line)
    assert ("REQUEST" in heads) == (tables == "one")
    assert max(map(len, text.splitlines())) <= width
    assert "-xxx" not in text.replace(name, "")
