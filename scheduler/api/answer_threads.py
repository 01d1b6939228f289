"""The threads of the API: its answers never wait for, or hold up, the threads of the scheduler's own work."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_THREADS: Final = ThreadPoolExecutor(max_workers=4, thread_name_prefix="api")


def in_thread(function: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> Awaitable[T]:
    """Run a function in one of the API's threads, as `asyncio.to_thread` does in those of the event loop."""
    return asyncio.get_running_loop().run_in_executor(_THREADS, lambda: function(*arguments, **keywords))
