"""
What the scheduler has done: decisions, bindings and evictions, and how long devices were in use.

- `records`: one decision, binding or eviction as a frozen value, in the form that the API and `-o json` show.
- `decision_history`: the newest records, within bounds of number and bytes.
- `device_usage`: device-seconds in use by namespace, class and label, for a bounded time and number of keys.

A decision only appends a frozen value. All that costs time happens in a thread.
"""
