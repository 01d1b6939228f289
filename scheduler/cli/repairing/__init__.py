"""`dovetail repair`, and `dovetail defrag`, its old name: plans of moves, asked for by people or by the scheduler."""
