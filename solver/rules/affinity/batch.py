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
    selected: SelectedClasses,
    sizes: Mapping[int, int],
    context: InterPodContext,
) -> Iterator[AntiAffinityRule | Limit]:
    """Return the rules between classes; a term that selects just the classes that hold it becomes a limit instead."""
    holders: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for pod_class, interpod_key in interpod_keys.items():
        for term in interpod_key.anti_affinity:
            holders[term.topology_key, context.selector_index.number(term_selector(term))].add(pod_class)
    for (key, pod_selector), holding in holders.items():
        wanted = selected.get(pod_selector, frozenset())
        if not wanted or sum(sizes[each] for each in wanted | holding) < 2:  # noqa: PLR2004 - two pods at least
            continue
        topology = context.topologies.of(key)
        if wanted == holding:
            takes = dict.fromkeys(sorted(wanted), 1)
            yield Limit("pod anti-affinity", topology.domain_of, (1,) * topology.count, takes, ANTI_AFFINITY)
        else:
            yield AntiAffinityRule(topology, frozenset(holding), wanted, ANTI_AFFINITY, EXISTING)


def affinity_rules(
    interpod_keys: Mapping[int, InterPodKey], selected: SelectedClasses, context: InterPodContext
) -> Iterator[AffinityRule]:
    """Return one rule for all classes with the same terms, also where running pods alone decide."""
    members: defaultdict[tuple[PodAffinityTerm, ...], set[int]] = defaultdict(set)
    for pod_class, interpod_key in interpod_keys.items():
        if interpod_key.affinity:
            members[interpod_key.affinity].add(pod_class)
    for terms, those in members.items():
        wanted = tuple(dict.fromkeys(map(term_selector, terms)))
        numbers = {context.selector_index.number(each) for each in wanted}
        matching = frozenset.intersection(*(selected.get(each, frozenset()) for each in numbers))
        places = tuple(context.topologies.of(term.topology_key) for term in terms)
        occupied = context.counts(*wanted).all > 0
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
