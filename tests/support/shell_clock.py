"""A clock that stands still until it is told otherwise, with a sleep that moves it."""


class VirtualClock:
    """Seconds that only `sleep` and `advance` let pass."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        """Give the time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    async def sleep(self, seconds: float) -> None:
        """Let time pass, as asyncio.sleep does, at once."""
        self.slept.append(seconds)
        self.now += seconds
