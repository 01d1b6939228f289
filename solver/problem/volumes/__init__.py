"""
Volumes of a batch in dense form: which nodes they leave to each pod, and what pods take from each other.

`reach` says where node selectors of volumes lead, `shelf` which PersistentVolumes fit a claim, `stock` what claims of
one shape could get and where, `attachments` what is attached, `wish` what one pod asks of all that. `store` makes
wishes of pods, `limits` says what they take from each other.
Called by `problem.prepare`; nothing of it is touched where no pod of the batch has a volume.
"""
