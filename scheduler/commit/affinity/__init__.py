"""
In which order units of a plan begin, so that pods are bound only after the pods that their required affinity needs.

    affinity_order       units under way, and what each of them depends on
    selected_pods        which pods a term selects, as sets
    begin_order          the order, in linear time
    strongly_connected   components of units that depend on each other
"""
