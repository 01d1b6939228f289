"""
`dovetail quota`: the tree of DeviceQuotas, and who would lose what next.

    next_reclaims    the questions, which the solver answers
    quota_listing    the table
    quota_document   the values of `-o json`, and of the page
"""
