"""Named formats (`k8s.io/apiserver/pkg/cel/library`: format): what a name, label, uuid or date looks like.

URLs, split as Go's net/url does (`k8s.io/apiserver/pkg/cel/library`: urls).
"""

import base64
import binascii
import re
from collections.abc import Callable
from datetime import date
from typing import Final
from urllib.parse import quote, unquote, unquote_to_bytes

from solver.cel.errors import EvaluationError, shortened
from solver.cel.library.overloads import Overload, function, method
from solver.cel.meter import Meter
from solver.cel.types import BOOL, FORMAT, STRING, URL, list_of, map_of, optional_of
from solver.cel.values import NONE, NamedFormat, Optional, Url, Value

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


def _charge(meter: Meter, text: str, cost: int = _URL_CHARACTER_COST) -> None:
    meter.charge_at_once(_URL_FIXED_COST + len(text) * (cost if text.isascii() else _WIDE_CHARACTER_COST), _TOO_LONG)


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
    return _is_uri(text)


def _is_uri(text: str) -> bool:
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


_URL_FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "url": (function((STRING,), URL, _parse, is_metered=True),),
    "isURL": (function((STRING,), BOOL, _is_url, is_metered=True),),
    "getScheme": (method((URL,), STRING, lambda url: url.scheme),),
    "getHost": (method((URL,), STRING, lambda url: url.host),),
    "getHostname": (method((URL,), STRING, _hostname, _part_cost),),
    "getPort": (method((URL,), STRING, _port, _part_cost),),
    "getEscapedPath": (method((URL,), STRING, lambda url: url.path),),
    "getQuery": (method((URL,), map_of(STRING, list_of(STRING)), _query, is_metered=True),),
}


_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL: Final = re.compile(_LABEL, re.ASCII)
_DNS_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)
_DNS_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", re.ASCII)
_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253
_FIXED_COST: Final = 20
_CHARACTER_COST: Final = 2


def _is_label(text: str) -> bool:
    return len(text) <= _LONGEST_LABEL and _DNS_LABEL.fullmatch(text) is not None


def _is_subdomain(text: str) -> bool:
    return len(text) <= _LONGEST_SUBDOMAIN and _DNS_SUBDOMAIN.fullmatch(text) is not None


def _is_1035_label(text: str) -> bool:
    return len(text) <= _LONGEST_LABEL and _DNS_1035.fullmatch(text) is not None


def _is_qualified_name(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    return (not slash or _is_subdomain(prefix)) and len(name) <= _LONGEST_LABEL and _NAME.fullmatch(name) is not None


def _is_label_value(text: str) -> bool:
    return not text or (len(text) <= _LONGEST_LABEL and _NAME.fullmatch(text) is not None)


def _as_prefix(is_valid: Callable[[str], bool]) -> Callable[[str], bool]:
    """A name that something is appended to may end in a dash."""
    return lambda text: is_valid(text[:-1] + "a" if len(text) > 1 and text.endswith("-") else text)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_date(text: str) -> bool:
    try:
        return _DATE.fullmatch(text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_datetime(text: str) -> bool:
    day, _, rest = text.lower().partition("t")
    match = _TIME.fullmatch(rest.partition("t")[0])
    return _is_date(day) and match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


_VALIDATORS: Final[dict[str, Callable[[str], bool]]] = {
    "dns1123Label": _is_label,
    "dns1123Subdomain": _is_subdomain,
    "dns1035Label": _is_1035_label,
    "qualifiedName": _is_qualified_name,
    "dns1123LabelPrefix": _as_prefix(_is_label),
    "dns1123SubdomainPrefix": _as_prefix(_is_subdomain),
    "dns1035LabelPrefix": _as_prefix(_is_1035_label),
    "labelValue": _is_label_value,
    "uri": _is_uri,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
    "byte": _is_base64,
    "date": _is_date,
    "datetime": _is_datetime,
}


def _validate(meter: Meter, named: NamedFormat, text: str) -> Optional:
    meter.charge_at_once(_FIXED_COST + _CHARACTER_COST * len(text), "validate a shorter text")
    if _VALIDATORS[named.name](text):
        return NONE
    return Optional([f"{shortened(text)!r} does not match the format {named.name}"])


def _named(name: str) -> Optional:
    return Optional(NamedFormat(name)) if name in _VALIDATORS else NONE


def _constant(name: str) -> Callable[[], Value]:
    named = NamedFormat(name)
    return lambda: named


_CALLS: Final[dict[str, tuple[Overload, ...]]] = {
    "validate": (method((FORMAT, STRING), optional_of(list_of(STRING)), _validate, is_metered=True),),
    "format.named": (function((STRING,), optional_of(FORMAT), _named),),
}
_CONSTANTS: Final[dict[str, tuple[Overload, ...]]] = {
    f"format.{name}": (function((), FORMAT, _constant(name)),) for name in _VALIDATORS
}
FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = _URL_FUNCTIONS | _CALLS | _CONSTANTS
