"""Leader election on a Lease: which replica may write, until when, and what must have ended before another one may."""
