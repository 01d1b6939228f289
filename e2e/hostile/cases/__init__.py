"""
What tenants and drivers do to the pods of others: each case is one function of a few lines.

`case` says what a case is and keeps the list; `costly` holds claims that take long to decide about, `crowds` many pods,
`churn` many changes, `capture` what takes a place that is another's, `drivers` what needs the rights of a driver,
`giants` the largest objects. A case makes objects in its own namespace until it is stopped; the stage takes away what
it made. Mallory's objects ask for little: the fleet has room for the good pods whatever is placed of them.
"""

from e2e.hostile.cases import capture, churn, costly, crowds, drivers, giants
from e2e.hostile.cases.case import CASES, Case

__all__ = ["CASES", "Case", "capture", "churn", "costly", "crowds", "drivers", "giants"]
