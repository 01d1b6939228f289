// The document of the map as rows (scheduler/page/fleet_map.py has columns, fleet_rows.py the rows of a change).

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

export interface QuotaResource {
  deviceClass: string;
  capacity: string | null;
  shape: string;
  guarantee: string;
  limit: string | null;
  weight: number;
  held: string;
  lent: string;
  waiting: number;
  fleet: string | null;
}

export interface Quota {
  name: string;
  parent: string | null;
  depth: number;
  resources: QuotaResource[];
  findings: { reason: string; message: string }[];
}

/** A pod, or the successor of one, with its devices (driver/pool/name) after a plan; without `from` it waits now. */
export interface Arrival {
  namespace: string;
  name: string;
  from?: string;
  node?: string;
  devices?: string[];
}

/** A RepairPlan that is not over. */
export interface PlanPicture {
  name: string;
  goal: string;
  state: string;
  arrivals: Arrival[];
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
  /** Each before those below it; null: DeviceQuotas may not be listed. Missing in documents of older versions. */
  quotas?: Quota[] | null;
  /** Those that may be listed. Missing in documents of older versions. */
  repairs?: PlanPicture[];
  nodes: { name: Column; group: Column; domain: Column; exists: Column; labels: Record<string, Column> };
  devices: Record<DeviceColumn, Column>;
  holders: Record<"device" | "claim" | "request" | "share" | "part" | "admin", Column>;
  claims: Record<"namespace" | "name" | "since" | "source", Column> & { pods: Column[]; consumers: Column[] };
  pods: Record<"namespace" | "name" | "gang" | "gone", Column>;
  texts: string[];
}

type DeviceText = "name" | "driver" | "pool" | "type" | "classes" | "root" | "state" | "cause" | "why" | "card" | "left";
type DeviceColumn = DeviceText | "node" | "reach" | "part" | "used" | "tainted" | "suspect";

export type PodName = [namespace: string, name: string];
export type HolderRow = [namespace: string, claim: string, request: string, share: string, part: number, admin: number];
export type NodeRow = [name: string, group: string, domain: string, exists: number, labels: Record<string, string>];
export type ClaimRow = [namespace: string, name: string, since: string, source: string, pods: PodName[], consumers: string[]];
export type PodRow = [namespace: string, name: string, gang: string, gone: number];
export type DeviceRow = [
  node: string,
  reach: number,
  name: string,
  driver: string,
  pool: string,
  type: string,
  classes: string,
  root: string,
  state: string,
  cause: string,
  why: string,
  card: string,
  part: number,
  used: number,
  left: string,
  tainted: number,
  suspect: number,
  holders: HolderRow[],
];
/** A pod with the distance of its position from the one before; null: it has none. */
type WaitingRow = [step: number | null, pod: Waiting];

type Tables = "nodes" | "devices" | "holders" | "claims" | "pods" | "texts" | "queue";

/** The document without its tables. */
export type Facts = Omit<FleetDocument, Tables>;

export interface FleetRows extends Facts {
  nodes: NodeRow[];
  devices: DeviceRow[];
  claims: ClaimRow[];
  pods: PodRow[];
  /** Missing where pods may not be listed. */
  queue?: WaitingRow[];
}

export function rowsOf(document: FleetDocument): FleetRows {
  const { nodes, devices, holders, claims, pods, texts, queue, ...facts } = document;
  const text = (index: number | undefined): string => (index === undefined || index < 0 ? "" : (texts[index] ?? ""));
  const at = (column: Column, row: number): number => column[row] ?? 0;
  const labels = Object.entries(nodes.labels);
  const podNames = pods.name.map((name, row): PodName => [text(pods.namespace[row]), text(name)]);
  const held: HolderRow[][] = devices.name.map(() => []);
  for (const [row, device] of holders.device.entries()) {
    const claim = at(holders.claim, row);
    held[device]?.push([
      text(claims.namespace[claim]),
      text(claims.name[claim]),
      text(holders.request[row]),
      text(holders.share[row]),
      at(holders.part, row),
      at(holders.admin, row),
    ]);
  }
  const rows: FleetRows = {
    ...facts,
    nodes: nodes.name.map((name, row) => [
      text(name),
      text(nodes.group[row]),
      text(nodes.domain[row]),
      at(nodes.exists, row),
      Object.fromEntries(labels.flatMap(([key, column]) => (at(column, row) < 0 ? [] : [[key, text(column[row])]]))),
    ]),
    devices: devices.name.map((name, row) => [
      text(nodes.name[devices.node[row] ?? -1]),
      at(devices.reach, row),
      text(name),
      text(devices.driver[row]),
      text(devices.pool[row]),
      text(devices.type[row]),
      text(devices.classes[row]),
      text(devices.root[row]),
      text(devices.state[row]),
      text(devices.cause[row]),
      text(devices.why[row]),
      text(devices.card[row]),
      at(devices.part, row),
      at(devices.used, row),
      text(devices.left[row]),
      at(devices.tainted, row),
      at(devices.suspect, row),
      held[row] ?? [],
    ]),
    claims: claims.name.map((name, row) => [
      text(claims.namespace[row]),
      text(name),
      text(claims.since[row]),
      text(claims.source[row]),
      (claims.pods[row] ?? []).flatMap((pod) => [podNames[pod] ?? []] as PodName[]),
      (claims.consumers[row] ?? []).map(text),
    ]),
    pods: pods.name.map((name, row) => [text(pods.namespace[row]), text(name), text(pods.gang[row]), at(pods.gone, row)]),
  };
  return queue ? { ...rows, queue: stepsOf(queue) } : rows;
}

/** The pods that wait, with their positions; null: they may not be listed. */
export function queueOf({ queue }: FleetRows): Waiting[] | null {
  let position = 0;
  return (
    queue?.map(([step, pod]) => {
      if (step === null) return pod;
      position += step;
      return { ...pod, position };
    }) ?? null
  );
}

function stepsOf(queue: Waiting[]): WaitingRow[] {
  let before = 0;
  return queue.map(({ position, ...pod }) => {
    const step = position === undefined || position === null ? null : position - before;
    before = position ?? before;
    return [step, pod];
  });
}
