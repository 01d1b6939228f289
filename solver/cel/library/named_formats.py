"""Named formats (`k8s.io/apiserver/pkg/cel/library`: format): DNS labels, qualified names, uuids, dates and others."""

import base64
import binascii
import re
from collections.abc import Callable
from datetime import date
from typing import Final

from solver.cel.errors import shortened
from solver.cel.library.networks import is_uri
from solver.cel.library.overloads import Overload, function, method
from solver.cel.meter import Meter
from solver.cel.types import FORMAT, STRING, list_of, optional_of
from solver.cel.values import NONE, NamedFormat, Optional, Value

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
    "uri": is_uri,
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
FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = _CALLS | _CONSTANTS
