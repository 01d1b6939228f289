"""
The core: a snapshot of the cluster and a batch of pods go in, a plan comes out.

The core knows no cluster, no log, no file, no clock except the budget's and no randomness except its seed. It never
imports `kubernetes`, `aiohttp`, `structlog`, `prometheus_client` or `asyncio`. A pod that cannot be placed is a value
with reasons; an exception is a bug or invalid input.

In the order of the layers: `domain` has the values, `cel` and `feasibility` what devices fit a claim, `rules` the rules
about nodes and between pods, `problem` the dense form, `fleet` what is held and what is free. `model` writes rules as
rows of integers, which `engines` solve. `greedy` and `search` find a `solution`; `extract` and `volume_matching` make
it concrete; `explain` and `unplaced` give the reasons of pods that wait. `preemption` chooses victims, `reservations`
keeps nodes for overdue pods, `repair` plans moves of running pods. `decide` is the story on one page. `feasible` and
`diagnosis` answer questions about single pods, `warm_up` loads engines before the first batch, and `verify` checks
plans independently of all this.

This module is the door: the scheduler imports `solver`, `solver.domain` and `solver.verify`, and nothing else. Its
names stand in `__init__.pyi`. Each imports its own module when it is first used. So the scheduler and its commands
start without the parts of the solver that only the worker needs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
