"""One HTML file with a map in it: the document, the front end, and a policy that lets nothing else run or load."""

import base64
import gzip
import hashlib
from importlib import resources
from typing import Final

import msgspec

from scheduler.page.fleet_map import KIND, FleetMap
from scheduler.simulation.printing import API_VERSION

BUNDLE: Final = resources.files("scheduler.page") / "bundle"
SCRIPT: Final = "map.js"
STYLE: Final = "map.css"
_LEVEL: Final = 6
_ICON: Final = '<link rel="icon" href="data:,">'
"""Without one browsers ask the server for it."""

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="dovetail">
<title>Fleet map</title>{more}
<style>{style}</style>
</head>
<body>
<div id="page"><noscript>This map needs JavaScript, which runs from this file alone.</noscript></div>
<script type="application/gzip" id="document">{document}</script>
<script>{script}</script>
</body>
</html>
"""


def encoded(found: FleetMap) -> bytes:
    """Encode a map as one JSON object with its apiVersion and kind."""
    own = msgspec.json.decode(msgspec.json.encode(found), type=dict[str, msgspec.Raw])
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, **own})


def page(document: bytes) -> str:
    """Return the page of an encoded map. The same document gives the same page."""
    packed = base64.b64encode(gzip.compress(document, _LEVEL, mtime=0)).decode()
    script, style = _front()
    return _PAGE.format(policy=_policy(script, style), style=style, document=packed, script=script, more="")


def served() -> tuple[str, str]:
    """Return the page without a map, which asks its own server for one, and the policy for its header."""
    script, style = _front()
    policy = f"{_policy(script, style)}; connect-src 'self'"
    text = _PAGE.format(policy=policy, style=style, document="", script=script, more=_ICON)
    return text, f"{policy}; frame-ancestors 'none'"  # only a header may have the latter


def _front() -> tuple[str, str]:
    script, style = ((BUNDLE / name).read_text(encoding="utf-8").strip() for name in (SCRIPT, STYLE))
    return script, style


def _policy(script: str, style: str) -> str:
    """Allow this script and this style, and nothing from elsewhere (Content Security Policy Level 3)."""
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
