"""
DeviceQuota (dovetail.dev/v1alpha1): no decision gives the namespaces of a quota more devices than its limit.

What claims hold is counted by claim and namespace (`holdings`), by the quotas' own classes: whatever class a claim
named, a device counts for every class whose selectors it meets. `limits` is what a batch may add. The check is in
`solver.verify.quotas`.
"""
