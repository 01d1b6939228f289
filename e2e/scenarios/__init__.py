"""Workloads to run on a fleet: the shipped examples with what they say they end as, and the measured scenarios."""
