import sys

import pytest

from scheduler.worker.fork_server import ForkServers

ENDS_WITH_US = (sys.executable, "-c", "import socket, sys; socket.socket(fileno=int(sys.argv[1])).recv(1)")


def test_the_first_server_is_the_one_that_was_launched_ahead() -> None:
    servers = ForkServers(512, ENDS_WITH_US)
    servers.launch_ahead()
    ahead = servers._ahead  # noqa: SLF001 - is it the one that is taken
    first, second = servers.take(), servers.take()
    assert first is ahead
    assert second is not first
    servers.close()
    for each in (first, second):
        assert each.process.poll() is None
        each.control.close()
        assert each.process.wait(60) == 0


def test_a_server_that_is_not_needed_is_ended() -> None:
    servers = ForkServers(512, ENDS_WITH_US)
    servers.launch_ahead()
    ahead = servers._ahead  # noqa: SLF001 - does it end
    servers.close()
    assert ahead is not None
    assert ahead.process.returncode is not None


def test_a_server_that_cannot_be_launched_ahead_raises_when_it_is_taken() -> None:
    servers = ForkServers(512, ("/nonexistent/command",))
    servers.launch_ahead()
    with pytest.raises(FileNotFoundError):
        servers.take()
