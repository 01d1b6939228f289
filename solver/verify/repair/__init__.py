"""The check of a repair: `move_checker` follows its moves through the states of the cluster."""
