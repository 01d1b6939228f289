"""The event loop at rest: what a test has begun has gone as far as it can without time, threads or connections."""

import asyncio


async def until_idle() -> None:
    """
    Let every task run until all wait, however many turns they take.

    A number of turns would not do: long work gives up its turn after some milliseconds, more often where a machine is
    slow. A task whose pauses are zero never waits: a test of one counts turns.
    """
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public tells
    await asyncio.sleep(0)
    while ready:  # noqa: ASYNC110 - each turn lets the tasks go on
        await asyncio.sleep(0)
