// What the running scheduler decided, how well, and what happened to pods: the answers of `dovetail history`.
import { useEffect, useState } from "preact/hooks";
import { useNow } from "./now";
import { clock, count, duration, second, visible } from "./text";
import { changed, watch, type Lost } from "./watch";

interface DecisionRow {
  time: string;
  decision: number;
  pods: number;
  placed: number;
  waiting: number;
  nominated: number;
  seconds: number;
  status: string;
  levels: string[];
}

interface EventRow {
  time: string;
  decision: number;
  namespace: string;
  pod: string;
  what: string;
  node: string;
  devices: string;
  why: string;
}

interface Decisions {
  oldest: string | null;
  truncated: boolean;
  hidden: { pods?: number; devices?: number; namespaces?: number };
  decisions: DecisionRow[];
  events: EventRow[];
}

interface Answer {
  found: Decisions | null;
  /** When the scheduler was asked, in milliseconds. */
  askedAt: number;
  lost: Lost | null;
}

const NOTHING: Answer = { found: null, askedAt: 0, lost: null };

/** Follows what the scheduler remembers; what was found stays while it does not answer. */
function useDecisions(query: string): Answer {
  const [answer, setAnswer] = useState(NOTHING);
  useEffect(() => {
    setAnswer(NOTHING);
    return watch<Decisions>(`decisions?watch=true${query}`, {
      whole: (found) => setAnswer((before) => ({ ...before, found })),
      change: (change) => setAnswer((before) => ({ ...before, found: before.found && changed(before.found, change) })),
      state: () => setAnswer((before) => ({ ...before, askedAt: Date.now(), lost: null })),
      lost: (lost, isForbidden) => setAnswer((before) => ({ ...(isForbidden ? NOTHING : before), lost })),
      wanted: (message) => setAnswer({ ...NOTHING, lost: { since: Date.now(), message } }),
    });
  }, [query]);
  return answer;
}

export function DecisionsView() {
  const answer = useDecisions("");
  const { found } = answer;
  return (
    <section class="view" aria-labelledby="decisions-title">
      <div class="view-head">
        <h2 id="decisions-title">The last decisions</h2>
        <Remark {...answer} />
      </div>
      <Problem {...answer} />
      {found && !found.decisions.length && <p class="hint">Nothing was decided in the last 24 hours that the scheduler remembers.</p>}
      {found && found.decisions.length > 0 && <DecisionTable rows={found.decisions} />}
      {found && found.events.length > 0 && (
        <>
          <h2 class="later">What happened to pods</h2>
          <EventTable rows={found.events} />
        </>
      )}
    </section>
  );
}

export function PodView({ namespace, name }: { namespace: string; name: string }) {
  const answer = useDecisions(`&namespace=${encodeURIComponent(namespace)}&pod=${encodeURIComponent(name)}`);
  const { found } = answer;
  return (
    <section class="view" aria-labelledby="pod-title">
      <div class="view-head">
        <h2 id="pod-title">
          The way of pod {visible(name)} <span class="quiet">{visible(namespace)}</span>
        </h2>
        <Remark {...answer} />
      </div>
      <Problem {...answer} />
      {found && !found.events.length && <p class="hint">The scheduler remembers nothing of this pod.</p>}
      {found && found.events.length > 0 && <EventTable rows={found.events} />}
    </section>
  );
}

/** What stands there where the server knows no scheduler that it could ask. */
export function NoDecisions() {
  return (
    <section class="view" aria-labelledby="decisions-title">
      <div class="view-head">
        <h2 id="decisions-title">The last decisions</h2>
      </div>
      <p class="hint">
        This page has no decisions: it is not connected to the API of a running scheduler. That API is off by default
        (docs/page.md says how to switch it on).
      </p>
    </section>
  );
}

export const wayOf = (namespace: string, name: string): string => `#pod/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;

function Problem({ found, lost }: Answer) {
  const since = lost && found ? `Connection lost since ${second(lost.since)} UTC: ` : "The scheduler cannot be asked: ";
  return (
    <p role="alert" class={found ? "odd" : "hint"}>
      {lost ? since + lost.message : !found ? "The scheduler is asked …" : ""}
    </p>
  );
}

/** How old the answer is, since when there is anything, and what is left out. */
function Remark({ found, askedAt }: Answer) {
  const now = useNow(1_000);
  if (!found) return null;
  const { pods = 0, namespaces = 0 } = found.hidden;
  const left = pods ? `; left out, because you may not list them: ${count(pods)} pods of ${count(namespaces)} namespaces` : "";
  return (
    <p class="quiet">
      {duration((now - askedAt) / 1000)} old
      {found.oldest ? `, remembered since ${clock(Date.parse(found.oldest))}` : ""}
      {found.truncated && ", only the newest are shown"}
      {left}
    </p>
  );
}

function DecisionTable({ rows }: { rows: DecisionRow[] }) {
  return (
    <table class="log">
      <thead>
        <tr>
          <th scope="col">Time, UTC</th>
          <th scope="col" class="numeric">
            Decision
          </th>
          <th scope="col">Pods</th>
          <th scope="col" class="numeric lesser">
            Seconds
          </th>
          <th scope="col">Result, with bounds and proof</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={`${row.time}/${row.decision}`}>
            <td>{second(Date.parse(row.time))}</td>
            <td class="numeric">{row.decision}</td>
            <td>{pods(row)}</td>
            <td class="numeric lesser">{row.seconds.toFixed(3)}</td>
            <td class="long">
              {row.levels.length ? (
                <details>
                  <summary>{row.status === "Optimal" ? "proven to be the best" : row.status}</summary>
                  <ul>
                    {row.levels.map((level) => (
                      <li key={level}>{level}</li>
                    ))}
                  </ul>
                </details>
              ) : (
                row.status
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function EventTable({ rows }: { rows: EventRow[] }) {
  return (
    <table class="log">
      <thead>
        <tr>
          <th scope="col">Time, UTC</th>
          <th scope="col" class="numeric">
            Decision
          </th>
          <th scope="col">Pod</th>
          <th scope="col">What</th>
          <th scope="col">Node, devices, why</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row, at) => (
          <tr key={`${row.time}/${row.namespace}/${row.pod}/${at}`}>
            <td>{second(Date.parse(row.time))}</td>
            <td class="numeric">{row.decision || "–"}</td>
            <th scope="row">
              <a href={wayOf(row.namespace, row.pod)}>{visible(row.pod)}</a>
              <span class="quiet">{visible(row.namespace)}</span>
            </th>
            <td>{row.what}</td>
            <td class="long">{[row.node, row.devices, row.why].filter(Boolean).map(visible).join(" · ")}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const pods = (row: DecisionRow): string =>
  [`${count(row.placed)} placed`, row.waiting && `${count(row.waiting)} wait`, row.nominated && `${count(row.nominated)} nominated`]
    .filter(Boolean)
    .join(", ");
