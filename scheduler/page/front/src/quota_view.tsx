// DeviceQuotas as a table: the answer of `dovetail quota`, without what it has to be solved for.
import { useState } from "preact/hooks";
import type { Fleet } from "./fleet";
import type { Quota, QuotaResource } from "./rows";
import { count, visible } from "./text";
import { ViewHead, matching } from "./view_head";

const MOST_ROWS = 500;

export function QuotaView({ fleet }: { fleet: Fleet }) {
  const [text, setText] = useState("");
  const { quotas } = fleet.document;
  const { found, matches } = matching(quotas, text, searched, "quota");
  return (
    <section class="view" aria-labelledby="quotas-title">
      <ViewHead
        name="quotas"
        title="Quotas"
        what="the quotas"
        placeholder="Search quotas and classes   ( / )"
        text={text}
        onText={setText}
        matches={matches}
      />
      {!quotas && <p class="hint">DeviceQuotas may not be listed.</p>}
      {quotas && !quotas.length && <p class="hint">There is no DeviceQuota.</p>}
      {quotas && quotas.length > 0 && !found.length && <p class="hint">No quota matches.</p>}
      {found.length > 0 && <Table quotas={found.slice(0, MOST_ROWS)} />}
      {found.length > MOST_ROWS && <p class="quiet">and {count(found.length - MOST_ROWS)} more: search for them</p>}
      {found.length > 0 && (
        <p class="quiet">
          <code>dovetail quota</code> says who would lose what next.
        </p>
      )}
    </section>
  );
}

function Table({ quotas }: { quotas: Quota[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Quota</th>
          <th scope="col">Counts</th>
          <th scope="col" class="numeric">
            Guarantee
          </th>
          <th scope="col" class="numeric">
            Limit
          </th>
          <th scope="col" class="numeric">
            Held
          </th>
          <th scope="col" class="numeric" title="What is held beyond the guarantee">
            Borrowed
          </th>
          <th scope="col" class="numeric" title="Pods that wait and ask for such devices, whatever they wait for">
            Waiting
          </th>
          <th scope="col" class="numeric lesser">
            Fleet
          </th>
        </tr>
      </thead>
      <tbody>{quotas.flatMap(rows)}</tbody>
    </table>
  );
}

/** A row for each resource; the first one has the name and what contradicts. */
function rows(quota: Quota) {
  const resources: (QuotaResource | null)[] = quota.resources.length ? quota.resources : [null];
  return resources.map((each, at) => (
    <tr key={`${quota.name} ${at}`}>
      <th scope="row" style={{ paddingLeft: `${1 + quota.depth * 1.5}em` }}>
        {at === 0 && <b>{visible(quota.name)}</b>}
        {at === 0 && quota.findings.map((finding) => <span class="odd">{visible(finding.message)}</span>)}
      </th>
      <td>{each && `${visible(each.capacity ?? (each.shape === "wholeNodes" ? "nodes" : "devices"))} of ${visible(each.deviceClass)}`}</td>
      <td class="numeric">{each && (each.guarantee === "0" ? "–" : each.guarantee)}</td>
      <td class="numeric">{each && (each.limit ?? "–")}</td>
      <td class="numeric">{each?.held}</td>
      <td class="numeric">{each?.lent}</td>
      <td class="numeric">{each?.waiting}</td>
      <td class="numeric lesser">{each?.fleet ?? "–"}</td>
    </tr>
  ));
}

const searched = (quota: Quota): string =>
  [quota.name, quota.parent, ...quota.resources.map((each) => each.deviceClass), ...quota.findings.map((each) => each.message)].join("\n").toLowerCase();
