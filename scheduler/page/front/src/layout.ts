// Where everything stands, in units of the map: groups, domains, nodes, and in a node its roots, cards and devices.
import type { Device, Fleet, FleetNode } from "./fleet";

export const CELL = 10;
const GAP = 2;
const ROOT_GAP = 4;
const PAD = 3;
export const HEAD = 8;
const TILE_GAP = 4;
const CLUSTER_PAD = 4;
const CLUSTER_HEAD = 8;
const GROUP_GAP = 18;
const GROUP_HEAD = 20;
/** About the pixels of a map that is seen whole: titles and gaps of a large one grow, so that they are seen from far. */
const FRAME = 650_000;
export const UNNAMED = "without a value";
const FACTORS = [0.8, 0.9, 0.97, 1.03, 1.1, 1.18, 1.27, 1.4, 1.6, 1.8];
const NAMED_SCALE = 1.35;
const FAR_PAD = 1;
const CARD_WIDTH = 2 * CELL + GAP;

export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

/** A device, or a card with the partitions of it. Its place is relative to its tile. */
export interface Cell extends Box {
  devices: Device[];
  isCard: boolean;
}

export interface Tile extends Box {
  node: FleetNode;
  cells: Cell[];
  /** The places of PCIe roots with several devices, relative to the tile. */
  roots: Box[];
}

export interface Cluster extends Box {
  name: string;
}

export interface Group extends Box {
  name: string;
  tiles: Tile[];
  clusters: Cluster[];
  devices: number;
  /** The height of its title. */
  head: number;
}

export interface Layout {
  groups: Group[];
  tiles: Tile[];
  width: number;
  height: number;
}

export type Grouping = { kind: "none" } | { kind: "domain" } | { kind: "group" } | { kind: "label"; key: string };

const ORDER = new Intl.Collator("en", { numeric: true });

export function layOut(fleet: Fleet, grouping: Grouping, aspect: number): Layout {
  const byName = new Map<string, Tile[]>();
  for (const node of fleet.nodes) {
    const name = nameOf(fleet, grouping, node);
    const tiles = byName.get(name);
    if (tiles) tiles.push(tileOf(node));
    else byName.set(name, [tileOf(node)]);
  }
  const isDomain = grouping.kind === "domain";
  const area = [...byName.values()].flat().reduce((sum, tile) => sum + tile.w * tile.h, 0);
  const unit = Math.max(1, Math.sqrt(area / FRAME));
  const groups = [...byName]
    .sort(([one], [other]) => Number(!one) - Number(!other) || ORDER.compare(one, other))
    .map(([name, tiles]) => groupOf(name, tiles, aspect, grouping.kind === "none" ? 0 : unit, isDomain));
  const size = pack(groups, aspect, GROUP_GAP * unit);
  for (const group of groups) {
    for (const box of [...group.tiles, ...group.clusters]) {
      box.x += group.x;
      box.y += group.y;
    }
  }
  return { groups, tiles: groups.flatMap((group) => group.tiles), width: size.w, height: size.h };
}

function nameOf(fleet: Fleet, grouping: Grouping, node: FleetNode): string {
  if (node.isPool && grouping.kind !== "none") return "devices of several nodes";
  switch (grouping.kind) {
    case "none":
      return "";
    case "domain":
      return node.domain;
    case "group":
      return node.group;
    case "label":
      return fleet.labels.get(grouping.key)?.[node.row] ?? "";
  }
}

/** `unit` is the scale of the title; 0 without one. */
function groupOf(name: string, tiles: Tile[], aspect: number, unit: number, isDomain: boolean): Group {
  tiles.sort((one, other) => Number(one.node.isPool) - Number(other.node.isPool) || ORDER.compare(one.node.name, other.node.name));
  const clustered = new Map<string, Tile[]>();
  for (const tile of tiles) {
    const domain = isDomain ? "" : tile.node.domain;
    const known = clustered.get(domain);
    if (known) known.push(tile);
    else clustered.set(domain, [tile]);
  }
  const parts = [...clustered].sort(([one], [other]) => Number(!one) - Number(!other) || ORDER.compare(one, other));
  const blocks = parts.map(([domain, members]) => {
    const size = pack(members, aspect, TILE_GAP);
    const pad = domain ? CLUSTER_PAD : 0;
    const head = domain ? CLUSTER_HEAD : 0;
    return { x: 0, y: 0, w: size.w + 2 * pad, h: size.h + pad + head, pad, head, domain, members };
  });
  const size = pack(blocks, aspect, TILE_GAP * 2);
  const top = GROUP_HEAD * unit;
  const clusters: Cluster[] = [];
  for (const block of blocks) {
    if (block.domain) clusters.push({ name: block.domain, x: block.x, y: block.y + top, w: block.w, h: block.h });
    for (const tile of block.members) {
      tile.x += block.x + block.pad;
      tile.y += block.y + block.head + top;
    }
  }
  const devices = tiles.reduce((sum, tile) => sum + tile.node.devices.length, 0);
  return { name, tiles, clusters, devices, head: top, x: 0, y: 0, w: Math.max(size.w, titleWidth(name) * unit), h: size.h + top };
}

