"""What a control plane that starts says it waits for."""

from e2e.controlplane.plane import failing_checks


def test_checks_that_fail_are_named_without_their_kind_and_counted() -> None:
    hooks = "".join(f"[-]poststarthook/start-{name} failed: reason withheld\n" for name in ("a", "b", "c", "d", "e"))
    assert failing_checks(f"500 of /readyz\n[+]ping ok\n{hooks}") == "start-a, start-b, start-c and 2 more"
    assert failing_checks("[-]etcd failed: reason withheld\n") == "etcd"
    assert failing_checks("403 Forbidden") == "403 Forbidden"
