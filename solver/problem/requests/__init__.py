"""
What pods ask of devices, in dense form.

- `demand`: what one request asks of a single device, and the answer of every device;
- `component`: requests of a claim that constraints join, and options to serve them;
- `options`: the ways to serve a component on a group of nodes; `enumeration` pays for them from an allowance;
- `evaluation`: selectors evaluated on devices, paid from the budget;
- `extended_resources`: which extended resources of a pod devices serve, node by node (KEP-5004);
- `node_allocatable`: what devices take of the resources of their node (KEP-5517).
"""
