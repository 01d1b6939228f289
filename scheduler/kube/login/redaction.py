"""Texts from outside without the secrets that they may hold, for errors and logs."""

import re
from typing import Final

_OPAQUE: Final = re.compile(r"(?=\S*[0-9])[\w.~+/=%-]{20,}")
"""Tokens, keys and hashes: long words with a digit."""
_SCHEME: Final = re.compile(r"(?i)\b(bearer|basic)\s+\S+")
_NAMED: Final = re.compile(r"(?i)((?:token|secret|passw\w*|key|authorization)['\"]?\s*[=:]\s*)\S+")
_USER_INFO: Final = re.compile(r"//[^\s/]*@")
_MOST_READ: Final = 500
_LONGEST: Final = 200


def without_secrets(url: str) -> str:
    """Return a URL without name, password and query, however wrong it is; what is no port may be a password."""
    scheme, slashes, rest = url.partition("://") if "://" in url else ("", "", url)
    rest = re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)[0]  # a password may hold a slash
    host, slash, path = rest.partition("/")
    name, colon, port = host.rpartition(":")
    if colon and not port.isdecimal() and not host.endswith("]"):
        host = f"{name}:***"
    return f"{scheme}{slashes}{host}{slash}{path}"


def redacted(text: str) -> str:
    """Return the last line of what another program or a library said, cut, without what looks like a secret."""
    line = next(iter(reversed(text.strip().splitlines())), "")[:_MOST_READ]
    line = _USER_INFO.sub("//***@", line)
    line = _SCHEME.sub(r"\1 ***", line)
    line = _NAMED.sub(r"\1***", line)
    return _OPAQUE.sub("***", line)[:_LONGEST]
