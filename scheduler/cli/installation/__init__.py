"""The commands about an installation: whether it is healthy, whether one can work, pausing and resuming it."""
