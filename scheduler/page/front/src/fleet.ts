// The fleet as objects, made from the rows of its document.
import { queueOf, type DeviceRow, type Facts, type FleetRows, type NodeRow, type Waiting } from "./rows";
import { visible } from "./text";

export type { Supply, Waiting } from "./rows";

export type State = "free" | "shared" | "held" | "blocked" | "unusable" | "unknown";

export interface Pod {
  namespace: string;
  name: string;
  gang: string;
  gone: boolean;
}

export interface Claim {
  row: number;
  namespace: string;
  name: string;
  since: number;
  source: string;
  pods: Pod[];
  consumers: string[];
}

export interface Holder {
  claim: Claim;
  request: string;
  share: string;
  part: number;
  admin: boolean;
}

export interface FleetNode {
  row: number;
  name: string;
  group: string;
  domain: string;
  exists: boolean;
  /** It stands for a pool whose devices several nodes can use. */
  isPool: boolean;
  devices: Device[];
  text: string;
}

export interface Device {
  row: number;
  node: FleetNode;
  name: string;
  driver: string;
  pool: string;
  type: string;
  classes: string;
  root: string;
  state: State;
  cause: string;
  why: string;
  card: string;
  part: number;
  used: number;
  left: string;
  tainted: boolean;
  suspect: boolean;
  holders: Holder[];
  text: string;
}

export interface Fleet {
  /** What it was made from. */
  rows: FleetRows;
  document: Facts & { queue: Waiting[] | null };
  readAt: number;
  /** When a live picture was drawn, in milliseconds of this browser's clock. */
  drawnAt?: number;
  nodes: FleetNode[];
  devices: Device[];
  labels: Map<string, (string | null)[]>;
}

type Text = (text: string) => string;

export function fleetOf(rows: FleetRows): Fleet {
  const { nodes: nodeRows, devices: deviceRows, claims: claimRows, pods: podRows, queue: _, ...facts } = rows;
  const known = new Map<string, string>();
  const text: Text = (raw) => {
    let found = known.get(raw);
    if (found === undefined) known.set(raw, (found = visible(raw)));
    return found;
  };
  const pods = new Map<string, Pod>();
  for (const [namespace, name, gang, gone] of podRows) {
    pods.set(`${namespace}/${name}`, { namespace: text(namespace), name: text(name), gang: text(gang), gone: gone === 1 });
  }
  const claims = new Map<string, Claim>();
  for (const [row, [namespace, name, since, source, holding, consumers]] of claimRows.entries()) {
    claims.set(`${namespace}/${name}`, {
      row,
      namespace: text(namespace),
      name: text(name),
      since: Date.parse(since),
      source,
      pods: holding.flatMap((pod) => pods.get(pod.join("/")) ?? []),
      consumers: consumers.map(text),
    });
  }
  const { nodes, labels } = nodesOf(nodeRows, text);
  const devices = devicesOf(deviceRows, text, nodes, claims);
  for (const device of devices) device.text = searched(device);
  return { rows, document: { ...facts, queue: queueOf(rows) }, readAt: Date.parse(facts.readAt), nodes, devices, labels };
}

function nodesOf(rows: NodeRow[], text: Text) {
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row[4])))].sort();
  const labels = new Map<string, (string | null)[]>();
  for (const key of keys) {
    labels.set(text(key), rows.map(([, , , , own]) => (Object.hasOwn(own, key) ? text(own[key] ?? "") : null)));
  }
  const nodes: FleetNode[] = rows.map(([name, group, domain, exists, own], row) => ({
    row,
    name: text(name),
    group: text(group),
    domain: text(domain),
    exists: exists === 1,
    isPool: false,
    devices: [],
    text: keys.map((key) => (Object.hasOwn(own, key) ? text(`${key}=${own[key]}`) : "")).join("\n").toLowerCase(),
  }));
  return { nodes, labels };
}

function devicesOf(rows: DeviceRow[], text: Text, nodes: FleetNode[], claims: Map<string, Claim>): Device[] {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const pools = new Map<string, FleetNode>();
  return rows.map((cells, row) => {
    const [name, reach, device, driver, pool, type, classes, root, state, cause, why, card, part, used, left, tainted, suspect, holders] = cells;
    const node = (name && byName.get(text(name))) || poolNode(text(pool), reach, pools, nodes);
    const made: Device = {
      row,
      node,
      name: text(device),
      driver: text(driver),
      pool: text(pool),
      type: text(type),
      classes: text(classes).replaceAll(",", ", "),
      root: text(root),
      state: state as State,
      cause: text(cause),
      why: text(why),
      card: text(card),
      part: part / 1000,
      used: used / 1000,
      left: text(left),
      tainted: tainted === 1,
      suspect: suspect === 1,
      holders: holders.flatMap(([namespace, name, request, share, taken, admin]) => {
        const claim = claims.get(`${namespace}/${name}`);
        return claim ? [{ claim, request: text(request), share: text(share), part: taken / 1000, admin: admin === 1 }] : [];
      }),
      text: "",
    };
    node.devices.push(made);
    return made;
  });
}

/** Devices that no single node owns stand in a tile of their pool. */
function poolNode(pool: string, reach: number, pools: Map<string, FleetNode>, nodes: FleetNode[]): FleetNode {
  const known = pools.get(pool);
  if (known) return known;
  const where = reach < 0 ? "all nodes" : reach ? `${reach} nodes` : "no node";
  const node = { row: -1, name: `pool ${pool} (${where})`, group: "", domain: "", exists: true, isPool: true, devices: [], text: "" };
  pools.set(pool, node);
  nodes.push(node);
  return node;
}

function searched(device: Device): string {
  const held = device.holders.flatMap(({ claim }) => [
    `claim:${claim.namespace}/${claim.name}`,
    ...claim.pods.flatMap((pod) => [
      `pod:${pod.namespace}/${pod.name}`,
      pod.gang && `gang:${pod.gang}`,
      pod.gone && "pod:gone",
    ]),
    ...claim.consumers,
  ]);
  const own = [
    `node:${device.node.name}`,
    `device:${device.name}`,
    `driver:${device.driver}`,
    `type:${device.type}`,
    ...device.classes.split(", ").map((name) => `class:${name}`),
    `root:${device.root}`,
    device.node.domain && `domain:${device.node.domain}`,
    `state:${device.state}`,
    device.cause && `cause:${device.cause}`,
    device.tainted && "state:tainted",
    device.why,
  ];
  return [...own, ...held].filter(Boolean).join("\n").toLowerCase();
}

export const NAMESPACES = (device: Device): string[] => [
  ...new Set(device.holders.filter((each) => !each.admin).map((each) => each.claim.namespace)),
];
