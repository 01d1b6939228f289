"""
What is better of places that are all allowed: soft preferences and scores, as costs.

Here live the costs of a pod of a class on a node, and what pods cost each other (crowds, company). Nothing here
forbids anything. Called while a problem is prepared; greedy, model and values read the result.
"""
