"""
Volumes (VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits of kube-scheduler).

- `topology`: nodes by node selector and by CSI topology, and what one pod asks of volumes;
- `unbound_volumes`: PersistentVolumes that no claim is bound to, and how many of them a claim can get on each node;
- `attachments`: volumes attached to nodes, attach limits and drivers (CSINode), and inline disks in use;
- `nodes`: all of it for one batch, and the nodes that are refused to a pod;
- `batch`: limits;
- `shared_claims`: levels of gangs, and pairs that exclude each other, where pods share a volume that is still to be
  chosen.

A batch without volumes costs one look at each pod. Which volume each pod gets in the end is chosen after the search
(`solver.volume_matching`), which names the pods that get none. The check is in `solver.verify.volumes`.
"""
