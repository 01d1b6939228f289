"""Upgrades and roll-backs while pods come and go: of the API server (`__main__`) and of Dovetail (`rollout`)."""
