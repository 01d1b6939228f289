// The fleet as objects, made from the document's columns (scheduler/page/fleet_map.py).
import { visible } from "./text";

type Column = number[];

export interface Largest {
  claim: number;
  node: number;
  root: number | null;
  domain: number | null;
}

export interface Supply {
  class?: string | null;
  type?: string | null;
  group?: string | null;
  total: number;
  held: number;
  free: number;
  shared: number;
  blocked: number;
  unusable: number;
  tainted: number;
  largest: Largest;
  fragmentation: number | null;
}

export interface Cause {
  pod: string;
  node: string;
  held: number;
  stranded: number;
}

export interface Waiting {
  position?: number;
  namespace: string;
  name: string;
  priority?: number;
  since?: string;
  schedulerName: string;
  reason: string;
  why: string;
  message?: string;
  gang?: string;
  nominatedNode?: string;
}

export interface FleetDocument {
  apiVersion: string;
  kind: string;
  readAt: string;
  source: string;
  version: string;
  knowsHolders: boolean;
  knowsConditions: boolean;
  forbidden: string[];
  /** How much of other namespaces is left out. */
  hidden: { pods?: number; devices?: number; namespaces?: number };
  total: Partial<Supply>;
  unusable: Record<string, number>;
  supply: {
    items: Supply[];
    fragmentation: number | null;
    causes: Cause[];
    unusablePools: { driver: string; pool: string; message: string }[];
    brokenClasses: string[];
  };
  queue: Waiting[] | null;
  nodes: { name: Column; group: Column; domain: Column; exists: Column; labels: Record<string, Column> };
  devices: Record<DeviceColumn, Column>;
  holders: Record<"device" | "claim" | "request" | "share" | "part" | "admin", Column>;
  claims: Record<"namespace" | "name" | "since" | "source", Column> & { pods: Column[]; consumers: Column[] };
  pods: Record<"namespace" | "name" | "gang" | "gone", Column>;
  texts: string[];
}

type DeviceText = "name" | "driver" | "pool" | "type" | "classes" | "root" | "state" | "cause" | "why" | "card" | "left";
type DeviceColumn = DeviceText | "node" | "reach" | "part" | "used" | "tainted" | "suspect";

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
  document: FleetDocument;
  readAt: number;
  /** When a live picture was drawn, in milliseconds of this browser's clock. */
  drawnAt?: number;
  nodes: FleetNode[];
  devices: Device[];
  labels: Map<string, (string | null)[]>;
}

export function fleetOf(document: FleetDocument): Fleet {
  const texts = document.texts.map(visible);
  const text = (index: number | undefined): string => (index === undefined || index < 0 ? "" : (texts[index] ?? ""));
  const pods: Pod[] = document.pods.name.map((name, row) => ({
    namespace: text(document.pods.namespace[row]),
    name: text(name),
    gang: text(document.pods.gang[row]),
    gone: document.pods.gone[row] === 1,
  }));
  const claims: Claim[] = document.claims.name.map((name, row) => ({
    row,
    namespace: text(document.claims.namespace[row]),
    name: text(name),
    since: Date.parse(text(document.claims.since[row])),
    source: text(document.claims.source[row]),
    pods: (document.claims.pods[row] ?? []).flatMap((pod) => pods[pod] ?? []),
    consumers: (document.claims.consumers[row] ?? []).map(text),
  }));
  const { nodes, labels } = nodesOf(document, text);
  const devices = devicesOf(document, text, nodes);
  for (const [row, device] of document.holders.device.entries()) {
    const claim = claims[document.holders.claim[row] ?? -1];
    if (!claim) continue;
    devices[device]?.holders.push({
      claim,
      request: text(document.holders.request[row]),
      share: text(document.holders.share[row]),
      part: (document.holders.part[row] ?? 1000) / 1000,
      admin: document.holders.admin[row] === 1,
    });
  }
  for (const device of devices) device.text = searched(device);
  return { document, readAt: Date.parse(document.readAt), nodes, devices, labels };
}

type Text = (index: number | undefined) => string;

function nodesOf(document: FleetDocument, text: Text) {
  const columns = document.nodes;
  const labels = new Map<string, (string | null)[]>();
  for (const [key, column] of Object.entries(columns.labels)) {
    labels.set(visible(key), column.map((index) => (index < 0 ? null : text(index))));
  }
  const nodes: FleetNode[] = columns.name.map((name, row) => ({
    row,
    name: text(name),
    group: text(columns.group[row]),
    domain: text(columns.domain[row]),
    exists: columns.exists[row] === 1,
    isPool: false,
    devices: [],
    text: [...labels].map(([key, values]) => (values[row] == null ? "" : `${key}=${values[row]}`)).join("\n").toLowerCase(),
  }));
  return { nodes, labels };
}

function devicesOf(document: FleetDocument, text: Text, nodes: FleetNode[]): Device[] {
  const columns = document.devices;
  const pools = new Map<string, FleetNode>();
  return columns.name.map((name, row) => {
    const pool = text(columns.pool[row]);
    const node = nodes[columns.node[row] ?? -1] ?? poolNode(pool, columns.reach[row] ?? 0, pools, nodes);
    const device: Device = {
      row,
      node,
      name: text(name),
      driver: text(columns.driver[row]),
      pool,
      type: text(columns.type[row]),
      classes: text(columns.classes[row]).replaceAll(",", ", "),
      root: text(columns.root[row]),
      state: text(columns.state[row]) as State,
      cause: text(columns.cause[row]),
      why: text(columns.why[row]),
      card: text(columns.card[row]),
      part: (columns.part[row] ?? 1000) / 1000,
      used: (columns.used[row] ?? -1) / 1000,
      left: text(columns.left[row]),
      tainted: columns.tainted[row] === 1,
      suspect: columns.suspect[row] === 1,
      holders: [],
      text: "",
    };
    node.devices.push(device);
    return device;
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

/** Reads the document that stands in the page; null: there is none, its server has one. */
export async function embedded(): Promise<FleetDocument | null> {
  const packed = document.getElementById("document")?.textContent ?? "";
  if (!packed) return null;
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).json()) as FleetDocument;
}
