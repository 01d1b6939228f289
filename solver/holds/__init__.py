"""
Pods whose room is held (`DeviceHold`): which place is for which pod, and how they get exactly what is held for them.

- `seats`: one open place for each pod, never one for two.
- `seating`: pods on their places, with the devices of these; what does not fit there is decided like other pods.
- `held_places`: the places of a plan, from which a hold is made.

How others see held room, and the reason of pods that wait for it, is in `held_room`.
"""
