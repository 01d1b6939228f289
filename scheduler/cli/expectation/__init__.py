"""`dovetail expect`: what the pods of a cluster ask for, counted and written for a profile of the configuration."""
