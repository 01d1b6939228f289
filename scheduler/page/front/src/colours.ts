// Colours, which people with any kind of colour vision can tell apart: tests/scheduler/page/test_colours.py measures them.
import { NAMESPACES, type Device, type Fleet, type Holder } from "./fleet";

export type Theme = "light" | "dark";
export type ColourBy = "namespace" | "gang" | "state" | "age";

export interface Palette {
  background: string;
  tile: string;
  tileLine: string;
  missing: string;
  cluster: string;
  clusterLine: string;
  ink: string;
  quiet: string;
  free: string;
  freeLine: string;
  unusable: string;
  slash: string;
  blocked: string;
  unknown: string;
  other: string;
  shared: string;
  held: string;
  accent: string;
  warning: string;
  many: readonly string[];
  ages: readonly string[];
}

const LIGHT: Palette = {
  background: "#f4f5f7",
  tile: "#ffffff",
  tileLine: "#d5dae1",
  missing: "#b8626e",
  cluster: "#e9ecf1",
  clusterLine: "#cfd6df",
  ink: "#1d2530",
  quiet: "#5d6878",
  free: "#e6ebf1",
  freeLine: "#bcc6d2",
  unusable: "#d9c3c7",
  slash: "#9a4655",
  blocked: "#d8c98f",
  unknown: "#b6bac4",
  other: "#a3abb7",
  shared: "#86b6d3",
  held: "#44749f",
  accent: "#16578c",
  warning: "#a3620a",
  many: ["#3f6aa8", "#68bcf8", "#bc5068", "#98802c", "#504468", "#d4988c", "#683814"],
  ages: ["#e8d98a", "#a3cfa0", "#5bafb0", "#3c7fab", "#2f4b87"],
};

const DARK: Palette = {
  background: "#11161d",
  tile: "#1a212b",
  tileLine: "#2d3745",
  missing: "#d98592",
  cluster: "#161c25",
  clusterLine: "#2c3644",
  ink: "#e5e9ef",
  quiet: "#97a3b4",
  free: "#232c38",
  freeLine: "#415064",
  unusable: "#4d343b",
  slash: "#e08a98",
  blocked: "#8f824d",
  unknown: "#596170",
  other: "#505a6b",
  shared: "#4c7c9a",
  held: "#6ba0cf",
  accent: "#8ec3ef",
  warning: "#e0aa5b",
  many: ["#5f8fd6", "#8fcdf0", "#d9768a", "#e0b05c", "#745098", "#a4bc80", "#8c5050"],
  ages: ["#f7eeb4", "#98cf9b", "#58b4b2", "#4183b5", "#5c5cb8"],
};

export const PALETTES: Record<Theme, Palette> = { light: LIGHT, dark: DARK };

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const AGES: readonly [number, string][] = [
  [HOUR, "under 1 hour"],
  [DAY, "under 1 day"],
  [7 * DAY, "under 7 days"],
  [30 * DAY, "under 30 days"],
  [Infinity, "30 days and more"],
];

export interface Entry {
  /** What a device has to have for the entry: `free`, `held:team-a`. */
  key: string;
  label: string;
  colour: string;
  devices: number;
  pattern?: "slash" | "hollow";
}

export interface Scheme {
  entries: Entry[];
  /** The entries that a device counts for. */
  keysOf(device: Device): string[];
  /** The colour of a holder's part of a device. */
  ofHolder(device: Device, holder: Holder): string;
  /** The colour of the part that no claim has. */
  ofRest(device: Device): string;
}

const KEPT: Record<string, string> = {
  free: "free",
  shared: "free, with shares in use",
  blocked: "blocked",
  unusable: "unusable",
  unknown: "not known",
};

