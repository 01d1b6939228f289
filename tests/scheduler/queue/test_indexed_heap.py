from scheduler.queue.indexed_heap import IndexedHeap, SortKey
from solver.domain import PodId


def rank(name: str, priority: int = 0, first_seen: float = 0.0) -> SortKey:
    return SortKey(-priority, first_seen, PodId("default", name))


def line_of(*ranks: SortKey) -> IndexedHeap[SortKey]:
    line: IndexedHeap[SortKey] = IndexedHeap()
    for each in ranks:
        line.add(each.pod, each)
    return line


def drained(line: IndexedHeap[SortKey]) -> list[str]:
    names = []
    while (head := line.head()) is not None:
        names.append(head.pod.name)
        line.discard(head.pod)
    return names


def test_the_smallest_comes_first() -> None:
    assert drained(line_of(rank("b"), rank("a"), rank("late", first_seen=9.0), rank("high", priority=1))) == [
        "high",
        "a",
        "b",
        "late",
    ]


def test_a_removed_pod_is_not_met_again() -> None:
    line = line_of(rank("a"), rank("b"))
    line.discard(PodId("default", "a"))

    assert drained(line) == ["b"]


def test_a_pod_that_is_added_again_stands_at_the_new_place() -> None:
    line = line_of(rank("a"), rank("b", first_seen=1.0))
    line.discard(PodId("default", "a"))
    line.add(PodId("default", "a"), rank("a", first_seen=2.0))

    assert drained(line) == ["b", "a"]


def test_a_line_that_many_left_keeps_no_blanks() -> None:
    line = line_of(*(rank(str(index)) for index in range(1000)))
    for index in range(995):
        line.discard(PodId("default", str(index)))

    assert len(line._heap) < 50  # noqa: SLF001 - the memory that it keeps is the point
    assert drained(line) == ["995", "996", "997", "998", "999"]


def test_an_empty_line_has_no_head() -> None:
    assert line_of().head() is None
    assert not line_of()
