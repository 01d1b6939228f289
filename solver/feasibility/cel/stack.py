"""Running what recurses over an expression independently of how deep its caller stands."""

from collections.abc import Callable
from threading import Thread
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def with_room(run: Callable[[], Result]) -> Result:
    """
    Run a function; where the stack is too short for it, once more on an empty one.

    What is nested too deep for that (RecursionError) is so for every caller, and may be remembered. `run` must be
    free of effects that count twice.
    """
    try:
        return run()
    except RecursionError:
        pass  # the stack is unwound before the second try
    return on_empty_stack(run)


def on_empty_stack(run: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
    """Run a function on the stack of a thread of its own, and give what it gives or raise what it raises."""
    outcome: list[Result] = []
    errors: list[BaseException] = []

    def attempt() -> None:
        try:
            outcome.append(run(*arguments, **named))
        except BaseException as error:  # noqa: BLE001 - raised again by the caller, whatever it is
            errors.append(error)

    thread = Thread(target=attempt, name="deep-expression", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return outcome[0]