/** Returns the colours and the legend of a fleet, the largest entries first. */
export function schemeOf(fleet: Fleet, by: ColourBy, palette: Palette): Scheme {
  const rest: Record<string, string> = {
    free: palette.free,
    shared: palette.free,
    blocked: palette.blocked,
    unusable: palette.unusable,
    unknown: palette.unknown,
    held: palette.free,
  };
  const ofRest = (device: Device): string => rest[device.state] ?? palette.unknown;
  const holding = (holder: Holder): string => holdingKey(by, fleet.readAt, holder);
  const keysOf = (device: Device): string[] => {
    if (by === "state") return [device.state];
    const own = device.holders.filter((each) => !each.admin).map(holding);
    return own.length ? [...new Set(own)] : [device.state];
  };
  const counts = new Map<string, number>();
  for (const device of fleet.devices) for (const key of keysOf(device)) counts.set(key, (counts.get(key) ?? 0) + 1);
  const colours = by === "state" ? stateColours(palette) : heldColours(by, counts, palette);
  const entries = entriesOf(by, counts, colours, { ...rest, "held:": palette.other });
  return {
    entries,
    keysOf,
    ofHolder: (device, holder) =>
      (by === "state" ? colours.get(device.state === "shared" ? "shared" : "held") : colours.get(holding(holder))) ?? palette.other,
    ofRest,
  };
}

function holdingKey(by: ColourBy, readAt: number, { claim }: Holder): string {
  if (by === "namespace") return `held:${claim.namespace}`;
  if (by === "gang") return `held:${claim.pods.find((pod) => pod.gang)?.gang ?? ""}`;
  const age = readAt - claim.since;
  const bin = AGES.findIndex(([most]) => age < most);
  return Number.isNaN(age) ? "held:" : `held:${bin}`;
}

function stateColours(palette: Palette): Map<string, string> {
  return new Map([
    ["held", palette.held],
    ["shared", palette.shared],
  ]);
}

function heldColours(by: ColourBy, counts: Map<string, number>, palette: Palette): Map<string, string> {
  if (by === "age") return new Map(AGES.map((_, bin) => [`held:${bin}`, palette.ages[bin] ?? palette.other]));
  const named = [...counts.keys()].filter((key) => key.startsWith("held:") && key !== "held:");
  named.sort((one, other) => (counts.get(other) ?? 0) - (counts.get(one) ?? 0) || (one < other ? -1 : 1));
  return new Map(named.slice(0, palette.many.length).map((key, at) => [key, palette.many[at] ?? palette.other]));
}

const STATES = ["held", "shared", "free", "blocked", "unusable", "unknown"];

function entriesOf(
  by: ColourBy,
  counts: Map<string, number>,
  colours: Map<string, string>,
  rest: Record<string, string>,
): Entry[] {
  const held = by === "age" ? AGES.map((_, bin) => `held:${bin}`) : [...colours.keys()];
  const without = counts.has("held:") ? ["held:"] : [];
  const shown = [...(by === "state" ? [] : [...held, ...without]), ...STATES].filter((key) => counts.has(key));
  return shown.map((key) => ({
    key,
    label: label(by, key),
    colour: colours.get(key) ?? rest[key] ?? "",
    devices: counts.get(key) ?? 0,
    ...(key === "unusable" ? { pattern: "slash" as const } : key === "free" ? { pattern: "hollow" as const } : {}),
  }));
}

function label(by: ColourBy, key: string): string {
  if (!key.startsWith("held:")) return KEPT[key] ?? key;
  const name = key.slice("held:".length);
  if (by === "age") return name ? (AGES[Number(name)]?.[1] ?? "") : "held, time not known";
  return name || "held, no gang";
}

/** How many namespaces or gangs have no colour of their own. */
export function uncoloured(fleet: Fleet, by: ColourBy, palette: Palette): number {
  if (by !== "namespace" && by !== "gang") return 0;
  const names = new Set(
    fleet.devices.flatMap((device) =>
      by === "namespace" ? NAMESPACES(device) : device.holders.flatMap((each) => each.claim.pods.map((pod) => pod.gang)),
    ),
  );
  names.delete("");
  return Math.max(0, names.size - palette.many.length);
}
