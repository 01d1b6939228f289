"""
The engines that read the integer form, and the only importers of `ortools`: CP-SAT decides and prices, GLOP bounds.

`cpsat` maximises a form, or one form again and again (`ReusableModel`). `linear` solves the relaxation of a form, and
linear programs that grow by columns (`LinearProgram`). Status words are our own.
"""
