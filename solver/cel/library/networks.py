"""IP addresses and networks (`k8s.io/apiserver/pkg/cel/library`: ip, cidr)."""

import re
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface
from typing import Final

from solver.cel.errors import EvaluationError
from solver.cel.library.overloads import Overload, function, method
from solver.cel.types import BOOL, CIDR, INT, IP, STRING
from solver.cel.values import Value

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
        raise EvaluationError("{!r} is no IP address", text)
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
        raise EvaluationError("{!r} is no network: write it as 10.0.0.0/8", text)
    if isinstance(network, IPv6Interface) and network.ipv4_mapped is not None:
        raise EvaluationError("{!r} is an IPv4-mapped IPv6 network: write the IPv4 network", text)
    return network


def _is_ip(text: str) -> bool:
    try:
        _parse_ip(text)
    except EvaluationError:
        return False
    return True


def _is_network(text: str) -> bool:
    try:
        _parse_network(text)
    except EvaluationError:
        return False
    return True


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


def _masked(network: Network) -> Network:
    return ip_interface(network.network)


def _address_of(network: Network) -> Address:
    return network.ip


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "ip": (function((STRING,), IP, _parse_ip, _cost), method((CIDR,), IP, _address_of)),
    "isIP": (function((STRING,), BOOL, _is_ip, _cost),),
    "ip.isCanonical": (function((STRING,), BOOL, lambda text: str(_parse_ip(text)) == text, _cost),),
    "family": (method((IP,), INT, lambda address: address.version),),
    "isUnspecified": (method((IP,), BOOL, lambda address: address.is_unspecified, _network_cost),),
    "isLoopback": (method((IP,), BOOL, lambda address: address.is_loopback, _network_cost),),
    "isLinkLocalMulticast": (method((IP,), BOOL, _is_link_local_multicast, _network_cost),),
    "isLinkLocalUnicast": (method((IP,), BOOL, lambda address: address.is_link_local, _network_cost),),
    "isGlobalUnicast": (method((IP,), BOOL, _is_global_unicast, _network_cost),),
    "cidr": (function((STRING,), CIDR, _parse_network, _cost),),
    "isCIDR": (function((STRING,), BOOL, _is_network, _cost),),
    "containsIP": (
        method((CIDR, STRING), BOOL, lambda network, text: _contains_ip(network, _parse_ip(text)), _cost),
        method((CIDR, IP), BOOL, _contains_ip, _network_cost),
    ),
    "containsCIDR": (
        method((CIDR, STRING), BOOL, lambda network, text: _contains_network(network, _parse_network(text)), _cost),
        method((CIDR, CIDR), BOOL, _contains_network, _network_cost),
    ),
    "prefixLength": (method((CIDR,), INT, lambda network: network.network.prefixlen, _network_cost),),
    "masked": (method((CIDR,), CIDR, _masked, _cost),),
}
