"""
The wait for what has to be got ready before a pod is bound: devices (`readiness`) and volumes (`volume_readiness`).

`waits` waits and says what it came to; `restraint` keeps pods from evicting others while their own devices fail;
`recall` hands on, at the start, since when pods have waited for room.
"""
