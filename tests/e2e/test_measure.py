"""`make measure`: each tool is there, and its options reach it."""

import importlib

import pytest

from e2e import measure


@pytest.mark.parametrize("name", measure.TOOLS)
def test_a_tool_gets_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        measure.main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: measure {name} ")


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_without_a_tool_all_are_listed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert measure.main(arguments) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown and tool.about in shown for name, tool in measure.TOOLS.items())


def test_another_word_is_refused_with_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert measure.main(["latencies"]) == 2
    assert "'latencies' is no tool: write one of compare, latency" in capsys.readouterr().err


def test_the_status_of_the_tool_is_that_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(measure.TOOLS["takeover"].module)
    monkeypatch.setattr(module, "main", len)
    assert measure.main(["takeover", "--turns", "2"]) == 2
