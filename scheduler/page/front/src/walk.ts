// Where the arrow keys lead: from device to device, and to the tiles above and below.
import type { Layout, Tile } from "./layout";
import type { Place } from "./paint";

export function next(layout: Layout, from: Place | null, key: string): Place | null {
  const [first] = layout.tiles;
  if (!first) return null;
  if (!from) return { tile: first, cell: first.cells[0] ?? null };
  if (key === "ArrowUp" || key === "ArrowDown") {
    const tile = beside(layout, from.tile, key === "ArrowUp" ? -1 : 1);
    return tile ? { tile, cell: tile.cells[0] ?? null } : from;
  }
  const step = key === "ArrowLeft" ? -1 : 1;
  const at = from.cell ? from.tile.cells.indexOf(from.cell) + step : step > 0 ? 0 : -1;
  const cell = from.tile.cells[at];
  if (cell && at >= 0) return { tile: from.tile, cell };
  const tile = layout.tiles[layout.tiles.indexOf(from.tile) + step];
  return tile ? { tile, cell: tile.cells.at(step > 0 ? 0 : -1) ?? null } : from;
}

/** The nearest tile above or below. */
function beside(layout: Layout, from: Tile, direction: number): Tile | null {
  let best: Tile | null = null;
  let least = Infinity;
  for (const tile of layout.tiles) {
    const down = (tile.y - from.y) * direction;
    if (down <= 0.5) continue;
    const distance = down + 3 * Math.abs(tile.x - from.x);
    if (distance < least) [best, least] = [tile, distance];
  }
  return best;
}
