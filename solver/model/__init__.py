"""
The model: every rule of a plan, written once over classes with multiplicity.

Here live the integer form, its variables, the rules (one function adds the rows of one rule) and the levels of
the objective. Engines read the form; nothing here knows which one.
"""
