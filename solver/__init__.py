"""The core: a snapshot goes in, a plan comes out."""
