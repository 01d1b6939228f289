"""The measures of the house rules measure what they say: each on a small text."""

import ast

import pytest

from tests.support import house


def _function(text: str) -> house.Function:
    return next(house.functions(ast.parse(text)))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("def f():\n    return 1\n", 2, id="plain"),
        pytest.param('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n', 2, id="without its docstring"),
        pytest.param("async def f(\n    a,\n):\n    return a\n", 4, id="with its arguments"),
    ],
)
def test_length(text: str, lines: int) -> None:
    assert house.length(_function(text)) == lines


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        pytest.param("def f():\n    return 1\n", 0, id="none"),
        pytest.param("def f():\n    for a in b:\n        if a:\n            return 1\n", 2, id="two"),
        pytest.param(
            "def f():\n    if a:\n        pass\n    elif b:\n        pass\n    else:\n        pass\n", 1, id="elif"
        ),
        pytest.param(
            "def f():\n    if a:\n        pass\n    else:\n        if b:\n            c\n        d\n", 2, id="else if"
        ),
        pytest.param(
            "def f():\n    try:\n        pass\n    except E:\n        if a:\n            pass\n", 2, id="except"
        ),
        pytest.param(
            "def f():\n    match a:\n        case 1:\n            with b:\n                pass\n", 2, id="match"
        ),
        pytest.param("def f():\n    if a:\n        def g():\n            if b:\n                pass\n", 1, id="inner"),
        pytest.param("def f():\n    return [a for b in c for a in b if a]\n", 0, id="comprehension"),
    ],
)
def test_nesting(text: str, depth: int) -> None:
    assert house.nesting(_function(text)) == depth
