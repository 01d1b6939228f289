"""`make measure ARGS=added-nodes`: a small run for real."""

import pytest

from e2e import measure


def test_each_seed_has_a_line_with_price_and_bound(capsys: pytest.CaptureFixture[str]) -> None:
    assert measure.main(["added-nodes", "--seeds", "2", "--first", "3", "--nodes", "6", "--gangs", "4"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["seed", "CPU", "s", "pods", "nodes", "price", "at", "least"]
    assert [each.split()[0] for each in rows] == ["3", "4"]
    for _, _, pods, nodes, price, least in map(str.split, rows):
        assert int(pods) > 0
        assert int(nodes) > 0
        assert 0 < int(least) <= int(price)
    assert max(map(len, (head, *rows))) <= 80
