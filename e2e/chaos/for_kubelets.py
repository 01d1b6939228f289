"""What real kubelets demand of the objects of a run, and stand-ins do not: pure."""

from typing import Final

from e2e.audit.reading import Json
from e2e.controlplane.kubelet import RUN_SECONDS
from e2e.nodes import image
from e2e.nodes.node import OWN

NO_IMAGE: Final = "example.com/none"
"""What containers name that are never started."""
DISK: Final = str(OWN / "disk")
"""The folder of each real node that all local volumes there are in."""
LEAST_GRACE_SECONDS: Final = 1
"""
Of pods. With 0 the API server forgets a pod at once, and its claim is given to the next one, while the container still
runs and the kubelet has not unprepared the devices. No scheduler can prevent that: it is so with kube-scheduler, too.
"""


def for_kubelets(manifest: Json) -> Json:
    """Return an object as a real kubelet can run it."""
    if manifest["kind"] == "Pod":
        return _pod(manifest)
    if manifest["kind"] == "PersistentVolume" and "local" in manifest["spec"]:
        return {**manifest, "spec": {**manifest["spec"], "local": {"path": DISK}}}
    return manifest


def _pod(pod: Json) -> Json:
    """Give a pod a grace, its containers the one image, and let them end after the time of its annotation."""
    spec = dict(pod["spec"])
    if spec.get("terminationGracePeriodSeconds") is not None:
        spec["terminationGracePeriodSeconds"] = max(LEAST_GRACE_SECONDS, spec["terminationGracePeriodSeconds"])
    program: Json = {"image": image.NAME}
    if seconds := (pod["metadata"].get("annotations") or {}).get(RUN_SECONDS):
        program["args"] = [f"-after={seconds}"]
        # Such a pod succeeds as with the stand-in, also where its node is rebooted meanwhile.
        spec["restartPolicy"] = "OnFailure"
    spec["containers"] = [
        {**each, **program} if each.get("image") == NO_IMAGE else each for each in spec.get("containers", ())
    ]
    return {**pod, "spec": spec}
