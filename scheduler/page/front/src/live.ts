// Follows the map and the queue of the server of `dovetail page`.
import { useEffect, useState } from "preact/hooks";
import { fleetOf, type Fleet } from "./fleet";
import { rowsOf, type FleetDocument, type FleetRows } from "./rows";
import { changed, watch, type Lost, type PageState } from "./watch";

export interface Connection {
  /** When the fleet was read, in milliseconds of this browser's clock; null: nothing has been read yet. */
  readAt: number | null;
  lost: Lost | null;
  /** The server asks for a token: its words. */
  wanted: string | null;
  /** Whether the server answers about decisions. */
  hasDecisions: boolean;
  /** Whether it answers about manifests; objects in these that name no namespace are in `namespace`. */
  hasFit: boolean;
  namespace: string;
}

export interface Live extends Connection {
  fleet: Fleet | null;
}

/** Durations in the picture are those of its time, so the same picture is drawn again after a while. */
const REDRAW = 60_000;

export function useLive(): Live {
  const [live, setLive] = useState<Live>({ fleet: null, readAt: null, lost: null, wanted: null, hasDecisions: false, hasFit: false, namespace: "" });
  useEffect(() => follow(setLive), []);
  return live;
}

function follow(show: (change: (before: Live) => Live) => void): () => void {
  let version = "";
  let rows: FleetRows | null = null;
  let made: Fleet | null = null;
  const draw = (found: FleetRows): void => {
    rows = found;
    made = fleetOf(found);
  };
  return watch<FleetDocument>("map?watch=true", {
    whole: (found) => {
      if (version && found.version !== version) location.reload(); // the server is another one, with a page of its own
      version = found.version;
      draw(rowsOf(found));
    },
    change: (change) => rows && draw(changed(rows, change)),
    state: (state) => {
      const found = made;
      made = null;
      show((before) => told(before, state, found));
    },
    lost: (lost, isForbidden) => {
      if (isForbidden) rows = made = null;
      const kept = (before: Live): Live => (isForbidden ? { ...before, fleet: null, readAt: null } : before);
      show((before) => ({ ...kept(before), wanted: null, lost }));
    },
    wanted: (wanted) => {
      rows = made = null;
      show((before) => ({ ...before, fleet: null, readAt: null, wanted }));
    },
  });
}

/** The state before, with what the server has said. */
function told(before: Live, state: PageState, found: Fleet | null): Live {
  const readAt = state.ageSeconds === null ? before.readAt : Date.now() - state.ageSeconds * 1000;
  const lost = state.failure && { since: Date.parse(state.failure.since), message: state.failure.message };
  const fleet = found ?? before.fleet;
  const passed = readAt && before.readAt && fleet === before.fleet && fleet ? readAt - (fleet.drawnAt ?? before.readAt) : 0;
  const { hasDecisions, hasFit, namespace } = state;
  const connection = { readAt, lost, wanted: null, hasDecisions, hasFit, namespace };
  if (!fleet || passed < REDRAW) return { ...connection, fleet: found ? { ...found, drawnAt: readAt ?? 0 } : fleet };
  return { ...connection, fleet: { ...fleet, readAt: fleet.readAt + passed, drawnAt: readAt ?? 0 } };
}
