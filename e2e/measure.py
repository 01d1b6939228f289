"""
`make measure`: the tools that measure a running scheduler, by name.

    make measure                                    # which tools there are
    make measure ARGS="latency --turns 5"           # one of them, with its options
    make measure ARGS="latency --help"
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple


class Tool(NamedTuple):
    """A tool: the module with its `main`, and what it measures."""

    module: str
    about: str


TOOLS: Final = {
    "compare": Tool("e2e.compare.__main__", "the same workloads with Dovetail and with kube-scheduler"),
    "latency": Tool("e2e.latency.__main__", "how soon a pod is bound that comes while the scheduler runs"),
    "new-nodes": Tool("e2e.latency.new_nodes", "how soon a gang runs after the last slice of its new nodes"),
    "scale": Tool(
        "e2e.scale.__main__", "what a large cluster costs the scheduler, and two schedulers on one API server"
    ),
    "questions": Tool("e2e.questions.__main__", "how many seconds the answers of commands take on a large cluster"),
    "takeover": Tool("e2e.takeover.__main__", "how soon a standby writes after a leader is killed or stops"),
    "upgrade": Tool("e2e.upgrade.__main__", "the API server goes up and down through the versions"),
    "rollout": Tool("e2e.upgrade.rollout", "Dovetail is upgraded from an earlier commit and rolled back"),
    "tenants": Tool("e2e.bench.tenants", "what quotas cost a decision, and what the reclaim of gangs takes"),
    "added-nodes": Tool("e2e.bench.cheapest_nodes", "what the cheapest nodes for waiting gangs cost to find"),
    "regression": Tool("e2e.regression.__main__", "an earlier commit and this checkout in turns: what got worse?"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool that the first argument names with the others, or list all of them. Return the exit status."""
    name, *options = (sys.argv[1:] if arguments is None else arguments) or ("--help",)
    if name in {"-h", "--help"}:
        print('usage: make measure ARGS="TOOL [options]"; --help behind a tool lists its options\n')
        print("\n".join(f"  {each:<12}{tool.about}" for each, tool in TOOLS.items()))
        return 0
    if name not in TOOLS:
        print(f"{name!r} is no tool: write one of {', '.join(TOOLS)}", file=sys.stderr)
        return 2
    run: Callable[[Sequence[str]], int] = importlib.import_module(TOOLS[name].module).main
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
