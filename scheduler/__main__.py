"""The entry point: `dovetail` and `python -m scheduler`."""


def main() -> int:
    """Run the command line."""
    return 0
