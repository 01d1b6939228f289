// Draws the map. From far a cell is one rectangle on whole pixels, which is fast; from near it has shape, marks and text.
import type { Palette, Scheme } from "./colours";
import type { Device } from "./fleet";
import { hasNames, HEAD, placeOf, UNNAMED, type Box, type Cell, type Group, type Layout, type Tile } from "./layout";
import type { Matches } from "./search";
import { counted, duration } from "./text";

export interface Camera {
  x: number;
  y: number;
  scale: number;
}

/** A cell of a tile, or the tile itself. */
export interface Place {
  tile: Tile;
  cell: Cell | null;
}

export interface Picture {
  layout: Layout;
  /** What the nodes are grouped by: while it is the same, another layout keeps the view. */
  grouping: string;
  scheme: Scheme;
  palette: Palette;
  matches: Matches;
  selected: Place | null;
  readAt: number;
}

const FONT = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const NEAR = 9;
const ROUND = 13;
const TEXT = 44;
const DIM = 0.16;

interface Part {
  from: number;
  to: number;
  colour: string;
}

/** Returns the coloured parts of a cell: partitions of a card from left to right, shares of a device from below. */
function partsOf(cell: Cell, scheme: Scheme): Part[] {
  let at = 0;
  const parts: Part[] = [];
  for (const device of cell.devices) {
    for (const holder of device.holders) {
      if (holder.admin || at >= 1) continue;
      const size = cell.isCard ? device.part / Math.max(1, device.holders.length) : device.used >= 0 ? holder.part : 1;
      parts.push({ from: at, to: Math.min(1, at + size), colour: scheme.ofHolder(device, holder) });
      at += size;
    }
  }
  return parts;
}

/** The device that says what is left of a card: a free one, if there is any. */
export function restOf(cell: Cell): Device | undefined {
  const open = cell.devices.filter((device) => !device.holders.length);
  return open.find((device) => device.state === "free") ?? open[0] ?? cell.devices[0];
}

const known = new WeakMap<Scheme, Map<Cell, Part[]>>();

function partsIn(scheme: Scheme, cell: Cell): Part[] {
  let cells = known.get(scheme);
  if (!cells) known.set(scheme, (cells = new Map()));
  let parts = cells.get(cell);
  if (!parts) cells.set(cell, (parts = partsOf(cell, scheme)));
  return parts;
}

