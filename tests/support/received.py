"""What a `ListWatch` receives from an answer that is taken at once."""

from scheduler.kube.decode.pieces import at_once
from scheduler.kube.watching.list_watch import ListWatch, Received


def take_page(mirrored: ListWatch, body: bytes) -> Received:
    """Take a page."""
    received = Received()
    at_once(mirrored.receive_page(body, received))
    return received


def take_lines(mirrored: ListWatch, lines: list[bytes], received: Received | None = None) -> Received:
    """Take lines of a watch, adding to what was received before; an error leaves there what came before it."""
    received = received or Received()
    at_once(mirrored.receive_lines(lines, received))
    return received
