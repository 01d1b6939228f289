"""Whether a plan respects the room that is held for others (DeviceHold)."""
