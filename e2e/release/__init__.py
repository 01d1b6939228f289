"""
`make release ARGS=--local`: the files of a release in `dist`, without a forge.

`install_file` makes `install.yaml` of `deploy`, `checked` applies it to a real API server, `__main__` is the command.
"""
