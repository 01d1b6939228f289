"""Entries in use stay, and the bytes are bounded."""

from hypothesis import given
from hypothesis import strategies as st

from solver.cel.cache import GenerationalCache


def _cache(most_bytes: int) -> GenerationalCache[str, str]:
    return GenerationalCache(most_bytes, lambda key, value: len(key) + len(value))


@given(st.lists(st.tuples(st.text(max_size=12), st.text(max_size=60))))
def test_it_never_holds_more_than_its_bytes_and_never_gives_a_wrong_value(pairs: list[tuple[str, str]]) -> None:
    cache = _cache(100)
    last: dict[str, str] = {}
    for key, value in pairs:
        if cache.get(key) is None:
            cache.put(key, value)
            last[key] = value
        assert cache.get(key) in {None, last[key]}
        assert 0 <= cache.bytes <= 100


def test_a_flood_of_new_keys_does_not_push_out_what_is_in_use() -> None:
    cache = _cache(1000)
    cache.put("class", "in use")
    for at in range(10_000):
        cache.put(f"flood {at}", "x")
        if at % 10 == 0:
            assert cache.get("class") == "in use"


def test_what_is_not_asked_for_goes() -> None:
    cache = _cache(1000)
    cache.put("once", "x")
    for at in range(1000):
        cache.put(f"flood {at}", "x")
    assert cache.get("once") is None


def test_a_value_larger_than_a_generation_is_not_remembered() -> None:
    cache = _cache(1000)
    cache.put("small", "x")
    cache.put("large", "x" * 600)
    assert cache.get("large") is None
    assert cache.get("small") == "x"