export class Painter {
  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly picture: Picture,
    private readonly camera: Camera,
    private readonly size: { w: number; h: number; ratio: number },
  ) {}

  paint(): void {
    const { context, picture, size } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.globalAlpha = 1;
    context.fillStyle = picture.palette.background;
    context.fillRect(0, 0, size.w, size.h);
    for (const group of picture.layout.groups) {
      if (!this.isSeen(group)) continue;
      this.clusters(group);
      for (const tile of group.tiles) if (this.isSeen(tile)) this.tile(tile);
      this.heading(group);
    }
    this.outlines();
  }

  private get scale(): number {
    return this.camera.scale * this.size.ratio;
  }

  private x(value: number): number {
    return Math.round((value - this.camera.x) * this.scale);
  }

  private y(value: number): number {
    return Math.round((value - this.camera.y) * this.scale);
  }

  private isSeen(box: Box): boolean {
    const { camera, scale, size } = this;
    const x = (box.x - camera.x) * scale;
    const y = (box.y - camera.y) * scale;
    return x < size.w && y < size.h && x + box.w * scale > 0 && y + box.h * scale > 0;
  }

  private font(pixels: number, weight = 400): void {
    this.context.font = `${weight} ${pixels * this.size.ratio}px ${FONT}`;
  }

  private heading(group: Group): void {
    const { context, picture, size, scale } = this;
    const room = group.w * scale - 2 * size.ratio;
    const high = group.head * this.camera.scale;
    const pixels = Math.min(14, Math.max(9, high * 0.62));
    if (high < 9 || room < 30 * size.ratio) return;
    this.font(pixels, 600);
    context.fillStyle = picture.palette.ink;
    context.textBaseline = "alphabetic";
    const nodes = `${counted(group.tiles.length, "node")}, ${counted(group.devices, "device")}`;
    const baseline = this.y(group.y + group.head) - Math.round(Math.min(7, high * 0.3) * size.ratio);
    const name = this.fitted(group.name || UNNAMED, room);
    context.fillText(name, this.x(group.x), baseline);
    const used = context.measureText(name).width + 10 * size.ratio;
    this.font(pixels * 0.86);
    if (used + context.measureText(nodes).width < room) {
      context.fillStyle = picture.palette.quiet;
      context.fillText(nodes, this.x(group.x) + used, baseline);
    }
  }

  private clusters(group: Group): void {
    const { context, picture, scale, size } = this;
    for (const cluster of group.clusters) {
      if (!this.isSeen(cluster)) continue;
      context.fillStyle = picture.palette.cluster;
      context.strokeStyle = picture.palette.clusterLine;
      context.lineWidth = size.ratio;
      this.shape(this.x(cluster.x), this.y(cluster.y), Math.round(cluster.w * scale), Math.round(cluster.h * scale), Math.min(3 * scale, 11 * size.ratio));
      context.fill();
      if (scale > 0.4) context.stroke();
      if (this.camera.scale >= 1.1) {
        this.font(Math.min(12, 5.6 * this.camera.scale));
        context.fillStyle = picture.palette.quiet;
        context.textBaseline = "middle";
        const text = this.fitted(`NVLink domain ${cluster.name}`, (cluster.w - 8) * scale);
        context.fillText(text, this.x(cluster.x + 4), this.y(cluster.y + 4.4));
      }
    }
  }

  private tile(tile: Tile): void {
    const { context, picture, scale, size } = this;
    const [x, y, w, h] = [this.x(tile.x), this.y(tile.y), Math.round(tile.w * scale), Math.round(tile.h * scale)];
    const isDim = picture.matches.devices !== null && !picture.matches.nodes.has(tile.node);
    context.globalAlpha = isDim ? 0.5 : 1;
    context.fillStyle = picture.palette.tile;
    if (10 * scale < NEAR * size.ratio) context.fillRect(x, y, w, h);
    else {
      this.shape(x + 0.5, y + 0.5, w - 1, h - 1, Math.min(2.5 * scale, 9 * size.ratio));
      context.fill();
      context.strokeStyle = tile.node.exists ? picture.palette.tileLine : picture.palette.missing;
      context.lineWidth = size.ratio;
      context.setLineDash(tile.node.exists && tile.cells.length ? [] : [3 * size.ratio, 3 * size.ratio]);
      context.stroke();
      context.setLineDash([]);
      this.roots(tile);
    }
    if (hasNames(this.camera.scale)) this.name(tile, isDim);
    for (const cell of tile.cells) this.cell(tile, cell);
    context.globalAlpha = 1;
  }

  private roots(tile: Tile): void {
    const { context, picture, scale, size } = this;
    context.fillStyle = picture.palette.cluster;
    for (const root of tile.roots) {
      const place = placeOf(tile, root, this.camera.scale);
      this.shape(
        this.x(place.x - 1.3),
        this.y(place.y - 1.3),
        Math.round((place.w + 2.6) * scale),
        Math.round((place.h + 2.6) * scale),
        Math.min(1.6 * scale, 5 * size.ratio),
      );
      context.fill();
    }
  }

  private name(tile: Tile, isDim: boolean): void {
    const { context, picture, scale } = this;
    this.font(Math.min(13, 5 * this.camera.scale), 500);
    context.fillStyle = isDim || !tile.cells.length ? picture.palette.quiet : picture.palette.ink;
    context.textBaseline = "middle";
    context.fillText(this.fitted(tile.node.name, (tile.w - 6) * scale), this.x(tile.x + 3), this.y(tile.y + HEAD / 2 + 0.2));
  }

  private cell(tile: Tile, cell: Cell): void {
    const { context, picture, scale, size } = this;
    const place = placeOf(tile, cell, this.camera.scale);
    const [x, y] = [this.x(place.x), this.y(place.y)];
    const w = Math.max(1, Math.round(place.w * scale));
    const h = Math.max(1, Math.round(place.h * scale));
    const found = picture.matches.devices;
    context.globalAlpha = found === null || cell.devices.some((device) => found[device.row]) ? 1 : DIM;
    const rest = restOf(cell);
    const parts = partsIn(picture.scheme, cell);
    const pixels = h / size.ratio;
    if (pixels < NEAR) {
      const first = parts[0];
      const isWhole = first !== undefined && !cell.isCard && first.to >= 0.5;
      context.fillStyle = isWhole ? first.colour : rest ? picture.scheme.ofRest(rest) : picture.palette.unknown;
      context.fillRect(x, y, w, h);
      if (!isWhole && first) this.fillParts(cell, parts, x, y, w, h);
      return;
    }
    const isClipped = parts.length > 1 || (parts[0] !== undefined && parts[0].to < 1);
    if (isClipped) context.save();
    context.fillStyle = (isClipped ? undefined : parts[0]?.colour) ?? (rest ? picture.scheme.ofRest(rest) : picture.palette.unknown);
    this.shape(x, y, w, h, pixels >= ROUND ? Math.min(h * 0.16, 5 * size.ratio) : 0);
    context.fill();
    if (isClipped) {
      context.clip();
      this.fillParts(cell, parts, x, y, w, h);
      context.restore();
    }
    this.marks(cell, parts, x, y, w, h);
    if (pixels >= TEXT) this.words(cell, parts, x, y, w, h);
  }

  private fillParts(cell: Cell, parts: Part[], x: number, y: number, w: number, h: number): void {
    const { context, size } = this;
    for (const part of parts) {
      context.fillStyle = part.colour;
      if (cell.isCard) {
        const left = x + Math.round(w * part.from);
        const gap = part.to < 1 && h >= NEAR * size.ratio ? size.ratio : 0;
        context.fillRect(left, y, Math.max(1, x + Math.round(w * part.to) - left - gap), h);
      } else {
        const top = y + h - Math.round(h * part.to);
        const gap = part.to < 1 && part.from > 0 ? size.ratio : 0;
        context.fillRect(x, top + gap, w, Math.max(1, y + h - Math.round(h * part.from) - top - gap));
      }
    }
  }

  private marks(cell: Cell, parts: Part[], x: number, y: number, w: number, h: number): void {
    const { context, picture, size } = this;
    const { palette } = picture;
    context.lineWidth = size.ratio;
    const isWhole = (parts.at(-1)?.to ?? 0) >= 1;
    if (!isWhole) {
      context.strokeStyle = palette.freeLine;
      this.shape(x + 0.5, y + 0.5, w - 1, h - 1, h >= ROUND * size.ratio ? Math.min(h * 0.16, 5 * size.ratio) : 0);
      context.stroke();
    }
    if (!parts.length && cell.devices.every((device) => device.state === "unusable")) {
      context.strokeStyle = palette.slash;
      context.lineWidth = 1.4 * size.ratio;
      const long = Math.min(h * 0.5, 18 * size.ratio);
      const hasWords = h >= TEXT * size.ratio;
      const [left, bottom] = hasWords ? [x + w - 1.5 * long, y + h - 0.5 * long] : [x + (w - long) / 2, y + (h + long) / 2];
      context.beginPath();
      context.moveTo(left, bottom);
      context.lineTo(left + long, bottom - long);
      context.stroke();
    } else if (!parts.length && cell.devices.every((device) => device.state === "blocked")) {
      context.fillStyle = palette.quiet;
      const dot = Math.min(h * 0.1, 3 * size.ratio);
      for (const at of [-2, 0, 2]) context.fillRect(x + w / 2 + (at - 0.5) * dot, y + h * 0.7 - dot / 2, dot, dot);
    }
    const isGone = cell.devices.some((device) => device.holders.some((each) => each.claim.pods.some((pod) => pod.gone)));
    const isOdd = cell.devices.some((device) => device.holders.length && (device.cause || device.suspect));
    if (isGone || isOdd) {
      context.fillStyle = palette.tile;
      context.strokeStyle = isGone ? palette.slash : palette.warning;
      context.lineWidth = 1.4 * size.ratio;
      const radius = Math.min(h * 0.13, 4 * size.ratio);
      context.beginPath();
      context.arc(x + w - 1.9 * radius, y + 1.9 * radius, radius, 0, 2 * Math.PI);
      context.fill();
      context.stroke();
    }
  }

  private words(cell: Cell, parts: Part[], x: number, y: number, w: number, h: number): void {
    const { context, picture, size } = this;
    const device = cell.devices.find((each) => each.holders.length) ?? cell.devices[0];
    if (!device) return;
    const holder = device.holders[0];
    const lines = [cell.isCard ? device.card : device.name];
    if (holder) lines.push(holder.claim.pods[0]?.name ?? holder.claim.name, holder.claim.namespace);
    else lines.push(device.state === "unusable" ? device.cause : device.state);
    if (holder && !Number.isNaN(holder.claim.since)) lines.push(duration((picture.readAt - holder.claim.since) / 1000));
    const pixels = Math.min(12, h / size.ratio / 6);
    const step = pixels * 1.35 * size.ratio;
    const isFilled = (parts[0]?.to ?? 0) > 0.8;
    context.fillStyle = isFilled ? readable(parts[0]?.colour ?? picture.palette.free) : picture.palette.ink;
    context.textBaseline = "top";
    for (const [at, line] of lines.slice(0, Math.floor((h * 0.9) / step)).entries()) {
      this.font(pixels, at === 0 ? 600 : 400);
      context.fillText(this.fitted(line, w - pixels * size.ratio), x + (pixels * size.ratio) / 2, y + h * 0.08 + at * step);
    }
  }

  private outlines(): void {
    const { selected, palette } = this.picture;
    if (!selected) return;
    this.outline(selected.tile, null, palette.accent, selected.cell ? 1 : 2.5);
    if (selected.cell) this.outline(selected.tile, selected.cell, palette.accent, 2.5);
  }

  private outline(tile: Tile, cell: Cell | null, colour: string, width: number): void {
    const { context, size, scale } = this;
    const box = cell ? placeOf(tile, cell, this.camera.scale) : tile;
    const out = (cell ? 2 : 1) * size.ratio;
    context.strokeStyle = colour;
    context.lineWidth = width * size.ratio;
    const [w, h] = [Math.round(box.w * scale) + 2 * out, Math.round(box.h * scale) + 2 * out];
    this.shape(this.x(box.x) - out, this.y(box.y) - out, w, h, 3 * size.ratio);
    context.stroke();
  }

  private shape(x: number, y: number, w: number, h: number, radius: number): void {
    this.context.beginPath();
    this.context.roundRect(x, y, Math.max(0, w), Math.max(0, h), Math.max(0, Math.min(radius, w / 2, h / 2)));
  }

  /** Shortens a text in its middle until it fits. */
  private fitted(text: string, room: number): string {
    const width = this.context.measureText(text).width;
    if (width <= room) return text;
    const kept = Math.floor((text.length * room) / width) - 1;
    if (kept < 2) return "";
    const front = Math.ceil(kept / 2);
    return `${text.slice(0, front)}…${text.slice(text.length - (kept - front))}`;
  }
}

/** Returns black or white, whichever is easier to read on a colour. */
function readable(colour: string): string {
  const value = Number.parseInt(colour.slice(1), 16);
  const light = 0.2126 * ((value >> 16) & 255) + 0.7152 * ((value >> 8) & 255) + 0.0722 * (value & 255);
  return light > 140 ? "#12161c" : "#ffffff";
}
