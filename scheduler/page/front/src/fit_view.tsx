// "Would this fit?": a manifest goes to the server, and the answer of `dovetail fit` comes back. Nothing is written.
import { useEffect, useState } from "preact/hooks";
import { ask } from "./server";
import { clock, count, counted, visible } from "./text";

interface Placement {
  pod: string;
  /** "" is a node that the reader may not see; so are other names that are empty here. */
  node: string;
  devices: string[];
}

interface Waiting {
  pods: string[];
  count: number;
  hints: string[];
  reasons: string[];
}

interface Problem {
  source: string;
  object: string;
  field: string;
  message: string;
}

interface FitAnswer {
  fits: boolean | null;
  sentence: string;
  summary: string;
  placed: number;
  waits: number;
  placements: Placement[];
  waiting: Waiting[];
  victims: { pod: string; node: string; message: string }[];
  moves: { pod: string; from: string; to: string }[] | null;
  /** What was asked for with `addNodes`; a price is empty where nobody gave one. */
  nodes: { shape: string; count: number; price: string }[];
  changes: { message: string; node: string }[];
  changesTitle: string;
  problems: Problem[];
  warnings: string[];
  leavesOut: string;
  forbidden: string[];
}

/** Whether it would fit, how many would, or which nodes to add. */
type Question = "" | "max" | "nodes";

/** What was asked and answered: it outlives the view, so that the reader can look at the map meanwhile. */
interface Asked {
  text: string;
  namespace: string;
  question: Question;
  isAsking: boolean;
  problem: string;
  answer: FitAnswer | null;
  /** When the answer came, in milliseconds. */
  at: number;
}

const PATIENCE = 120_000;
const MOST_BYTES = 1024 * 1024;
const UNSEEN_NODE = "a node that you may not list";
const UNSEEN_POD = "a pod of another namespace";
const EXAMPLE = `apiVersion: v1
kind: Pod
metadata:
  name: trainer
spec:
  schedulerName: dovetail
  …`;

let asked: Asked = { text: "", namespace: "", question: "", isAsking: false, problem: "", answer: null, at: 0 };
const listeners = new Set<() => void>();

function change(part: Partial<Asked>): void {
  asked = { ...asked, ...part };
  for (const listener of listeners) listener();
}

function useAsked(): Asked {
  const [shown, setShown] = useState(asked);
  useEffect(() => {
    const listen = (): void => setShown(asked);
    listen();
    listeners.add(listen);
    return () => void listeners.delete(listen);
  }, []);
  return shown;
}

async function send(): Promise<void> {
  if (asked.isAsking) return;
  const problem = unsendable(asked.text, asked.question);
  if (problem) return change({ problem, answer: null });
  change({ problem: "", isAsking: true });
  const parameters = new URLSearchParams();
  if (asked.namespace.trim()) parameters.set("namespace", asked.namespace.trim());
  if (asked.question === "max") parameters.set("count", "max");
  if (asked.question === "nodes") parameters.set("addNodes", "true");
  const options = { method: "POST", body: asked.text, headers: { "Content-Type": "application/yaml" } };
  try {
    const answer = await ask<FitAnswer>(`fit?${parameters}`, { ...options, signal: AbortSignal.timeout(PATIENCE) });
    change({ answer, at: Date.now(), isAsking: false });
  } catch (error) {
    change({ problem: error instanceof Error ? error.message : String(error), answer: null, isAsking: false });
  }
}

function unsendable(text: string, question: Question): string {
  if (!text.trim() && question !== "nodes") return "paste a manifest first";
  return new Blob([text]).size > MOST_BYTES ? "the manifest is larger than 1 MiB: leave out what decides nothing" : "";
}

export function FitView({ namespace }: { namespace: string }) {
  const state = useAsked();
  return (
    <section class="view fit" aria-labelledby="fit-title">
      <form
        class="fit-form"
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          void send();
        }}
      >
        <div class="view-head">
          <h2 id="fit-title">Would this fit?</h2>
        </div>
        <label class="unseen" for="view-search">
          Manifest
        </label>
        <textarea
          id="view-search"
          value={state.text}
          placeholder={EXAMPLE}
          spellcheck={false}
          autocomplete="off"
          autocapitalize="off"
          aria-describedby="fit-hint"
          onInput={(event) => change({ text: event.currentTarget.value })}
        />
        <p class="quiet" id="fit-hint">
          Pods, Jobs, Deployments, StatefulSets, PodGroups, claims and templates, in YAML or JSON. They are decided on
          the cluster as it is now. Nothing is written. Without a manifest, which nodes to add is answered for all
          waiting pods.
        </p>
        <div class="fit-controls">
          <label>
            <span>Namespace</span>
            <input
              value={state.namespace}
              placeholder={namespace}
              title="Of objects that name none"
              spellcheck={false}
              autocomplete="off"
              autocapitalize="off"
              onInput={(event) => change({ namespace: event.currentTarget.value })}
            />
          </label>
          <label>
            <span>Question</span>
            <select value={state.question} onChange={(event) => change({ question: event.currentTarget.value as Question })}>
              <option value="">would it fit</option>
              <option value="max">how many would fit</option>
              <option value="nodes">which nodes to add</option>
            </select>
          </label>
          <button type="submit" aria-disabled={state.isAsking} title="Ctrl+Enter">
            Ask
          </button>
        </div>
      </form>
      <div class="answer">
        <p role="alert" class="odd">
          {state.problem && `No answer: ${visible(state.problem)}`}
        </p>
        <p class="verdict" role="status">
          {state.isAsking ? <span class="quiet">The cluster is read, and the question solved …</span> : state.answer && <Verdict answer={state.answer} />}
        </p>
        {!state.answer && !state.isAsking && !state.problem && (
          <p class="quiet">The answer comes here: where each pod would start and with which devices, or why it would wait.</p>
        )}
        {state.answer && !state.isAsking && <Answer answer={state.answer} at={state.at} />}
      </div>
    </section>
  );
}

