"""What only a whole cluster can show: the real control plane, scenarios on it, and the comparison with the peer."""
