"""Required pod affinity and anti-affinity between the pods of one batch, as forms."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from solver.domain import PodAffinityTerm
from solver.rules.affinity.nodes import AFFINITY, ANTI_AFFINITY, EXISTING
from solver.rules.forms.inter_pod import AffinityRule, AntiAffinityRule
from solver.rules.forms.limits import Limit
from solver.rules.inter_pod.inter_pod_context import InterPodContext
from solver.rules.inter_pod.pod_keys import InterPodKey, SelectedClasses, term_selector


def anti_affinity_rules(
    interpod_keys: Mapping[int, InterPodKey],
    selected_classes: SelectedClasses,
    sizes: Mapping[int, int],
    context: InterPodContext,
) -> tuple[list[Limit], list[AntiAffinityRule]]:
    """Return the rules between classes; a term that selects just the classes that hold it becomes a limit instead."""
    holders_by_term: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for pod_class, interpod_key in interpod_keys.items():
        for term in interpod_key.anti_affinity:
            number = context.selector_index.number(term_selector(term))
            holders_by_term[term.topology_key, number].add(pod_class)
    limits: list[Limit] = []
    rules: list[AntiAffinityRule] = []
    for (topology_key, number), holders in holders_by_term.items():
        selected = selected_classes.get(number, frozenset())
        if not selected or sum(sizes[each] for each in selected | holders) < 2:  # noqa: PLR2004 - two pods at least
            continue
        topology = context.topologies.of(topology_key)
        if selected == holders:
            takes = dict.fromkeys(sorted(selected), 1)
            limits.append(Limit("pod anti-affinity", topology.domain_of, (1,) * topology.count, takes, ANTI_AFFINITY))
        else:
            rules.append(
                AntiAffinityRule(
                    topology, frozenset(holders), selected, holder_reason=ANTI_AFFINITY, selected_reason=EXISTING
                )
            )
    return limits, rules


def affinity_rules(
    interpod_keys: Mapping[int, InterPodKey], selected: SelectedClasses, context: InterPodContext
) -> Iterator[AffinityRule]:
    """Return one rule for all classes with the same terms, also where running pods alone decide."""
    members: defaultdict[tuple[PodAffinityTerm, ...], set[int]] = defaultdict(set)
    for pod_class, interpod_key in interpod_keys.items():
        if interpod_key.affinity:
            members[interpod_key.affinity].add(pod_class)
    for terms, those in members.items():
        pod_selectors = tuple(dict.fromkeys(map(term_selector, terms)))
        numbers = {context.selector_index.number(each) for each in pod_selectors}
        matching = frozenset.intersection(*(selected.get(each, frozenset()) for each in numbers))
        places = tuple(context.topologies.of(term.topology_key) for term in terms)
        occupied = context.counts(*pod_selectors).all > 0
        supported = tuple(each.of_nodes(occupied) for each in places)
        yield AffinityRule(
            topologies=places,
            supported=supported,
            may_seed=not any(each.any() for each in supported),
            members=frozenset(those),
            seeds=frozenset(those & matching),
            supporters=frozenset(matching - those),
            reason=AFFINITY,
        )
