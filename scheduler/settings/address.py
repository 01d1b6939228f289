"""Where to listen, from the text that people write."""

import re
from typing import Final, NamedTuple

_ADDRESS: Final = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<four>[^:\[\]\s/]*)):(?P<port>[0-9]{1,5})", re.ASCII
)
_LARGEST_PORT: Final = 65535


class Address(NamedTuple):
    """A host and a port; `host` None means every address of the machine, port 0 a free one."""

    host: str | None
    port: int

    def __str__(self) -> str:
        """Write it as it is read."""
        host = self.host or ""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read `host:port`, `:port` or `[ipv6]:port`; raise `ValueError` that says what to write."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > _LARGEST_PORT:
        raise ValueError(f"{text!r} is no address: write host:port, such as :8080, 127.0.0.1:8080 or [::1]:8080")
    return Address(match["six"] or match["four"] or None, int(match["port"]))
