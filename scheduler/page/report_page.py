"""
The report as one HTML file: texts and tables here, lines over time by its front end (`front/src/report.ts`).

Every text is escaped where it enters the page.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from html import escape
from operator import itemgetter
from typing import Final

import msgspec

from scheduler.counterfactual.observation_report import ClusterFigures, ObservationReport, SeriesPoint
from scheduler.counterfactual.outcomes import ComparedPlacement, OutcomeCounts, PlacementOutcome
from scheduler.page.html_file import front_end, html_file
from solver.domain.wording import counted

_MINUTE: Final = "%Y-%m-%d %H:%M"
_LEAST_NODES: Final = 0.1
"""A smaller difference of averages is not named."""
_OUTCOMES: Final = (
    (PlacementOutcome.SOONER, "Dovetail sooner"),
    (PlacementOutcome.SAME, "at the same time"),
    (PlacementOutcome.LATER, "Dovetail later"),
    (PlacementOutcome.ONLY_COUNTERFACTUAL, "only by Dovetail"),
    (PlacementOutcome.ONLY_REAL, "only by {}"),
    (PlacementOutcome.NEITHER, "by neither"),
)
"""Each outcome in words."""


def page(report: ObservationReport) -> str:
    """Return the page. The same report gives the same page."""
    names = ", ".join(report.schedulers)
    parts = (
        _heading(report, names),
        _verdicts(report, names),
        _charts(report, names),
        _numbers(report, names),
        _named("Where Dovetail would have been sooner", report.sooner, names, "ahead"),
        _named("Where Dovetail would have been later", report.later, names, "behind"),
        _reading(report, names),
    )
    content = "\n".join(("<main>", *parts, "</main>"))
    return html_file(f"Dovetail beside {names}", content, front_end("report"))


def _heading(report: ObservationReport, names: str) -> str:
    pods, gangs = report.totals.pods, report.totals.gangs
    first, last = report.observations[0].started, report.observations[-1].ended
    count = len(report.observations)
    times = f"{_time(first)} to {_time(last)}, {_duration(report.observed_seconds)} observed"
    more = f" in {count} observations, with gaps between them" if count > 1 else ""
    better = pods.sooner + pods.only_counterfactual
    worse = pods.later + pods.only_real
    lead = f"No pod of {names} had to be placed alone."
    if pods.total:
        same = pods.same + pods.neither
        of = f"Of {counted(pods.total, 'pod')}"
        lead = (
            f"{of}, Dovetail would have placed {better} sooner than {names}, {worse} later, and {same} no differently."
        )
    if gangs.total:
        won, lost = gangs.sooner + gangs.only_counterfactual, gangs.later + gangs.only_real
        lead += f" Of {counted(gangs.total, 'gang')}, {won} would have started sooner and {lost} later."
    return (
        f"<h1>What Dovetail would have done beside {escape(names)}</h1>\n"
        f'<p class="quiet">{escape(times + more)}</p>\n<p class="lead">{escape(lead)}</p>'
    )


def _verdicts(report: ObservationReport, names: str) -> str:
    """List what would have been better, and what worse; each of them also where there is nothing."""
    good: list[str] = []
    bad: list[str] = []
    pods, gangs = report.totals.pods, report.totals.gangs
    for counts, kind, act, done in ((pods, "pod", "place", "placed"), (gangs, "gang", "start", "started")):
        for count, to, text in (
            (counts.sooner, good, f"{done} sooner than by {names}"),
            (counts.only_counterfactual, good, f"{done} that {names} did not {act}"),
            (counts.later, bad, f"{done} later than by {names}"),
            (counts.only_real, bad, f"not {done} that {names} {done}"),
        ):
            to.extend([f"{counted(count, kind)} {text}"] if count else ())
    for counts, what in ((pods, "pods"), (gangs, "gangs")):
        good += [f"{_duration(counts.seconds_sooner)} less waiting, over all {what}"] if counts.seconds_sooner else []
        bad += [f"{_duration(counts.seconds_later)} more waiting, over all {what}"] if counts.seconds_later else []
    spared = report.totals.real_evictions - report.totals.counterfactual_evictions
    if spared:
        (good if spared > 0 else bad).append(f"{counted(abs(spared), 'eviction')} {'spared' if spared > 0 else 'more'}")
    whole = report.counterfactual.whole_free_nodes - report.real.whole_free_nodes
    if abs(whole) >= _LEAST_NODES:
        way = "more whole nodes free" if whole > 0 else "fewer whole nodes free"
        (good if whole > 0 else bad).append(f"{_number(abs(whole))} {way}, on average")
    return (
        f'<h2>In short</h2>\n<div class="cards">{_card("good", "Better with Dovetail", good, "Nothing was better.")}'
        f"{_card('bad', 'Worse with Dovetail', bad, 'Nothing was worse.')}</div>"
    )


def _card(style: str, title: str, items: Sequence[str], nothing: str) -> str:
    listed = "".join(f"<li>{escape(each)}</li>" for each in items)
    inner = f"<ul>{listed}</ul>" if items else f'<p class="quiet">{nothing}</p>'
    return f'<section class="card {style}"><h3>{title}</h3>{inner}</section>'


def _charts(report: ObservationReport, names: str) -> str:
    """Give the front end its numbers: for each chart the values with Dovetail, then the real ones."""
    drawn: tuple[tuple[str, Callable[[ClusterFigures], float]], ...] = (
        ("Pods that wait", lambda each: each.waiting),
        ("Whole free nodes with devices", lambda each: each.whole_free_nodes),
        ("Devices in use", lambda each: each.devices_in_use),
    )
    points = _with_gaps(report)
    values = [
        [[each and value(each.counterfactual) for _, each in points], [each and value(each.real) for _, each in points]]
        for _, value in drawn
    ]
    document = {"names": ["Dovetail", names], "at": [at for at, _ in points], "charts": values}
    packed = msgspec.json.encode(document).decode().replace("<", "\\u003c")  # no text of a record ends the element
    last = report.series[-1]
    cards = "".join(_card_of_chart(title, value(last.counterfactual), value(last.real)) for title, value in drawn)
    return (
        f'<h2>Over time</h2>\n<div class="cards charts">{cards}</div>\n'
        "<noscript>The lines need JavaScript, which runs from this file alone.</noscript>\n"
        f'<script type="application/json" id="series">{packed}</script>'
    )


def _with_gaps(report: ObservationReport) -> list[tuple[float, SeriesPoint | None]]:
    """Return the points in the order of time; nothing stands where an observation before the last one ends."""
    points = [(each.at, each) for each in report.series]
    return sorted([*points, *((each.ended, None) for each in report.observations[:-1])], key=itemgetter(0))


def _card_of_chart(title: str, ours: float, theirs: float) -> str:
    said = f"{title}: at the end {_number(ours)} with Dovetail, {_number(theirs)} really"
    return (
        f'<figure class="card"><h3>{escape(title)}</h3>'
        f'<div class="chart" role="img" aria-label="{escape(said)}"></div></figure>'
    )


def _numbers(report: ObservationReport, names: str) -> str:
    totals = report.totals
    outcomes = "".join(
        f"<tr><th scope=row>{escape(words.format(names))}</th>{_cells(outcome, totals.pods)}"
        f"{_cells(outcome, totals.gangs)}</tr>"
        for outcome, words in _OUTCOMES
    )
    figures = (
        ("evictions for pods of higher priority", totals.counterfactual_evictions, totals.real_evictions),
        ("pods that wait at the end", totals.counterfactual_waiting, totals.real_waiting),
        ("devices in use, on average", report.counterfactual.devices_in_use, report.real.devices_in_use),
        ("free devices, on average", report.counterfactual.devices_free, report.real.devices_free),
        ("whole free nodes, on average", report.counterfactual.whole_free_nodes, report.real.whole_free_nodes),
    )
    both = "".join(
        f"<tr><th scope=row>{escape(what)}</th><td class=number>{_number(ours)}</td>"
        f"<td class=number>{_number(theirs)}</td></tr>"
        for what, ours, theirs in figures
    )
    return (
        '<h2>In numbers</h2>\n<div class="cards"><div class="scroll"><table><thead><tr><th>placed</th>'
        f"<th class=number>pods</th><th class=number>gangs</th></tr></thead><tbody>{outcomes}</tbody></table></div>"
        '<div class="scroll"><table><thead><tr><th>cluster</th><th class=number>Dovetail</th>'
        f"<th class=number>{escape(names)}</th></tr></thead><tbody>{both}</tbody></table></div></div>"
    )


def _cells(outcome: PlacementOutcome, counts: OutcomeCounts) -> str:
    count = counts.of(outcome)
    if not count:
        return "<td class=number>0</td>"
    share = 100 * count / counts.total
    return f"<td class=number>{count} ({f'{share:.0f}' if share >= 1 else '&lt;1'}%)</td>"


def _named(title: str, found: Sequence[ComparedPlacement], names: str, way: str) -> str:
    if not found:
        return f'<h2>{title}</h2>\n<p class="quiet">No pod and no gang.</p>'
    words = {outcome: text.format(names) for outcome, text in _OUTCOMES}
    rows = "".join(
        "<tr>"
        f"<th scope=row>{escape(f'{each.kind} {each.namespace}/{each.name}')}</th>"
        f"<td class=number>{_duration(abs(each.seconds_ahead))}</td>"
        f"<td class=number>{_since(each.counterfactual, each.seen)}</td>"
        f"<td class=number>{_since(each.real, each.seen)}</td>"
        f"<td>{escape(words[each.outcome])}</td></tr>"
        for each in found
    )
    caption = "Those that differ most. Times are since the pod or gang was first seen."
    return (
        f'<h2>{title}</h2>\n<p class="quiet">{caption}</p><div class="scroll"><table>'
        f"<thead><tr><th>name</th><th class=number>{way} by</th><th class=number>Dovetail</th>"
        f"<th class=number>{escape(names)}</th><th>placed</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _reading(report: ObservationReport, names: str) -> str:
    """Say what the numbers mean, and what they leave out."""
    equal = "Both clusters were equal when the observation began. From then on Dovetail decided where the pods of"
    lives = "A pod runs in the copy as long as it really ran. While it still runs, it keeps its devices there."
    notes = [
        f"{equal} {names} run in a copy of the cluster. Nothing was written.",
        f"{lives} So no pod gives up its devices sooner there than it really does.",
        "A pod that was deleted while it really waited left the copy, too.",
        "The pods of a gang are compared as one: by the moment when its minimum runs.",
        f"Differences of up to {_duration(report.tolerance_seconds)} count as the same time.",
        "More devices in use can mean that more pods run. Whole free nodes have devices, none of them in use.",
    ]
    if len(report.observations) > 1:
        notes.append("A gap ended an observation; the next one began with equal clusters again.")
    for count, text in (
        (report.totals.given_up, "pods had really ended and were forgotten before the copy placed or ended them"),
        (report.failed_decisions, "decisions failed; their pods went on waiting in the copy"),
        (report.unreadable_lines, "lines of the record could not be read"),
    ):
        if count:
            notes.append(f"{count} {text}.")
    listed = "".join(f"<li>{escape(each)}</li>" for each in notes)
    made = escape(f"Dovetail {report.version}" if report.version else "Dovetail")
    return f'<h2>How to read this</h2>\n<ul>{listed}</ul>\n<p class="quiet">{made}. Times are UTC.</p>'


def _since(at: float | None, seen: float) -> str:
    return "–" if at is None else f"after {_duration(max(0.0, at - seen))}"


def _number(value: float) -> str:
    """Write at most one decimal."""
    return f"{value:,.1f}".removesuffix(".0")


def _time(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).strftime(_MINUTE)


def _duration(seconds: float) -> str:
    """Write two units: 2 d 3 h, 5 min 10 s, 4 s."""
    units: Iterable[tuple[int, str]] = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    left, found = round(seconds), list[str]()
    for size, unit in units:
        count, left = divmod(left, size)
        if count or (unit == "s" and not found):
            found.append(f"{count} {unit}")
    return " ".join(found[:2])
