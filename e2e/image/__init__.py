"""
The image of Dovetail, built without a container engine: `make image`.

| step | by |
|---|---|
| a root file system of Debian packages | mmdebstrap |
| the locked libraries, each file checked by its hash | uv |
| the wheel | installer, PyPA's library |
| an OCI image layout; unpacking it by its digests | umoci |
| an archive for `docker load` and `podman load`; the push to a registry | skopeo |
| the list of packages (SBOM) | cyclonedx-python-lib |

Nothing that ships imports this package. `recipe` says what the image is, `check` runs what came of it.
"""
