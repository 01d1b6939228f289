"""
The constants of the search and its switches: one frozen value that goes in with the budget of a solve.

Only what may be set differently stands here. The limits of number formats and the tolerances of the engines are facts
about them, and stay where they are used (`solver.engines`, `solver.greedy.node_score`,
`solver.search.restricted_problem`). `docs/search.md` explains the stages and what each of them earns.
"""

from enum import StrEnum

import msgspec


class SearchStage(StrEnum):
    """A stage of the search that can be left out, to measure what it earns (`make bench ARGS="--without STAGE"`)."""

    GREEDY_BEST_FIT = "greedy-best-fit"
    GREEDY_SMALL_FIRST = "greedy-small-first"
    EXHAUSTIVE = "exhaustive"
    LP_BOUND = "lp-bound"
    ROUNDING_CUTS = "rounding-cuts"
    IMPOSSIBLE_PODS = "impossible-pods"
    LARGE_FIRST = "large-first"
    GANGS_FIRST = "gangs-first"
    DECOMPOSITION = "decomposition"
    DEFERRAL = "deferral"
    COLUMN_GENERATION = "column-generation"
    RESTRICTED_MASTER = "restricted-master"
    DIVE = "dive"
    EXACT_REST = "exact-rest"
    NODE_SYMMETRY = "node-symmetry"
    EXACT = "exact"
    LNS = "lns"
    GANG_LNS = "gang-lns"
    SCORES_LP = "scores-lp"