/** Room for most of a title. */
const titleWidth = (name: string): number => Math.min(140, 7 * (name.length || UNNAMED.length) + 36);

/** Puts boxes into rows, as wide as fits best into a frame with this aspect. */
function pack(boxes: Box[], aspect: number, gap: number): { w: number; h: number } {
  const area = boxes.reduce((sum, box) => sum + (box.w + gap) * (box.h + gap), 0);
  const widest = boxes.reduce((most, box) => Math.max(most, box.w), 0);
  const widths = FACTORS.map((factor) => Math.max(widest, Math.sqrt(area * aspect) * factor));
  const need = widths.map((width) => {
    const size = shelve(boxes, width, gap);
    return Math.max(size.w / aspect, size.h);
  });
  return shelve(boxes, widths[need.indexOf(Math.min(...need))] ?? widest, gap);
}

/** Puts boxes into rows that are at most so wide, and returns the size of all. */
function shelve(boxes: Box[], most: number, gap: number): { w: number; h: number } {
  let x = 0;
  let y = 0;
  let row = 0;
  let width = 0;
  for (const box of boxes) {
    if (x > 0 && x + box.w > most + 0.5) {
      x = 0;
      y += row + gap;
      row = 0;
    }
    box.x = x;
    box.y = y;
    x += box.w + gap;
    row = Math.max(row, box.h);
    width = Math.max(width, x - gap);
  }
  return { w: width, h: y + row };
}

function tileOf(node: FleetNode): Tile {
  const roots = new Map<string, Cell[]>();
  const cards = new Map<string, Cell>();
  for (const device of node.devices) {
    const key = device.card && `${device.driver}\0${device.pool}\0${device.card}`;
    const card = key ? cards.get(key) : undefined;
    if (card) {
      card.devices.push(device);
      continue;
    }
    const cell: Cell = { x: 0, y: 0, w: key ? CARD_WIDTH : CELL, h: CELL, devices: [device], isCard: key !== "" };
    if (key) cards.set(key, cell);
    const known = roots.get(device.root);
    if (known) known.push(cell);
    else roots.set(device.root, [cell]);
  }
  const blocks = [...roots].sort(([one], [other]) => Number(!one) - Number(!other)).map(([root, cells]) => {
    const columns = roots.size === 1 ? Math.ceil(Math.sqrt(2 * cells.length)) : Math.ceil(Math.sqrt(cells.length / 2));
    const widest = Math.max(...cells.map((cell) => cell.w));
    const size = shelve(cells, columns * (widest + GAP) - GAP, GAP);
    return { x: 0, y: 0, ...size, root, cells };
  });
  const perRow = blocks.length <= 5 ? blocks.length : Math.ceil(Math.sqrt(2 * blocks.length));
  const widest = Math.max(0, ...blocks.map((block) => block.w));
  const size = shelve(blocks, perRow * (widest + ROOT_GAP) - ROOT_GAP, ROOT_GAP);
  for (const block of blocks) {
    block.x += PAD;
    block.y += HEAD;
    for (const cell of block.cells) {
      cell.x += block.x;
      cell.y += block.y;
    }
  }
  return {
    node,
    x: 0,
    y: 0,
    w: Math.max(size.w, 4 * CELL) + 2 * PAD,
    h: size.h + HEAD + PAD,
    cells: blocks.flatMap((block) => block.cells),
    roots: blocks.filter((block) => block.root && block.cells.length > 1),
  };
}

/** Names of nodes can be read from this scale on. */
export const hasNames = (scale: number): boolean => scale >= NAMED_SCALE;

/** The place of a cell on the map. From far, where no name can be read, the cells fill the whole tile. */
export function placeOf(tile: Tile, box: Box, scale: number): Box {
  if (hasNames(scale)) return { x: tile.x + box.x, y: tile.y + box.y, w: box.w, h: box.h };
  const wide = (tile.w - 2 * FAR_PAD) / (tile.w - 2 * PAD);
  const high = (tile.h - 2 * FAR_PAD) / (tile.h - HEAD - PAD);
  return {
    x: tile.x + FAR_PAD + (box.x - PAD) * wide,
    y: tile.y + FAR_PAD + (box.y - HEAD) * high,
    w: box.w * wide,
    h: box.h * high,
  };
}
