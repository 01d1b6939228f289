"""URLs, split as Go's net/url does (`k8s.io/apiserver/pkg/cel/library`: urls)."""

import re
from typing import Final
from urllib.parse import quote, unquote, unquote_to_bytes

from solver.feasibility.cel.errors import EvaluationError
from solver.feasibility.cel.library.overloads import Overload, function, method
from solver.feasibility.cel.meter import Meter
from solver.feasibility.cel.types import BOOL, STRING, URL, list_of, map_of
from solver.feasibility.cel.values import Url

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):", re.ASCII)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")
_ASCII_ESCAPE: Final = re.compile(r"%(?!25)[0-7][0-9a-fA-F]")
_HOST: Final = re.compile(r"[^\x00-\x20#/?@\\^`{|}\x7f]*")
_USER: Final = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=%:@]*", re.ASCII)
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
_ENCODED_PATH: Final = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@\[\]%/]*", re.ASCII)
_FIXED_COST: Final = 40
_CHARACTER_COST: Final = 3
_WIDE_CHARACTER_COST: Final = 16  # as four escapes
_PAIR_COST: Final = 6  # per character: every second one can be a pair of its own
_TOO_LONG: Final = "take a shorter URL"


def _charge(meter: Meter, text: str, cost: int = _CHARACTER_COST) -> None:
    meter.charge_at_once(_FIXED_COST + len(text) * (cost if text.isascii() else _WIDE_CHARACTER_COST), _TOO_LONG)


def _part_cost(url: Url) -> int:
    return len(url.host) // 10 + 10


_PLAIN_IN_PATH: Final = "$&+,/:;=@-_.~"


def _parse(meter: Meter, text: str) -> Url:
    """Parse an absolute URL or path (`url(text)`)."""
    _charge(meter, text)
    _split(text)
    before, _, fragment = text.partition("#")
    if _BAD_ESCAPE.search(fragment):
        raise EvaluationError("{!r} is no URL: its fragment has a bad escape", text)
    return _split(before)


def _split(text: str) -> Url:
    if _CONTROL.search(text) or not text:
        raise EvaluationError("{!r} is no URL", text)
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match is not None else ""
    if text.startswith(":"):
        raise EvaluationError("{!r} is no URL: its scheme is missing", text)
    rest, _, query = (text[match.end() :] if match is not None else text).partition("?")
    if not rest.startswith("/"):
        if not scheme and text != "*":
            raise EvaluationError("{!r} is no URL: it is neither absolute nor a path from /", text)
        return Url(text, scheme, "", "*" if text == "*" else "", query)
    host = ""
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _host(authority, text), slash + path
    if _BAD_ESCAPE.search(rest):
        raise EvaluationError("{!r} is no URL: its path has a bad escape", text)
    return Url(text, scheme, host, _escaped(rest), query)


def _host(authority: str, text: str) -> str:
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
        raise EvaluationError("{!r} is no URL: its host is malformed", text)
    return unquote(host)


def _escaped(path: str) -> str:
    return path if _ENCODED_PATH.fullmatch(path) else quote(unquote_to_bytes(path), safe=_PLAIN_IN_PATH)


def _is_url(meter: Meter, text: str) -> bool:
    _charge(meter, text)
    return is_uri(text)


def is_uri(text: str) -> bool:
    """Whether a text is an absolute URL or path."""
    try:
        _split(text)
    except EvaluationError:
        return False
    return True


def _hostname(url: Url) -> str:
    host = url.host.removesuffix(f":{_port(url)}") if ":" in url.host else url.host
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _port(url: Url) -> str:
    host, colon, port = url.host.rpartition(":")
    is_port = colon and port.isdigit() and (not host.startswith("[") or host.endswith("]"))
    return port if is_port or not port else ""


def _query(meter: Meter, url: Url) -> dict[str, list[str]]:
    _charge(meter, url.query, _PAIR_COST)
    found: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        if not pair or ";" in pair:
            continue
        key, _, value = pair.partition("=")
        if not _BAD_ESCAPE.search(key) and not _BAD_ESCAPE.search(value):
            found.setdefault(unquote(key.replace("+", " ")), []).append(unquote(value.replace("+", " ")))
    return found


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "url": (function((STRING,), URL, _parse, is_metered=True),),
    "isURL": (function((STRING,), BOOL, _is_url, is_metered=True),),
    "getScheme": (method((URL,), STRING, lambda url: url.scheme),),
    "getHost": (method((URL,), STRING, lambda url: url.host),),
    "getHostname": (method((URL,), STRING, _hostname, _part_cost),),
    "getPort": (method((URL,), STRING, _port, _part_cost),),
    "getEscapedPath": (method((URL,), STRING, lambda url: url.path),),
    "getQuery": (method((URL,), map_of(STRING, list_of(STRING)), _query, is_metered=True),),
}
