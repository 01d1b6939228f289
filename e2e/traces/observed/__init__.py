"""
One's own cluster, replayed with other policies: the record of `dovetail observe` is a trace.

    make traces ARGS="observed --record FILE"

- `observed_trace`: what a record says of nodes, devices, pods and their run times;
- `observed_policies`: first fit, best fit, kube-scheduler's order and Dovetail, by the solver's own rules;
- `observed_replay`: a policy over a trace, in the counterfactual cluster of `dovetail observe`;
- `observed_command`: what is run and shown.
"""
