"""IP addresses, networks and URLs (`k8s.io/apiserver/pkg/cel/library`: ip, cidr, urls)."""

import re
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface
from typing import Final
from urllib.parse import quote, unquote, unquote_to_bytes

from solver.cel.errors import EvaluationError
from solver.cel.library.overloads import Overload, function, method, succeeds
from solver.cel.meter import Meter
from solver.cel.types import BOOL, CIDR, INT, IP, STRING, URL, list_of, map_of
from solver.cel.values import Url, Value

Address = IPv4Address | IPv6Address
Network = IPv4Interface | IPv6Interface

_NETWORK: Final = re.compile(r"([^/%]+)/(0|[1-9][0-9]{0,2})", re.ASCII)
_LONGEST: Final = 64
_PARSING_COST: Final = 100
_NETWORK_COST: Final = 80  # of what the standard library works out anew each time
_BROADCAST: Final = IPv4Address("255.255.255.255")
_LINK_LOCAL_MULTICAST: Final = ip_interface("224.0.0.0/24").network


def _cost(*_: Value) -> int:
    return _PARSING_COST


def _network_cost(*_: Value) -> int:
    return _NETWORK_COST


def _parse_ip(text: str) -> Address:
    try:
        address = ip_address(text) if len(text) <= _LONGEST and "%" not in text else None
    except ValueError:
        address = None
    if address is None:
        raise EvaluationError("{!r} is not an IP address", text)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError("{!r} is an IPv4-mapped IPv6 address: write the IPv4 address", text)
    return address


def _parse_network(text: str) -> Network:
    match = _NETWORK.fullmatch(text) if len(text) <= _LONGEST else None
    try:
        network = ip_interface(text) if match is not None else None
    except ValueError:
        network = None
    if network is None:
        raise EvaluationError("{!r} is not a network: write it as 10.0.0.0/8", text)
    if isinstance(network, IPv6Interface) and network.ipv4_mapped is not None:
        raise EvaluationError("{!r} is an IPv4-mapped IPv6 network: write the IPv4 network", text)
    return network


def _is_link_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address in _LINK_LOCAL_MULTICAST
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02  # noqa: PLR2004 - ff02::/16, any flags


def _is_global_unicast(address: Address) -> bool:
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or address == _BROADCAST
    )


def _contains_ip(network: Network, address: Address) -> bool:
    return address.version == network.version and address in network.network


def _contains_network(network: Network, other: Network) -> bool:
    return (
        network.version == other.version
        and network.network.prefixlen <= other.network.prefixlen
        and network.network.overlaps(other.network)
    )


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):", re.ASCII)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")
_ASCII_ESCAPE: Final = re.compile(r"%(?!25)[0-7][0-9a-fA-F]")
_HOST: Final = re.compile(r"[^\x00-\x20#/?@\\^`{|}\x7f]*")
_USER: Final = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=%:@]*", re.ASCII)
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
_ENCODED_PATH: Final = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@\[\]%/]*", re.ASCII)
_URL_FIXED_COST: Final = 40
_URL_CHARACTER_COST: Final = 3
_WIDE_CHARACTER_COST: Final = 16  # as four escapes
_PAIR_COST: Final = 6  # per character: every second one can be a pair of its own
_TOO_LONG: Final = "take a shorter URL"


def _charge_url(meter: Meter, text: str, cost: int = _URL_CHARACTER_COST) -> None:
    meter.charge_at_once(_URL_FIXED_COST + len(text) * (cost if text.isascii() else _WIDE_CHARACTER_COST), _TOO_LONG)


def _part_cost(url: Url) -> int:
    return len(url.host) // 10 + 10


_PLAIN_IN_PATH: Final = "$&+,/:;=@-_.~"


def _parse_url(meter: Meter, text: str) -> Url:
    """Parse an absolute URL or path (`url(text)`)."""
    _charge_url(meter, text)
    _split_url(text)
    before, _, fragment = text.partition("#")
    if _BAD_ESCAPE.search(fragment):
        raise EvaluationError("{!r} is not a URL: its fragment has a bad escape", text)
    return _split_url(before)


def _split_url(text: str) -> Url:
    if _CONTROL.search(text) or not text:
        raise EvaluationError("{!r} is not a URL", text)
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match is not None else ""
    if text.startswith(":"):
        raise EvaluationError("{!r} is not a URL: its scheme is missing", text)
    rest, _, query = (text[match.end() :] if match is not None else text).partition("?")
    if not rest.startswith("/"):
        if not scheme and text != "*":
            raise EvaluationError("{!r} is not a URL: it is neither absolute nor a path from /", text)
        return Url(text, scheme, "", "*" if text == "*" else "", query)
    host = ""
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _host_of(authority, text), slash + path
    if _BAD_ESCAPE.search(rest):
        raise EvaluationError("{!r} is not a URL: its path has a bad escape", text)
    return Url(text, scheme, host, _escaped(rest), query)


