"""
Kubernetes' own integration tests for schedulers, run with kube-scheduler and with Dovetail in its place.

    source       the suites' packages, copied from the Go module with a few edits
    suites       which packages are a suite, and the test binary of each
    process      the program that a test starts in kube-scheduler's place
    results      a run of a test binary, and what it says about each test
    known        which tests differ on purpose (`known.toml`)
    compatibility  both columns as one table
"""