function Verdict({ answer }: { answer: FitAnswer }) {
  const mistakes = answer.problems.length ? `The manifest has ${counted(answer.problems.length, "mistake")}. ` : "";
  if (answer.fits === null) return <>{mistakes}Nothing can be decided.</>;
  return (
    <>
      <span class={answer.fits ? "mark yes" : "mark no"} aria-hidden="true">
        {answer.fits ? "✓" : "✕"}
      </span>
      {mistakes + visible(answer.sentence)}
    </>
  );
}

function Answer({ answer, at }: { answer: FitAnswer; at: number }) {
  const left = answer.forbidden.length ? `Not listed, because it is forbidden: ${answer.forbidden.join(", ")}. The answer is without them.` : "";
  return (
    <>
      {left && <p class="odd">{left}</p>}
      {answer.problems.length > 0 && <Problems rows={answer.problems} />}
      {answer.nodes.length > 0 && (
        <Rows
          title="Nodes to add"
          head={["Shape", "Nodes", "Price"]}
          rows={answer.nodes.map((each) => [each.shape, count(each.count), each.price || "–"])}
        />
      )}
      {answer.placements.length > 0 && <Placements answer={answer} />}
      {answer.waiting.length > 0 && <WaitingPods rows={answer.waiting} />}
      {answer.victims.length > 0 && (
        <Rows
          title="Pods that would be evicted"
          head={["Pod", "Node", "What for"]}
          rows={answer.victims.map((each) => [each.pod || UNSEEN_POD, each.node || UNSEEN_NODE, each.message])}
        />
      )}
      {answer.moves && (
        <Rows
          title="All of them fit after these moves, one after the other"
          head={["Pod", "From", "To"]}
          rows={answer.moves.map((each) => [each.pod || UNSEEN_POD, each.from || UNSEEN_NODE, each.to || UNSEEN_NODE])}
        />
      )}
      {answer.changes.length > 0 && <Changes answer={answer} />}
      {answer.leavesOut && <p class="quiet">{answer.leavesOut}</p>}
      {answer.warnings.length > 0 && (
        <>
          <h3>Notes</h3>
          <ul class="notes">
            {answer.warnings.map((each) => (
              <li key={each}>{visible(each)}</li>
            ))}
          </ul>
        </>
      )}
      {answer.summary && (
        <p class="quiet">
          {answer.summary}, on the cluster of {clock(at)}
        </p>
      )}
    </>
  );
}

function Problems({ rows }: { rows: Problem[] }) {
  return (
    <>
      <h3>Mistakes in the manifest</h3>
      <ul class="notes">
        {rows.map((each, at) => (
          <li key={at}>
            {each.object && <b>{visible(each.object)} </b>}
            {each.field && <code>{visible(each.field)}</code>} {visible(each.message)}
            <span class="quiet"> {visible(each.source)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Placements({ answer }: { answer: FitAnswer }) {
  const more = answer.placed - answer.placements.length;
  return (
    <>
      <Rows
        title={answer.nodes.length ? "Pods that would start with these nodes" : "Pods that would start now"}
        head={["Pod", "Node", "Devices"]}
        rows={answer.placements.map((each) => [each.pod, each.node || UNSEEN_NODE, each.devices.join("\n")])}
      />
      {more > 0 && <p class="quiet">and {count(more)} more</p>}
    </>
  );
}

function WaitingPods({ rows }: { rows: Waiting[] }) {
  return (
    <>
      <h3>Pods that would wait</h3>
      <table class="waiting-pods">
        <thead>
          <tr>
            <th scope="col">Pods</th>
            <th scope="col">Why, and what would help</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((each, at) => (
            <tr key={at}>
              <th scope="row">
                {each.pods.map((name) => (
                  <div key={name}>{visible(name)}</div>
                ))}
                {each.count > 1 && <span class="quiet">{counted(each.count, "pod")}</span>}
              </th>
              <td>
                {each.hints.map((hint) => (
                  <p class="help" key={hint}>
                    {visible(hint)}
                  </p>
                ))}
                {each.reasons.map((reason) => (
                  <p key={reason}>{visible(reason)}</p>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function Changes({ answer }: { answer: FitAnswer }) {
  return (
    <>
      <h3>{visible(answer.changesTitle)}</h3>
      <ul class="notes">
        {answer.changes.map((each) => (
          <li key={each.message}>
            <span class="help">{visible(each.message)}</span> <span class="quiet">on {visible(each.node)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Rows({ title, head, rows }: { title: string; head: string[]; rows: string[][] }) {
  return (
    <>
      <h3>{title}</h3>
      <table>
        <thead>
          <tr>
            {head.map((name) => (
              <th scope="col" key={name}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([first, ...others], at) => (
            <tr key={at}>
              <th scope="row">{visible(first ?? "")}</th>
              {others.map((text, column) => (
                <td key={column}>
                  {text.split("\n").map((line) => (
                    <div key={line}>{visible(line)}</div>
                  ))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
