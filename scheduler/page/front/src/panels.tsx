// The panels beside the map: the numbers of `dovetail free`, the pods that wait, and what a search finds.
import { useState } from "preact/hooks";
import { stateOf } from "./details";
import type { Device, Fleet, Supply, Waiting } from "./fleet";
import type { Matches } from "./search";
import { count, counted, duration, percent } from "./text";

const MOST_ROWS = 200;

export function Numbers({ fleet, onSearch }: { fleet: Fleet; onSearch(text: string): void }) {
  const { supply, unusable, knowsHolders } = fleet.document;
  if (!supply.items.length) return <p class="hint">No device is published or held.</p>;
  return (
    <>
      {!knowsHolders && <p class="why">ResourceClaims may not be listed: what is held and free is not known.</p>}
      {supply.items.map((row, at) => (
        <SupplyCard key={at} row={row} />
      ))}
      {Object.keys(unusable).length > 0 && (
        <section>
          <h3>Unusable, by cause</h3>
          {Object.entries(unusable).map(([cause, devices]) => (
            <p class="line" key={cause}>
              <span class="dot unusable" aria-hidden="true" />
              <button type="button" class="link" onClick={() => onSearch(`state:unusable cause:${cause}`)}>
                {cause}
              </button>
              <span class="number">{count(devices)}</span>
            </p>
          ))}
        </section>
      )}
      {supply.fragmentation !== null && supply.fragmentation > 0 && (
        <section>
          <h3>Fragmentation</h3>
          <p>{percent(supply.fragmentation)} of the free devices are of no use to a typical claim, as their node has too few left.</p>
          {supply.causes.map((each) => (
            <p class="line" key={`${each.pod}/${each.node}`}>
              <button type="button" class="link" onClick={() => onSearch(`pod:${each.pod}`)}>
                {each.pod}
              </button>{" "}
              <span class="quiet">
                holds {each.held} on node {each.node}, where {each.stranded.toFixed(1)} free devices are left over
              </span>
            </p>
          ))}
        </section>
      )}
      {(supply.unusablePools.length > 0 || supply.brokenClasses.length > 0) && (
        <section>
          <h3>Pools and classes that cannot be used</h3>
          {supply.unusablePools.map((pool) => (
            <p key={`${pool.driver}/${pool.pool}`}>
              {pool.driver}/{pool.pool}: <span class="quiet">{pool.message}</span>
            </p>
          ))}
          {supply.brokenClasses.map((name) => (
            <p key={name}>DeviceClass {name} matches nothing: its selectors cannot be read</p>
          ))}
        </section>
      )}
    </>
  );
}

function SupplyCard({ row }: { row: Supply }) {
  const parts = (["held", "free", "blocked", "unusable"] as const).filter((name) => row[name] > 0);
  const facts: [string, number | string | null, string][] = [
    ["per node", row.largest.node, "The most free devices that one node can use at once (MAX/NODE)"],
    ["per root", row.largest.root, "The most free devices at one PCIe root (MAX/ROOT)"],
    ["per domain", row.largest.domain, "The most free devices in one NVLink domain (MAX/DOMAIN)"],
    ["fragmented", row.fragmentation === null ? null : percent(row.fragmentation), "Free devices of no use to a typical claim, as their node has too few left"],
  ];
  return (
    <section class="supply">
      <h3>
        {row.type || "no type"} <span class="quiet">{[row.class, row.group].filter(Boolean).join(" · ") || "no class"}</span>
      </h3>
      <div class="bar" aria-hidden="true">
        {parts.map((name) => (
          <span key={name} class={name} style={{ flexGrow: row[name] }} />
        ))}
      </div>
      <p class="figures">
        <b>{count(row.total)}</b> in all, {parts.map((name) => `${count(row[name])} ${name}`).join(", ")}
        {row.tainted > 0 && `, ${count(row.tainted)} tainted`}
      </p>
      <p class="facts">
        {facts.map(
          ([name, value, title]) =>
            value !== null && (
              <span key={name} title={title}>
                {name === "fragmented" ? "" : "max "}
                <b>{value}</b> {name}
              </span>
            ),
        )}
      </p>
    </section>
  );
}

export function Queue({ fleet }: { fleet: Fleet }) {
  const { queue, knowsConditions } = fleet.document;
  const [open, setOpen] = useState(-1);
  if (!queue) return <p class="hint">Pods may not be listed: who waits is not known.</p>;
  if (!queue.length) return <p class="hint">No pod waits.</p>;
  return (
    <>
      {!knowsConditions && <p class="quiet">A saved decision has no conditions, so the reasons are not known.</p>}
      <ol class="queue">
        {queue.slice(0, MOST_ROWS).map((pod, at) => (
          <li key={`${pod.namespace}/${pod.name}`}>
            <button type="button" aria-expanded={open === at} onClick={() => setOpen(open === at ? -1 : at)}>
              <span class="position">{pod.position ?? "–"}</span>
              <span class="who">
                <b>{pod.name}</b> <span class="quiet">{pod.namespace}</span>
                <span class="reason">{knowsConditions ? pod.why : ""}</span>
              </span>
              <span class="waits">{age(fleet, pod)}</span>
            </button>
            {open === at && <QueueDetails pod={pod} knowsConditions={knowsConditions} />}
          </li>
        ))}
      </ol>
      {queue.length > MOST_ROWS && <p class="quiet">and {count(queue.length - MOST_ROWS)} more: `dovetail queue -A`</p>}
    </>
  );
}

function QueueDetails({ pod, knowsConditions }: { pod: Waiting; knowsConditions: boolean }) {
  return (
    <div class="more">
      <p class="quiet">
        priority {pod.priority ?? 0}
        {pod.gang && `, gang ${pod.gang}`}, {pod.schedulerName}
        {knowsConditions && `, ${pod.reason}`}
        {pod.nominatedNode && `, nominated for ${pod.nominatedNode}`}
      </p>
      {pod.message && <p>{pod.message}</p>}
      <code>
        dovetail explain pod/{pod.name} -n {pod.namespace}
      </code>
    </div>
  );
}

function age(fleet: Fleet, pod: Waiting): string {
  const since = Date.parse(pod.since ?? "");
  return Number.isNaN(since) ? "" : duration((fleet.readAt - since) / 1000);
}

interface Listed {
  fleet: Fleet;
  matches: Matches;
  onDevice(device: Device): void;
}

export function Found({ fleet, matches, onDevice }: Listed) {
  const found = matches.devices;
  const devices = found ? fleet.devices.filter((device) => found[device.row]) : fleet.devices;
  if (!devices.length) return <p class="hint">No device matches.</p>;
  return (
    <>
      <ul class="found">
        {devices.slice(0, MOST_ROWS).map((device) => (
          <li key={device.row}>
            <button type="button" onClick={() => onDevice(device)}>
              <span class={`dot ${device.state}`} aria-hidden="true" />
              <span>
                <b>
                  {device.node.name}/{device.name}
                </b>{" "}
                <span class="quiet">{stateOf(device)}</span>
                {device.holders.length > 0 && <span class="quiet holding">{holders(device)}</span>}
              </span>
            </button>
          </li>
        ))}
      </ul>
      {devices.length > MOST_ROWS && <p class="quiet">and {counted(devices.length - MOST_ROWS, "more device")}</p>}
    </>
  );
}

const holders = (device: Device): string =>
  device.holders.map(({ claim }) => `${claim.namespace}/${claim.pods[0]?.name ?? claim.name}`).join(", ");
