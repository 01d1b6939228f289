"""Which commands read what: options of a source come whole, and where one is missing the error names who has it."""

import pytest

from scheduler.cli.main import COMMANDS, _parser_for
from tests.support import manifests as m

ACCESS = frozenset({"--kubeconfig", "--context"})
CONFIGURED = ACCESS | {"--config", "--dovetail-namespace"}
SCHEDULER = frozenset({"--server", "--service", "--certificate-authority", "--service-account"})
EVERY = CONFIGURED | SCHEDULER

SOURCES = {
    # No cluster: files, or the program itself.
    **dict.fromkeys(("completion", "config", "replay", "report"), frozenset()),
    # Objects of the API server alone, of which no answer depends on the scheduler's configuration.
    "expect": ACCESS,
    # And the Lease, which says who leads outside of the cluster.
    "version": ACCESS | {"--dovetail-namespace"},
    # It observes another scheduler, by a configuration that may be no running Dovetail's.
    "observe": ACCESS | {"--config"},
    # Objects, by the configuration of the running scheduler; they solve themselves, or need no answer of it.
    **dict.fromkeys(
        ("check", "explain", "fit", "map", "pause", "quota", "repair", "resume", "simulate", "status"), CONFIGURED
    ),
    # The running scheduler alone knows it.
    **dict.fromkeys(("history", "usage"), ACCESS | SCHEDULER),
    # The API server, or the running scheduler, which knows more and answers sooner.
    **dict.fromkeys(("devices", "free", "page", "queue"), CONFIGURED | SCHEDULER),
    # It runs in the cluster, or by the file that it is given.
    "run": frozenset({"--kubeconfig", "--config"}),
}


def options(command: str) -> frozenset[str]:
    parser = _parser_for(command, "dovetail").command
    assert parser is not None
    return frozenset(parser.option_names())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_all_options_of_its_source_and_no_others(command: str) -> None:
    assert options(command) & EVERY == SOURCES[command]


@pytest.mark.parametrize("option", sorted(EVERY))
@pytest.mark.parametrize("command", ["history", "quota", "version"])
def test_an_option_of_other_commands_names_them(command: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    if option in SOURCES[command]:
        assert option in options(command)
        return
    assert m.run(command, option, "x") == 2
    error = capsys.readouterr().err
    having = [each for each in COMMANDS if option in SOURCES[each]]
    assert f"{', '.join(having[:-1])} and {having[-1]} have {option}" in error
    assert ("for a running scheduler, which answers no other question" in error) == (option in SCHEDULER)
