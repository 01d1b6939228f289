// The pods that wait, as a table: the answer of `dovetail queue`.
import { useState } from "preact/hooks";
import { wayOf } from "./decisions_view";
import type { Fleet, Waiting } from "./fleet";
import { count, duration, visible } from "./text";
import { ViewHead, matching } from "./view_head";

const MOST_ROWS = 500;

export function QueueView({ fleet, hasDecisions }: { fleet: Fleet; hasDecisions: boolean }) {
  const [text, setText] = useState("");
  const { queue, knowsConditions } = fleet.document;
  const { found, matches } = matching(queue, text, searched, "pod");
  return (
    <section class="view" aria-labelledby="queue-title">
      <ViewHead
        name="queue"
        title="Pods that wait"
        what="the queue"
        placeholder="Search pods, namespaces, gangs, reasons   ( / )"
        text={text}
        onText={setText}
        matches={matches}
      />
      {!queue && <p class="hint">Pods may not be listed: who waits is not known.</p>}
      {queue && !queue.length && <p class="hint">No pod waits.</p>}
      {queue && queue.length > 0 && !found.length && <p class="hint">No pod that waits matches.</p>}
      {found.length > 0 && <Table fleet={fleet} pods={found.slice(0, MOST_ROWS)} knowsConditions={knowsConditions} hasDecisions={hasDecisions} />}
      {found.length > MOST_ROWS && <p class="quiet">and {count(found.length - MOST_ROWS)} more: search for them</p>}
    </section>
  );
}

interface TableProperties {
  fleet: Fleet;
  pods: Waiting[];
  knowsConditions: boolean;
  hasDecisions: boolean;
}

function Table({ fleet, pods, knowsConditions, hasDecisions }: TableProperties) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col" class="numeric" title="The order in which pods are decided; pods of a gang have one position">
            #
          </th>
          <th scope="col">Pod</th>
          <th scope="col" class="numeric lesser">
            Priority
          </th>
          <th scope="col" class="numeric">
            Waits
          </th>
          <th scope="col" class="lesser">
            Reason
          </th>
          <th scope="col">What would help, or what is missing</th>
        </tr>
      </thead>
      <tbody>
        {pods.map((pod) => (
          <tr key={`${pod.namespace}/${pod.name}`}>
            <td class="numeric">{pod.position ?? "–"}</td>
            <th scope="row">
              {hasDecisions ? <a href={wayOf(pod.namespace, pod.name)}>{visible(pod.name)}</a> : <b>{visible(pod.name)}</b>}
              <span class="quiet">
                {visible(pod.namespace)}
                {pod.gang && `, gang ${visible(pod.gang)}`}
              </span>
            </th>
            <td class="numeric lesser">{pod.priority ?? 0}</td>
            <td class="numeric" title={pod.since}>
              {waits(fleet, pod)}
            </td>
            <td class="lesser">{knowsConditions ? visible(pod.reason) : "not known"}</td>
            <td class="long">{knowsConditions && <Why pod={pod} />}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Why({ pod }: { pod: Waiting }) {
  const nominated = pod.nominatedNode ? `Nominated for ${visible(pod.nominatedNode)}. ` : "";
  if (!pod.message || pod.message === pod.why) return <>{nominated + visible(pod.why)}</>;
  return (
    <details>
      <summary>{nominated + visible(pod.why)}</summary>
      <p>{visible(pod.message)}</p>
      <code>
        dovetail explain pod/{visible(pod.name)} -n {visible(pod.namespace)}
      </code>
    </details>
  );
}

const searched = (pod: Waiting): string =>
  [pod.namespace, pod.name, pod.gang, pod.reason, pod.why, pod.schedulerName].join("\n").toLowerCase();

function waits(fleet: Fleet, pod: Waiting): string {
  const since = Date.parse(pod.since ?? "");
  return Number.isNaN(since) ? "" : duration((fleet.readAt - since) / 1000);
}