def _host_of(authority: str, text: str) -> str:
    user, at, host = authority.rpartition("@")
    port = host[host.rfind("]") + 1 :] if host.startswith("[") else host[max(host.rfind(":"), 0) :] * (":" in host)
    if (
        (at and (not _USER.fullmatch(user) or _BAD_ESCAPE.search(user)))
        or not _HOST.fullmatch(host)
        or not _PORT.fullmatch(port)
        or _BAD_ESCAPE.search(host)
        or _ASCII_ESCAPE.search(host)
        or (host.startswith("[") and "]" not in host)
        or host.rfind("[") > 0
    ):
        raise EvaluationError("{!r} is not a URL: its host is malformed", text)
    return unquote(host)


def _escaped(path: str) -> str:
    return path if _ENCODED_PATH.fullmatch(path) else quote(unquote_to_bytes(path), safe=_PLAIN_IN_PATH)


def _is_url(meter: Meter, text: str) -> bool:
    _charge_url(meter, text)
    return is_uri(text)


is_uri: Final = succeeds(_split_url)
"""Whether a text is an absolute URL or path."""


def _hostname(url: Url) -> str:
    host = url.host.removesuffix(f":{_port(url)}") if ":" in url.host else url.host
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _port(url: Url) -> str:
    host, colon, port = url.host.rpartition(":")
    is_port = colon and port.isdigit() and (not host.startswith("[") or host.endswith("]"))
    return port if is_port or not port else ""


def _query(meter: Meter, url: Url) -> dict[str, list[str]]:
    _charge_url(meter, url.query, _PAIR_COST)
    found: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        if not pair or ";" in pair:
            continue
        key, _, value = pair.partition("=")
        if not _BAD_ESCAPE.search(key) and not _BAD_ESCAPE.search(value):
            found.setdefault(unquote(key.replace("+", " ")), []).append(unquote(value.replace("+", " ")))
    return found


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "ip": (function((STRING,), IP, _parse_ip, _cost), method((CIDR,), IP, lambda network: network.ip)),
    "isIP": (function((STRING,), BOOL, succeeds(_parse_ip), _cost),),
    "ip.isCanonical": (function((STRING,), BOOL, lambda text: str(_parse_ip(text)) == text, _cost),),
    "family": (method((IP,), INT, lambda address: address.version),),
    "isUnspecified": (method((IP,), BOOL, lambda address: address.is_unspecified, _network_cost),),
    "isLoopback": (method((IP,), BOOL, lambda address: address.is_loopback, _network_cost),),
    "isLinkLocalMulticast": (method((IP,), BOOL, _is_link_local_multicast, _network_cost),),
    "isLinkLocalUnicast": (method((IP,), BOOL, lambda address: address.is_link_local, _network_cost),),
    "isGlobalUnicast": (method((IP,), BOOL, _is_global_unicast, _network_cost),),
    "cidr": (function((STRING,), CIDR, _parse_network, _cost),),
    "isCIDR": (function((STRING,), BOOL, succeeds(_parse_network), _cost),),
    "containsIP": (
        method((CIDR, STRING), BOOL, lambda network, text: _contains_ip(network, _parse_ip(text)), _cost),
        method((CIDR, IP), BOOL, _contains_ip, _network_cost),
    ),
    "containsCIDR": (
        method((CIDR, STRING), BOOL, lambda network, text: _contains_network(network, _parse_network(text)), _cost),
        method((CIDR, CIDR), BOOL, _contains_network, _network_cost),
    ),
    "prefixLength": (method((CIDR,), INT, lambda network: network.network.prefixlen, _network_cost),),
    "masked": (method((CIDR,), CIDR, lambda network: ip_interface(network.network), _cost),),
    "url": (function((STRING,), URL, _parse_url, is_metered=True),),
    "isURL": (function((STRING,), BOOL, _is_url, is_metered=True),),
    "getScheme": (method((URL,), STRING, lambda url: url.scheme),),
    "getHost": (method((URL,), STRING, lambda url: url.host),),
    "getHostname": (method((URL,), STRING, _hostname, _part_cost),),
    "getPort": (method((URL,), STRING, _port, _part_cost),),
    "getEscapedPath": (method((URL,), STRING, lambda url: url.path),),
    "getQuery": (method((URL,), map_of(STRING, list_of(STRING)), _query, is_metered=True),),
}
