"""
Volumes of a batch in dense form: the nodes that they leave to each pod, and what pods take from each other.

- `volume_topology`: nodes by node selector and by CSI topology, and what one pod asks of volumes;
- `volume_supply`: PersistentVolumes that no claim is bound to, and how many of them a claim can get on each node;
- `attachments`: volumes attached to nodes, attach limits and drivers (CSINode), and inline disks in use;
- `volume_index`: all of it for one batch, and the nodes that are refused to a pod;
- `attach_limits`: what pods of the batch take from each other, as limits and as levels of gangs.

Called by `problem.prepare`. A batch without volumes costs one look at each pod.
"""
