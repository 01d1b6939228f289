"""
The most GPUs that a scheduler could allocate if it knew all arrivals and chose among them.

A linear program over kinds of equal machines: how many tasks of each shape are on machines of each kind. Its rows are
sums over all machines of a kind, so that it allows more than any placement does. Rows for large tasks make it tighter:
of tasks that need more than 1/(k+1) of a machine's cpu, memory or GPUs, or of one GPU, no more than k are together.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ortools.linear_solver.python import model_builder

from e2e.traces.workload import WHOLE, Machine, Shape, TraceError

_PARTS: Final = range(1, 8)
"""The numbers k of the rows for large tasks."""


class _Kind(NamedTuple):
    """Equal machines."""

    cpu: int
    memory: int
    gpus: int
    model: str

    def may_have(self, shape: Shape) -> bool:
        """Whether an empty machine has room for a task."""
        fits = shape.cpu <= self.cpu and shape.memory <= self.memory and shape.gpus <= self.gpus
        return fits and (not shape.models or self.model in shape.models)


def most_allocated(machines: Sequence[Machine], arrived: Sequence[Shape]) -> float:
    """Return the thousandths of GPUs that tasks which have arrived can have at most, all together."""
    model = model_builder.Model()  # type: ignore[no-untyped-call] # its types do not say so
    kinds = Counter(_Kind(each.cpu, each.memory, each.gpus, each.model) for each in machines)
    placed: dict[_Kind, list[tuple[Shape, model_builder.Variable]]] = {kind: [] for kind in kinds}
    amounts = []
    for shape, count in Counter(shape for shape in arrived if shape.gpus).items():
        numbers = []
        for kind in kinds:
            if kind.may_have(shape):
                numbers.append(model.new_num_var(0, count, ""))
                placed[kind].append((shape, numbers[-1]))
        if numbers:
            model.add(sum(numbers) <= count)
            amounts.append(shape.amount * sum(numbers))
    for kind, tasks in placed.items():
        for row, most in _rows(kind, [shape for shape, _ in tasks]):
            taken = [amount * number for amount, (_, number) in zip(row, tasks, strict=True) if amount]
            if taken:
                model.add(sum(taken) <= most * kinds[kind])
    model.maximize(sum(amounts))
    solver = model_builder.Solver("GLOP")
    if solver.solve(model) != model_builder.SolveStatus.OPTIMAL:
        raise TraceError("the bound of what can be allocated was not found")
    return float(solver.objective_value)


def _rows(kind: _Kind, shapes: Sequence[Shape]) -> Iterator[tuple[list[int], int]]:
    """Yield what a task of each shape takes of something, and how much of it a machine has."""
    for amounts, most in (
        ([shape.cpu for shape in shapes], kind.cpu),
        ([shape.memory for shape in shapes], kind.memory),
        ([shape.amount for shape in shapes], kind.gpus * WHOLE),
    ):
        yield amounts, most
        for part in _PARTS:
            yield [int(amount * (part + 1) > most) for amount in amounts], part
    for part in _PARTS:
        yield [shape.gpus if shape.milli * (part + 1) > WHOLE else 0 for shape in shapes], part * kind.gpus
