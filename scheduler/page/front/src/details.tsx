// What is known of a node, a card or a device that was chosen.
import { wayOf } from "./decisions_view";
import type { Device, Fleet, FleetNode, Holder } from "./fleet";
import type { Place } from "./paint";
import { clock, counted, duration } from "./text";

interface Shown {
  fleet: Fleet;
  /** Whether the scheduler answers about the way of a pod. */
  hasDecisions: boolean;
  onSearch(text: string): void;
}

const MOST_LABELS = 60;

export function Details({ place, ...shown }: Shown & { place: Place | null }) {
  if (!place) return <p class="hint">Choose a device or a node on the map, or search for one.</p>;
  const { tile, cell } = place;
  const [device] = cell?.devices ?? [];
  if (cell?.isCard) return <CardDetails {...shown} devices={cell.devices} />;
  if (device) return <DeviceDetails {...shown} device={device} />;
  return <NodeDetails {...shown} node={tile.node} />;
}

export function stateOf(device: Device): string {
  if (device.state === "unusable") return device.cause || "unusable";
  return device.cause && device.holders.length ? `${device.state}, ${device.cause}` : device.state;
}

function DeviceDetails({ device, ...shown }: Shown & { device: Device }) {
  return (
    <article>
      <h3>
        {device.node.name} <span class="slash">/</span> {device.name}
      </h3>
      <p class={`badge ${device.state}`}>{stateOf(device)}</p>
      {device.why && <p class="why">{device.why}</p>}
      <dl>
        <Fact name="Type" text={device.type} />
        <Fact name="Class" text={device.classes} />
        <Fact name="Driver" text={device.driver} />
        <Fact name="Pool" text={device.pool === device.node.name ? "" : device.pool} />
        <Fact name="PCIe root" text={device.root} />
        <Fact name="NVLink domain" text={device.node.domain} />
        <Fact name="Left" text={device.left} />
      </dl>
      <Holders {...shown} device={device} />
      <p class="actions">
        <button type="button" onClick={() => shown.onSearch(`node:${device.node.name}`)}>
          This node alone
        </button>
      </p>
    </article>
  );
}

function CardDetails({ devices, ...shown }: Shown & { devices: Device[] }) {
  const [first] = devices;
  const order = [...devices].sort((one, other) => Number(!one.holders.length) - Number(!other.holders.length));
  return (
    <article>
      <h3>
        {first?.node.name} <span class="slash">/</span> {first?.card}
      </h3>
      <p class="quiet">
        {counted(devices.length, "device")} share this card: {devices.filter((each) => each.holders.length).length} held,{" "}
        {devices.filter((each) => each.state === "free").length} that could be had now
      </p>
      {order.map((device) => (
        <section class="part" key={device.row}>
          <h4>
            {device.name} <span class={`badge ${device.state}`}>{stateOf(device)}</span>
          </h4>
          <p class="quiet">{device.type}</p>
          {device.why && <p class="why">{device.why}</p>}
          <Holders {...shown} device={device} />
        </section>
      ))}
    </article>
  );
}

function NodeDetails({ fleet, node, onSearch }: Shown & { node: FleetNode }) {
  const held = node.devices.filter((device) => device.holders.length).length;
  const labels = [...fleet.labels].flatMap(([key, values]) => (node.row < 0 || values[node.row] == null ? [] : [[key, values[node.row]]]));
  return (
    <article>
      <h3>{node.name}</h3>
      {!node.exists && <p class="badge unusable">this node does not exist</p>}
      <p class="quiet">
        {node.devices.length ? `${counted(node.devices.length, "device")}, ${held} held` : "No device"}
        {node.domain && `, NVLink domain ${node.domain}`}
      </p>
      {node.devices.slice(0, 128).map((device) => (
        <p class="line" key={device.row}>
          <span class={`dot ${device.state}`} aria-hidden="true" />
          <b>{device.name}</b> <span class="quiet">{stateOf(device)}</span>{" "}
          {device.holders.map(({ claim }) => (
            <button
              type="button"
              class="link"
              key={claim.row}
              onClick={() => onSearch(`claim:${claim.namespace}/${claim.name}`)}
            >
              {claim.namespace}/{claim.pods[0]?.name ?? claim.name}
            </button>
          ))}
        </p>
      ))}
      {labels.length > 0 && (
        <>
          <h4>Labels</h4>
          <ul class="labels">
            {labels.slice(0, MOST_LABELS).map(([key, value]) => (
              <li key={key}>
                {key}={value}
              </li>
            ))}
          </ul>
        </>
      )}
    </article>
  );
}

function Holders({ device, onSearch, ...shown }: Shown & { device: Device }) {
  return (
    <>
      {device.holders.map((holder, at) => (
        <section class="holder" key={at}>
          <HolderFacts {...shown} holder={holder} />
          <p class="actions">
            <button type="button" onClick={() => onSearch(`claim:${holder.claim.namespace}/${holder.claim.name}`)}>
              All devices of this claim
            </button>
          </p>
        </section>
      ))}
    </>
  );
}

function HolderFacts({ fleet, hasDecisions, holder }: Pick<Shown, "fleet" | "hasDecisions"> & { holder: Holder }) {
  const { claim } = holder;
  const seconds = (fleet.readAt - claim.since) / 1000;
  const before = claim.source === "pod" ? "more than " : "";
  const gangs = [...new Set(claim.pods.map((pod) => pod.gang).filter(Boolean))];
  return (
    <dl>
      <Fact name="Namespace" text={claim.namespace} />
      <Fact name="Claim" text={claim.name} />
      {claim.pods.map((pod) => (
        <Fact
          key={pod.name}
          name="Pod"
          text={pod.gone ? `${pod.name} (gone)` : pod.name}
          isOdd={pod.gone}
          href={hasDecisions ? wayOf(pod.namespace, pod.name) : ""}
        />
      ))}
      {claim.consumers.map((consumer) => (
        <Fact key={consumer} name="Held for" text={consumer} />
      ))}
      {!claim.pods.length && !claim.consumers.length && <Fact name="Pod" text="none" />}
      <Fact name="Gang" text={gangs.join(", ")} />
      <Fact name="Since" text={Number.isNaN(seconds) ? "not known" : `${before}${duration(seconds)}, ${clock(claim.since)}`} />
      <Fact name="Share" text={holder.share} />
    </dl>
  );
}

function Fact({ name, text, isOdd = false, href = "" }: { name: string; text: string; isOdd?: boolean; href?: string }) {
  if (!text) return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd class={isOdd ? "odd" : ""}>{href ? <a href={href}>{text}</a> : text}</dd>
    </div>
  );
}
