// The lines of `dovetail report`: both clusters over time, with the values at the pointer.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import "./report.css";

type Values = (number | null)[];

interface SeriesDocument {
  /** Of Dovetail, and of the observed schedulers. */
  names: [string, string];
  /** In seconds since the epoch. */
  at: number[];
  /** For each chart the values of both; null where an observation ends. */
  charts: [Values, Values][];
}

const HEIGHT = 180;
const COLOURS = ["--ours", "--theirs"] as const;
const DASH = [6, 4];
/** Whole numbers only. */
const STEPS = [1, 2, 5].flatMap((step) => [0, 1, 2, 3, 4, 5, 6].map((zeros) => step * 10 ** zeros)).sort((one, other) => one - other);
const DAY = "{MM}-{DD}";
/** Seconds on either side of a single sample. */
const ALONE = 30;

const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name);
const written = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: 1 });
const moment = (at: number): string => new Date(at * 1000).toISOString().slice(0, 16).replace("T", " ");
/** A value in the legend: at the pointer, else the last one. */
const shown =
  (text: (value: number) => string): uPlot.Series.Value =>
  (made, _, series, index) => {
    const value = made.data[series]!.at(index ?? -1);
    return value == null ? "–" : text(value);
  };

function chart(into: HTMLElement, found: SeriesDocument, values: [Values, Values]): uPlot {
  const grid = { stroke: () => colour("--line"), width: 1 };
  const axis = { stroke: () => colour("--quiet"), font: "12px system-ui, sans-serif", grid, ticks: { ...grid, size: 4 } };
  return new uPlot(
    {
      width: into.clientWidth,
      height: HEIGHT,
      padding: [8, 28, 0, 0],
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      cursor: { y: false, sync: { key: "report" }, points: { size: 7 } },
      legend: {
        markers: {
          width: 2,
          stroke: (_, index) => `var(${COLOURS[index - 1]})`,
          dash: (_, index) => (index === 1 ? "solid" : "dashed"),
          fill: "none",
        },
      },
      scales: {
        x: { range: (made, first, last) => (made.data[0].length > 1 ? [first, last] : [first - ALONE, first + ALONE]) },
        y: { range: (_, __, most) => [0, Math.max(1, most * 1.05)] },
      },
      axes: [
        {
          ...axis,
          space: 60,
          values: [
            [86400, DAY, null, null, null, null, null, null, 1],
            [60, "{HH}:{mm}", `\n${DAY}`, null, `\n${DAY}`, null, null, null, 1],
            [1, "{HH}:{mm}:{ss}", `\n${DAY}`, null, `\n${DAY}`, null, null, null, 1],
          ],
        },
        { ...axis, incrs: STEPS, size: 56, values: (_, splits) => splits.map((each) => written(each)) },
      ],
      series: [
        { label: "UTC", value: shown(moment) },
        ...found.names.map((label, index) => ({
          label,
          stroke: () => colour(COLOURS[index]!),
          width: 2,
          dash: index ? DASH : [],
          paths: uPlot.paths.stepped!({ align: 1 }),
          points: { show: found.at.length === 1 },
          value: shown(written),
        })),
      ],
    },
    [found.at, ...values],
    into,
  );
}

const found = JSON.parse(document.getElementById("series")!.textContent!) as SeriesDocument;
const drawn = [...document.querySelectorAll<HTMLElement>(".chart")].map((into, index) => {
  const made = chart(into, found, found.charts[index]!);
  new ResizeObserver(() => made.setSize({ width: into.clientWidth, height: HEIGHT })).observe(into);
  return made;
});
const redraw = (): void => drawn.forEach((each) => each.redraw(false, true));
for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", redraw);
