"""Every component of what is placed is served, each copy in one way."""

from solver.model.form import Expression
from solver.model.variables import Variables


def serve_every_copy(variables: Variables) -> None:
    """Copies over all options are as many as the owner needs; with one option there is nothing to choose."""
    for at, options in variables.options.items():
        count = variables.count(at.owner, at.cell)
        needed = variables.parts(at.owner)[at.part].copies
        if len(options) == 1:
            variables.copies[at] = {options[0][0]: Expression({count: needed})}
            continue
        total = Expression({count: -needed})
        variables.copies[at] = {}
        for option, _ in options:
            variable = variables.form.variable(0, needed * variables.form.upper[count])
            variables.copies[at][option] = Expression({variable: 1})
            total.add(variable)
        variables.form.require(total, "one option per component", low=0, high=0)
