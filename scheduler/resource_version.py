"""Comparing resourceVersions of one object."""


def is_at_least(version: str, other: str) -> bool:
    """Compare resourceVersions as integers, which they are by KEP-5504; others are only equal or unknown."""
    if version.isdecimal() and other.isdecimal():
        return (len(version), version) >= (len(other), other)  # without int(), which refuses 4,301 digits
    return version == other
