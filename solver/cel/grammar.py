"""
The parser: cel-python's grammar (`cel.lark`), additions of ours, and the LALR tables that follow from them.

Working the tables out takes 0.1 s, an eighth of a command's time. So `grammar.json` has them, with a key of all that
they follow from. With another key, as after an upgrade of Lark, they are worked out anew. `python -m
solver.cel.grammar` writes the file.
"""

import hashlib
import importlib.util
from pathlib import Path
from typing import Any, Final

import lark
import msgspec
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef
from lark.load_grammar import GrammarBuilder

TABLES: Final = Path(__file__).with_name("grammar.json")
TEXT: Final = r"""("([^"\n\r\\]|\\.)*"|'([^'\n\r\\]|\\.)*'|[rR]"[^"\n\r]*"|[rR]'[^'\n\r]*')"""
LONG_TEXT: Final = r'''("""([^\\]|\\.)*?"""|'{3}([^\\]|\\.)*?'{3}|[rR]"""(.|\n)*?"""|[rR]'{3}(.|\n)*?'{3})'''
_ADDITIONS: Final = r"""
%override unary : member | NOTS member -> not_chain | MINUSES member -> minus_chain

%extend member_dot : member "." QUOTED_IDENT | member "." "?" (IDENT | QUOTED_IDENT) -> member_optional_dot
%extend member_index : member "[" "?" expr "]" -> member_optional_index

%override list_lit : "[" "]" | "[" "," "]" | "[" _items "]" | "[" _items "," "]"
_items : item | _items "," item
item : expr | "?" expr -> optional_item

%override map_lit : "{" "}" | "{" "," "}" | "{" _entries "}" | "{" _entries "," "}"
_entries : entry | _entries "," entry
entry : expr ":" expr | "?" expr ":" expr -> optional_entry

QUOTED_IDENT : /`[a-zA-Z0-9_.\/ -]+`/
NOTS : /!([\t\n\f\r ]*!)*/
MINUSES : /-([\t\n\f\r ]*-)*/

%override INT_LIT.1 : /-?(0x[0-9a-fA-F]+|[0-9]+)/
%override UINT_LIT.3 : /(0x[0-9a-fA-F]+|[0-9]+)[uU]/
%override FLOAT_LIT.2 : /-?([0-9]+\.[0-9]+([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+([eE][+-]?[0-9]+)?)/
%override BOOL_LIT.3 : /(true|false)(?![_a-zA-Z0-9])/
%override NULL_LIT.3 : /null(?![_a-zA-Z0-9])/
%override STRING_LIT.1 : /TEXT/
%override MLSTRING_LIT.2 : /LONG_TEXT/
%override BYTES_LIT.3 : /[bB](LONG_TEXT|TEXT)/
""".replace("LONG_TEXT", LONG_TEXT.replace("/", "\\/")).replace("TEXT", TEXT)
_PASSED_THROUGH: Final = frozenset(
    {"expr", "conditionalor", "conditionaland", "relation", "addition", "multiplication", "unary", "member", "primary"}
)
"""Rules that are replaced by their child if they have only one; this saves most of the tree."""


class _Tables(msgspec.Struct):
    """The file: what `Lark.load` takes. JSON has no numbers as keys, so they are pairs."""

    key: str
    data: dict[str, Any]
    memo: list[tuple[int, Any]]
    tokens: list[tuple[int, str]]
    states: list[tuple[int, list[tuple[int, tuple[int, Any]]]]]


def parser() -> Lark:
    """Make the parser, from the stored tables where they are those of this grammar."""
    grammar = text()
    tables = msgspec.json.decode(TABLES.read_bytes(), type=_Tables)
    return _loaded(tables) if tables.key == _key_of(grammar) else built(grammar)


def stored() -> bytes:
    """Work the tables out, and return the file."""
    grammar = text()
    data, memo = built(grammar).memo_serialize([TerminalDef, Rule])
    table = data["parser"]["parser"]
    states = [(state, list(actions.items())) for state, actions in table.pop("states").items()]
    tokens = list(table.pop("tokens").items())
    file = _Tables(_key_of(grammar), data, list(memo.items()), tokens, states)
    return msgspec.json.encode(file) + b"\n"


def _key_of(grammar: str) -> str:
    """Return a digest of all that the tables follow from."""
    parts = (lark.__version__, grammar, _ADDITIONS, *sorted(_PASSED_THROUGH))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def text() -> str:
    """Return the text of the grammar file of cel-python."""
    found = importlib.util.find_spec("celpy")
    if found is None or not found.submodule_search_locations:
        raise ImportError("the package cel-python is not installed: its grammar is needed")
    return (Path(found.submodule_search_locations[0]) / "cel.lark").read_text("utf-8")


def built(grammar: str) -> Lark:
    """Work the tables of a grammar and our additions out."""
    builder = GrammarBuilder()
    builder.load_grammar(grammar, "cel")
    builder.load_grammar(_ADDITIONS, "additions")
    made = builder.build()
    for name, _, _, options in made.rule_defs:
        options.expand1 = name in _PASSED_THROUGH
    return Lark(made, start="expr", parser="lalr", propagate_positions=True, maybe_placeholders=False)


def _loaded(tables: _Tables) -> Lark:
    table = tables.data["parser"]["parser"]
    table["states"] = {state: dict(actions) for state, actions in tables.states}
    table["tokens"] = dict(tables.tokens)
    made: Any = {"data": tables.data, "memo": dict(tables.memo)}
    return Lark.load(made)


if __name__ == "__main__":
    TABLES.write_bytes(stored())
