"""What Dovetail writes on a disk holds data of all namespaces: only the owner can read it, or a reason stands here."""

import ast
from collections.abc import Iterator

import pytest

from tests.support import house

PUBLIC = {
    ("scheduler/private_file.py", "path.write_bytes(content)"): "devices and pipes, which have rights of their own",
    ("scheduler/worker/child.py", "Path('/proc/self/oom_score_adj').write_text('1000', encoding='ascii')"): "a setting",
    ("scheduler/__main__.py", "os.open(os.devnull, os.O_WRONLY)"): "nothing is kept",
    ("solver/cel/grammar.py", "TABLES.write_bytes(stored())"): "tables of the grammar, a file of the repository",
}
"""Calls that write without a private mode."""
WRITERS = {"write_text", "write_bytes", "touch", "copy", "copy2", "copyfile", "copytree", "mkfifo", "mknod"}
"""Methods and functions that make a file or write into one, of `pathlib`, `shutil` and `os`."""
FOLDERS = {"mkdir", "makedirs"}
MODULES = {"shutil", "os"}
"""`copy` of anything else is no file's."""
PRIVATE = {"0o600", "MODE", "private_file.MODE"}


def _written(source: ast.AST) -> Iterator[ast.Call]:
    """Give every call that may make a file or a folder that others can read."""
    for call in ast.walk(source):
        if isinstance(call, ast.Call) and _is_open_to_others(call):
            yield call


def _is_open_to_others(call: ast.Call) -> bool:
    owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in FOLDERS:
        return _value(call, 1 if owner == "os" else 0, "mode") != "0o700"
    if owner == "os" and name == "open":
        return _value(call, 1, "flags") != "os.O_RDONLY" and not PRIVATE & {_value(call, 2, "mode")}
    if name == "open":
        at = 1 if owner in {"", "io", "builtins", "gzip", "lzma"} else 0
        mode = _value(call, at, "mode").strip("'\"") or "r"
        return bool(set("wax+") & set(mode))
    if name.startswith("copy"):
        return owner in MODULES
    return name in WRITERS and _value(call, 0, "mode") != "0o600"


def _value(call: ast.Call, at: int, keyword: str) -> str:
    given = [each.value for each in call.keywords if each.arg == keyword]
    given += call.args[at : at + 1]
    if not given:
        return ""
    value = given[0]
    return oct(value.value) if isinstance(value, ast.Constant) and type(value.value) is int else ast.unparse(value)


def test_every_written_file_is_private_or_has_a_reason() -> None:
    found = {
        (module.path, ast.unparse(call)) for module in house.modules(*house.HALVES) for call in _written(module.tree)
    }
    assert sorted(found - PUBLIC.keys()) == [], (
        "write with scheduler.private_file, or say in PUBLIC why all may read it"
    )
    assert sorted(PUBLIC.keys() - found) == []


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("path.open('ab+')", True),
        ("open(path, mode='w')", True),
        ("open(path)", False),
        ("path.open('rb')", False),
        ("gzip.open(path, 'wb')", True),
        ("path.write_text(text)", True),
        ("path.touch()", True),
        ("path.touch(mode=0o600)", False),
        ("path.mkdir(parents=True)", True),
        ("path.mkdir(mode=0o700)", False),
        ("os.makedirs(path)", True),
        ("os.open(path, os.O_WRONLY | os.O_CREAT)", True),
        ("os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)", True),
        ("os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)", False),
        ("os.open(path, os.O_RDONLY)", False),
        ("os.fdopen(file, 'wb')", False),  # its descriptor is judged where it is made
        ("shutil.copyfile(a, b)", True),
        ("counts.copy()", False),
        ("counts.open()", False),
    ],
)
def test_a_call_that_writes_is_found(line: str, is_found: bool) -> None:  # noqa: FBT001 - a column of the table
    assert bool(list(_written(ast.parse(line)))) == is_found