class SearchParams(msgspec.Struct, frozen=True, kw_only=True):
    """
    Every constant of the search, with its unit and where it comes from.

    "Deterministic seconds" are the engines' own measure of work, the same on every machine. "Estimated terms" are the
    coefficients that the general model of a problem would have (`build.estimated_terms`). Origin "measured" means that
    the value was chosen by `make bench` (the workload follows); "guess" means that no measurement is known.
    """

    without: frozenset[SearchStage] = frozenset()
    """Stages that are left out; the plan stays valid whatever is left out."""

    # Shares of the wall time.
    greedy_wall_share: float = 0.25
    """Share of a decision's wall time that the greedy has at least, however long preparing took. Guess."""
    epilogue_wall_share: float = 0.125
    """The same for each of the steps after the search: explanations and reservations. Guess."""

    # Greedy.
    greedy_options: int = 400
    """Options that are tried to serve one pod on one node before giving up. Guess; the exact model has no limit."""
    greedy_device_types: int = 200_000
    """Device types that are looked at for the same. Guess: about 0.2 s for a hostile claim."""
    greedy_cached_classes: int = 256
    """Pod classes for which the ratings of all nodes are kept. Guess: 8 bytes for each node and class."""
    gang_domains: int = 256
    """Topology domains that are tried for one gang. Guess."""
    gang_counted_domains: int = 32
    """Domains that are tried to say how many pods of a gang fit at most. Guess."""
    gangs_first_runs: int = 16
    """Greedy runs in which waiting gangs choose first, over all gangs. Guess."""

    # One pod.
    exhaustive_ways: int = 256
    """Ways to place one pod up to which all are compared. Measured: about what a relaxation and an exact model cost."""
    exhaustive_expected_ways: int = 8_192
    """The same where pods are expected. Measured on 1,213 nodes: 20 ms, and 4 to 12 s for an exact model."""
    exhaustive_expected_pairs: int = 65_536
    """Pairs of such a way and a node: nodes that are served alike lose other room. Guess: some megabytes."""
    exhaustive_steps: int = 50_000
    """Steps to find these ways on all nodes. Guess: about 0.2 s for a hostile claim."""

    # Relaxation over node classes.
    merged_domains: int = 512
    """Domains, or values of node costs, up to which they tell nodes of the relaxation apart. Guess."""
    merged_variables: int = 50_000
    """Pairs of pod class and node class in the relaxation; beyond, nodes merge across classes. Measured on W7."""

    # Pods that no node serves.
    impossible_questions: int = 64
    """Kinds of nodes that are asked about pods in one decision, those with known answers apart. Guess: 3 ms each."""
    impossible_seconds: float = 0.02
    """Deterministic seconds for each of these questions. Guess."""

    # What stage runs on which size.
    exact_terms: int = 120_000
    """Estimated terms up to which the general model is built as a whole. Measured on W7t."""
    exact_terms_per_second: float = 60_000.0
    """Estimated terms that Python builds and CP-SAT starts on in a second of wall time. Measured on two cores."""
    tiny_terms: int = 1_000
    """Estimated terms up to which the exact model comes before column generation. Measured on W8h12."""
    tiny_packing_terms: int = 300
    """The same where only levels that pack are open: columns prove those sooner. Measured on small MIG batches."""
    small_terms: int = 10_000
    """Estimated terms from which the exact model leaves half of the budget to LNS. Measured on W3t, W5."""
    subproblems: int = 128
    """Independent subproblems at most; beyond, some are joined. Guess: each costs a pass over all nodes."""
    deferred_terms: int = 2_000
    """Estimated terms from which a subproblem is deferred where all of them are hard. Guess."""

    # Levels that only pack.
    packing_seconds: float = 0.25
    """Deterministic seconds for all levels together that only pack. Guess: about what writing a plan takes."""
    packing_seconds_per_pod: float = 0.0005
    """The same for each pod of the batch. Guess: less than the API writes of a pod take."""
    packing_wall_factor: float = 2.0
    """Share of the wall time for packing, in multiples of its share of the deterministic seconds. Guess."""

    # Column generation.
    node_classes: int = 64
    """Node classes beyond which neither columns are generated nor equal nodes left out. Measured on W7."""
    price_scale: int = 1 << 20
    """Prices are rounded to multiples of one over this; the bound is exact for rounded prices. A power of two."""
    pricing_seconds: float = 0.02
    """Deterministic seconds to price one node class. Measured on W8h."""
    pricing_overhead_seconds: float = 0.002
    """What one pricing counts as beside the engine's own measure, so that rounds end. Measured."""
    pricing_rounds: int = 400
    """Rounds of pricing for one level at most. Guess: never reached on the workloads."""
    earlier_level_penalty: int = 1000
    """What a lost unit of an earlier level counts in the master, in units of the level at work. Guess."""
    master_seconds: float = 0.1
    """Deterministic seconds for the restricted master in integers. Measured on W8h."""
    master_columns: int = 4_000
    """Columns beyond which the restricted master is not solved in integers. Guess."""
    dive_tries: int = 8
    """Columns that are tried at one step of a dive; then the best of them stands. Guess."""
    dive_mistakes: int = 60
    """Columns that are taken back in one dive. Measured on W8h12."""
    dive_rest_variables: int = 400
    """Variables of the nodes left from which a dive remembers them for the exact rest. Guess."""
    dive_rest_nodes: int = 4
    """Nodes left that are remembered whatever their variables. Guess."""
    exact_rest_nodes: int = 24
    """Nodes that the exact rest of a dive solves at most. Guess."""
    exact_rest_seconds: float = 0.15
    """Deterministic seconds of the exact rest, without presolve and again with it. As `exact_quick_seconds`."""

    # Exact model.
    exact_quick_seconds: float = 0.15
    """Deterministic seconds of the first run, without presolve. Measured: proves most models that have a good hint."""
    exact_packing_share: float = 0.25
    """Share of the packing seconds that the first run of a packing level gets: packing needs presolve. Guess."""

    # Large neighbourhood search.
    lns_first_nodes: int = 16
    """Nodes of the first neighbourhood. Measured: 16 was best of 8, 16 and 32 on W4, W5 and W7t."""
    lns_fewest_nodes: int = 6
    """Nodes of a neighbourhood at least: it shrinks by two where it was not solved to optimality. Guess."""
    lns_most_nodes: int = 48
    """Nodes of a neighbourhood at most: it grows by one where it was. Guess."""
    lns_step_seconds: float = 0.1
    """Deterministic seconds of one step. Measured: 100 to 150 ms."""
    lns_overhead_share: float = 0.05
    """Share of a step that every step counts as, so that steps which solve nothing end too. Guess."""
    lns_waiting_share: float = 0.75
    """Share of a neighbourhood for nodes that a waiting pod could use, while pods wait. Guess."""
    lns_first_level_share: float = 0.75
    """Share of the steps that are for a pod of the first open level. Guess."""
    lns_packing_seconds: float = 0.5
    """Deterministic seconds while only levels that pack are open. Guess."""
    lns_gang_nodes: int = 4
    """Nodes at least for pods that leave a gang's domain, whatever the neighbourhood's size. Guess."""
    lns_domain_share: float = 0.6
    """How often the domain with the fewest pods is taken for a gang, else the second, and so on. Guess."""
    build_seconds_per_term: float = 5e-6
    """What building a subproblem counts as for each term: engines measure only their own work. Measured."""

    # Scores of pods without devices.
    scores_single_nodes: int = 256
    """Nodes that the relaxation of scores looks at one by one; the others by groups. Guess."""
    scores_places: int = 30_000
    """Places (pod and node) of those nodes together. Guess: keeps the relaxation below a second."""
    scores_ranks: int = 8
    """Groups by cost for the other nodes. Guess."""
    scores_domains: int = 64
    """Domains of a spread constraint up to which they tell those groups apart. Guess: zones, not hostnames."""
    scores_exact_terms: int = 1_000
    """Estimated terms up to which the exact model decides what the relaxation leaves open. As `tiny_terms`."""

    def runs(self, stage: SearchStage) -> bool:
        """Whether a stage takes part."""
        return stage not in self.without
