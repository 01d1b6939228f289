"""
How soon a standby takes over from a leader that is killed or stops, by the API server's audit log.

    make measure ARGS=takeover  # ten of each, with the times of leader election that are the default
    make measure ARGS="takeover --turns 3"

- `handovers`: what the audit log says of each change of the leader (pure).
"""
