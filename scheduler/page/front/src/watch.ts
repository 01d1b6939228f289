// Watches a document of the server: the whole of it, then what changes, as Server-Sent Events.
//
// They are read by `fetch`: an `EventSource` cannot send the token of its reader in a header. So the page has one way,
// with and without a token, through `kubectl proxy` and a forwarded port.
import { unpacked } from "./packed";
import { TOKEN_CHANGED } from "./preferences";
import { FORBIDDEN, RefusedError, request, UNAUTHORIZED } from "./server";

/** The server says something every 5 seconds, after its first answer. */
const SILENCE = 15_000;
const PATIENCE = 60_000;
const FIRST_PAUSE = 1_000;
const LONGEST_PAUSE = 30_000;

export interface Lost {
  /** In milliseconds. */
  since: number;
  message: string;
}

/** What the server says of the document's age (scheduler/page/page_watches.py). */
export interface PageState {
  ageSeconds: number | null;
  failure: { since: string; message: string } | null;
  hasDecisions: boolean;
  hasFit: boolean;
  namespace: string;
}

/** See scheduler/page/watched_document.py. */
export interface Change {
  tables: Record<string, (number | unknown[])[]>;
  fields: Record<string, unknown>;
}

export interface Watcher<Document> {
  whole(document: Document): void;
  change(change: Change): void;
  state(state: PageState): void;
  /** The server does not answer or refuses; with `isForbidden` nothing may be shown any more. It is asked again. */
  lost(lost: Lost, isForbidden: boolean): void;
  /** The server wants a token: its words. It is asked again when there is another one. */
  wanted(message: string): void;
}

/** Watches until the returned function is called; never while the page is in the background. */
export function watch<Document>(path: string, watcher: Watcher<Document>): () => void {
  let timer = 0;
  let failures = 0;
  let tag = "";
  let lost: number | null = null;
  let current = new AbortController();
  /** Unpacks an event; what is returned tells of it. */
  const read = async ({ name, data }: ServerEvent): Promise<() => void> => {
    if (name === "refused") {
      const { code, message } = JSON.parse(data) as { code: number; message: string };
      throw new RefusedError(code, message);
    }
    if (name === "state") {
      const state = JSON.parse(data) as PageState;
      return () => watcher.state(state);
    }
    if (name === "heartbeat") return () => undefined;
    const found = await unpacked<Document | Change>(data);
    return () => (name === "change" ? watcher.change(found as Change) : watcher.whole(found as Document));
  };
  const step = async (own: AbortController): Promise<void> => {
    let heard = 0;
    try {
      for await (const event of events(path, tag, own)) {
        heard = Date.now();
        const tell = await read(event);
        if (own !== current) return;
        tell();
        tag = event.id || tag;
        failures = 0;
        lost = null;
      }
      throw new Error("the server of this page has ended the connection");
    } catch (error) {
      if (own !== current) return;
      own.abort();
      const { status, pause } = error instanceof RefusedError ? error : { status: 0, pause: 0 };
      const message = error instanceof Error ? error.message : String(error);
      if (status === UNAUTHORIZED || status === FORBIDDEN) tag = "";
      if (status === UNAUTHORIZED) {
        watcher.wanted(message);
        return;
      }
      lost ??= heard || Date.now();
      watcher.lost({ since: lost, message }, status === FORBIDDEN);
      const wait = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** failures) * (0.75 + Math.random() / 2);
      failures += 1;
      timer = window.setTimeout(again, Math.max(pause, wait));
    }
  };
  const again = (): void => {
    clearTimeout(timer);
    const before = current;
    current = new AbortController();
    before.abort();
    if (!document.hidden) void step(current);
  };
  const end = (): void => {
    clearTimeout(timer);
    current.abort();
    current = new AbortController();
    for (const [target, name] of OCCASIONS) target.removeEventListener(name, again);
  };
  for (const [target, name] of OCCASIONS) target.addEventListener(name, again);
  again();
  return end;
}

/** When it is asked at once: the page is seen again or left, there is another token, or a network. */
const OCCASIONS: readonly [EventTarget, string][] = [
  [document, "visibilitychange"],
  [document, TOKEN_CHANGED],
  [window, "online"],
];

interface ServerEvent {
  name: string;
  data: string;
  id: string;
}

/** Reads events until the server ends them. Raises where it refuses, is gone, or is silent for long. */
async function* events(path: string, tag: string, own: AbortController): AsyncGenerator<ServerEvent> {
  let silence = "";
  let timer = 0;
  const expect = (milliseconds: number): void => {
    clearTimeout(timer);
    timer = window.setTimeout(() => {
      silence = `the server of this page has been silent for ${milliseconds / 1000} s`;
      own.abort();
    }, milliseconds);
  };
  try {
    expect(PATIENCE);
    const response = await request(path, { signal: own.signal, headers: tag ? { "Last-Event-ID": tag } : {} });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      expect(SILENCE);
      const piece = await reader?.read();
      if (!piece || piece.done) return;
      const parts = (rest + piece.value).split("\n\n");
      rest = parts.pop() ?? "";
      for (const each of parts) yield eventOf(each);
    }
  } catch (error) {
    throw error instanceof RefusedError ? error : new Error(silence || "the server of this page does not answer");
  } finally {
    clearTimeout(timer);
  }
}

function eventOf(text: string): ServerEvent {
  const fields = new Map(text.split("\n").map((line): [string, string] => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
  return { name: fields.get("event") ?? "", data: fields.get("data") ?? "", id: fields.get("id") ?? "" };
}

/** Returns the document that a change makes of another one; the rows that stay are the same objects. */
export function changed<Document extends object>(before: Document, { tables, fields }: Change): Document {
  const after: Record<string, unknown> = { ...before, ...fields };
  for (const [name, operations] of Object.entries(tables)) after[name] = spliced(after[name] as unknown[], operations);
  return after as Document;
}

function spliced(rows: unknown[], operations: (number | unknown[])[]): unknown[] {
  const found: unknown[] = [];
  let at = 0;
  for (const each of operations) {
    if (typeof each === "number") {
      for (const end = at + Math.abs(each); at < end; at += 1) if (each > 0) found.push(rows[at]);
    } else for (const row of each) found.push(row);
  }
  return found;
}
