"""One HTML file: its content, its front end, and a policy that lets nothing else run or load."""

import base64
import gzip
import hashlib
from html import escape
from importlib import resources
from typing import Final, NamedTuple

_BUNDLE: Final = resources.files("scheduler.page") / "bundle"
_LEVEL: Final = 6
_FILE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="dovetail">
<title>{title}</title>{more}
<style>{style}</style>
</head>
<body>
{content}
<script>{script}</script>
</body>
</html>
"""


class FrontEnd(NamedTuple):
    """A script and a style of the bundle."""

    script: str
    style: str

    @property
    def policy(self) -> str:
        """Allow this script and this style, and nothing from elsewhere (Content Security Policy Level 3)."""
        return (
            f"default-src 'none'; script-src {_hash(self.script)}; style-src {_hash(self.style)}; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        )


def front_end(name: str) -> FrontEnd:
    """Read a front end from the bundle."""
    script, style = ((_BUNDLE / f"{name}.{end}").read_text(encoding="utf-8").strip() for end in ("js", "css"))
    return FrontEnd(script, style)


def html_file(title: str, content: str, front: FrontEnd, *, policy: str = "", more: str = "") -> str:
    """Return the file. `content` and `more`, which ends the head, are markup; `policy` replaces the front end's."""
    return _FILE.format(
        policy=policy or front.policy,
        title=escape(title),
        more=more,
        style=front.style,
        content=content,
        script=front.script,
    )


def packed(content: bytes) -> bytes:
    """Pack a document for a front end, which unpacks it: gzip in base64. The same content gives the same bytes."""
    return base64.b64encode(gzip.compress(content, _LEVEL, mtime=0))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
