"""
Connections before their callers are known: bounds of number, rate and bytes.

- `acceptor`: how many there are and how fast they come, of an address and in all; which one gives way.
- `caller_connection`: what one may send, in bytes.
"""
