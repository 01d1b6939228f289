// Follows the server of `dovetail page`: asks for its state every few seconds, and for the picture where it is another one.
import { useEffect, useState } from "preact/hooks";
import { fleetOf, type Fleet, type FleetDocument } from "./fleet";
import { rememberedToken, TOKEN_CHANGED } from "./preferences";

export interface Lost {
  /** In milliseconds. */
  since: number;
  message: string;
}

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

interface PageState {
  picture: string | null;
  ageSeconds: number | null;
  failure: { since: string; message: string } | null;
  hasDecisions: boolean;
  hasFit: boolean;
  namespace: string;
}

const PAUSE = 2_000;
const PATIENCE = 60_000;
/** Durations in the picture are those of its time, so the same picture is drawn again after a while. */
const REDRAW = 60_000;

const UNAUTHORIZED = 401;
const FORBIDDEN = 403;

class RefusedError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Raises where the server does not answer, or refuses: its message says why. */
export async function ask<Answer>(path: string, options: RequestInit = {}): Promise<Answer> {
  let response: Response;
  const token = rememberedToken();
  const headers = { ...options.headers, ...(token && { "Dovetail-Authorization": `Bearer ${token}` }) };
  try {
    response = await fetch(`v1alpha1/${path}`, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE), ...options, headers });
  } catch {
    throw new Error("the server of this page does not answer");
  }
  if (response.ok) return (await response.json()) as Answer;
  const refusal = (await response.json().catch(() => ({}))) as { message?: string };
  const message = refusal.message ?? `the server of this page answers with status ${response.status}`;
  throw new RefusedError(response.status, token || response.status !== UNAUTHORIZED ? message : "");
}

export function useLive(): Live {
  const [live, setLive] = useState<Live>({ fleet: null, readAt: null, lost: null, wanted: null, hasDecisions: false, hasFit: false, namespace: "" });
  useEffect(() => follow((change) => setLive(change)), []);
  return live;
}

type Change = (change: (before: Live) => Live) => void;

/** Asks until the returned function is called; never while the page is in the background. */
function follow(show: Change): () => void {
  let timer = 0;
  let isOver = false;
  let shown = "";
  const step = async (): Promise<void> => {
    if (document.hidden || isOver) return;
    try {
      const state = await ask<PageState>("state");
      const fleet = state.picture !== null && state.picture !== shown ? await picture() : null;
      shown = state.picture ?? "";
      show((before) => told(before, state, fleet));
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const status = error instanceof RefusedError ? error.status : 0;
      if (status === UNAUTHORIZED) {
        show((before) => ({ ...before, wanted: message })); // and nothing is asked until there is another token
        return;
      }
      if (status === FORBIDDEN) shown = "";
      const kept = (before: Live): Live => (status === FORBIDDEN ? { ...before, fleet: null, readAt: null } : before);
      show((before) => ({ ...kept(before), wanted: null, lost: { since: before.lost?.since ?? Date.now(), message } }));
    }
    timer = window.setTimeout(() => void step(), PAUSE);
  };
  const again = (): void => {
    clearTimeout(timer);
    void step();
  };
  document.addEventListener("visibilitychange", again);
  document.addEventListener(TOKEN_CHANGED, again);
  void step();
  return () => {
    isOver = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", again);
    document.removeEventListener(TOKEN_CHANGED, again);
  };
}

let version = "";

async function picture(): Promise<Fleet> {
  const found = await ask<FleetDocument>("map");
  if (version && found.version !== version) location.reload(); // the server is another one, with a page of its own
  version = found.version;
  return fleetOf(found);
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
