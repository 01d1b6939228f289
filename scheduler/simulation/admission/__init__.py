"""
What the API server's admission plugins do to pods and claims before they exist: changes, and refusals.

- `admission_chain` has the objects that plugins read, and admits pods in the order of the plugins.
- `limit_ranges` (LimitRanger), `runtime_classes` (RuntimeClass) and `quota_admission` (ResourceQuota) are plugins;
  Priority and DefaultTolerationSeconds are in the chain.
- `pod_totals` sums up requests and limits.
"""
