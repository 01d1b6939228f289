"""
Gangs of a batch in dense form: who belongs together, and in which domains all of a gang may be.

`gangs` is the form; where all members share the value of a device attribute, `device_domains` says which values each
node could serve and `splits` how a member is served on nodes whose devices have several of them.
"""
