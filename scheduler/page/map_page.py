"""The page of a map: one HTML file with the document in it, or without one, to be served."""

from typing import Final

import msgspec

from scheduler.page.fleet_map import KIND, FleetMap
from scheduler.page.html_file import front_end, html_file, packed
from scheduler.simulation.printing import API_VERSION

_NAME: Final = "map"
_TITLE: Final = "Fleet map"
_ICON: Final = '\n<link rel="icon" href="data:,">'
"""Without one browsers ask the server for it."""
_CONTENT: Final = """\
<div id="page"><noscript>This map needs JavaScript, which runs from this file alone.</noscript></div>
<script type="application/gzip" id="document">{document}</script>"""


def encoded(found: FleetMap) -> bytes:
    """Encode a map as one JSON object with its apiVersion and kind."""
    own = msgspec.json.decode(msgspec.json.encode(found), type=dict[str, msgspec.Raw])
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, **own})


def page(document: bytes) -> str:
    """Return the page of an encoded map. The same document gives the same page."""
    return html_file(_TITLE, _CONTENT.format(document=packed(document).decode()), front_end(_NAME))


def served() -> tuple[str, str]:
    """Return the page without a map, which asks its own server for one, and the policy for its header."""
    front = front_end(_NAME)
    policy = f"{front.policy}; connect-src 'self'"
    text = html_file(_TITLE, _CONTENT.format(document=""), front, policy=policy, more=_ICON)
    return text, f"{policy}; frame-ancestors 'none'"  # only a header may have the latter
