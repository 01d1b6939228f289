"""
The engines that read the integer form: CP-SAT decides, GLOP bounds.

The only place that imports `ortools`. Status words are our own.
"""
