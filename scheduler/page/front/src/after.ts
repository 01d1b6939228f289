// The fleet as it is once the moves of a RepairPlan are made.
import type { Arrival, ClaimRow, DeviceRow, FleetRows, PlanPicture, PodRow } from "./rows";

const NODE = 0;
const [NAME, DRIVER, POOL] = [2, 3, 4] as const;
const [STATE, CAUSE, WHY] = [8, 9, 10] as const;
const HOLDERS = 17;

/** Pods leave their devices, and they or those that waited have the ones of the plan. */
export function after(rows: FleetRows, plan: PlanPicture): FleetRows {
  const devices = rows.devices.map((row): DeviceRow => [...row]);
  const byName = new Map(devices.map((row) => [`${row[DRIVER]}/${row[POOL]}/${row[NAME]}`, row]));
  const leaving = leavingClaims(rows.claims, plan.arrivals);
  for (const row of devices) {
    const left = row[HOLDERS].filter(([namespace, claim]) => !leaving.has(`${namespace}/${claim}`));
    if (left.length === row[HOLDERS].length) continue;
    const pods = row[HOLDERS].flatMap(([namespace, claim]) => leaving.get(`${namespace}/${claim}`) ?? []);
    row[HOLDERS] = left;
    if (!left.length && row[STATE] !== "unusable") [row[STATE], row[CAUSE]] = ["free", ""];
    row[WHY] = `${plan.name}: ${pods.map((pod) => `${pod.namespace}/${pod.name}`).join(", ")} has left`;
  }
  const claims: ClaimRow[] = [];
  const pods = new Map<string, PodRow>(rows.pods.map((row) => [`${row[0]}/${row[1]}`, row]));
  const gangs = new Map((rows.queue ?? []).map(([, pod]) => [`${pod.namespace}/${pod.name}`, pod.gang ?? ""]));
  for (const pod of plan.arrivals) {
    const key = `${pod.namespace}/${pod.name}`;
    const taken = (pod.devices ?? []).map((name) => byName.get(name)).filter((row) => row !== undefined);
    if (!taken.length) continue;
    if (!pods.has(key)) pods.set(key, [pod.namespace, pod.name, gangs.get(key) ?? "", 0]);
    const claim = `${pod.name} (${plan.name})`;
    claims.push([pod.namespace, claim, rows.readAt, "allocation", [[pod.namespace, pod.name]], []]);
    for (const row of taken) {
      row[HOLDERS] = [...row[HOLDERS], [pod.namespace, claim, "", "", 1000, 0]];
      if (row[STATE] !== "unusable") [row[STATE], row[CAUSE]] = ["held", ""];
      row[WHY] = `${plan.name}: ${key} comes${pod.from ? ` from ${pod.from}` : ""} to ${row[NODE] || "it"}`;
    }
  }
  const placed = new Set(plan.arrivals.filter((pod) => !pod.from).map((pod) => `${pod.namespace}/${pod.name}`));
  const stays = rows.claims.filter(([namespace, name]) => !leaving.has(`${namespace}/${name}`));
  const supply = { ...rows.supply, fragmentation: null };  // nobody has counted it
  const made = { ...rows, devices, total: totalAfter(rows, devices), supply, claims: [...stays, ...claims], pods: [...pods.values()] };
  return rows.queue ? { ...made, queue: rows.queue.filter(([, pod]) => !placed.has(`${pod.namespace}/${pod.name}`)) } : made;
}

/** How many devices are in each state; those with shares in use count as free, too. */
function totalAfter(rows: FleetRows, devices: DeviceRow[]): FleetRows["total"] {
  const total = { ...rows.total };
  const add = (state: string, count: number): void => {
    if (state !== "free" && state !== "shared" && state !== "held") return;  // no plan changes others
    total[state] = (total[state] ?? 0) + count;
    if (state === "shared") total.free = (total.free ?? 0) + count;
  };
  for (const row of rows.devices) add(row[STATE], -1);
  for (const row of devices) add(row[STATE], 1);
  return total;
}

/** The claims of pods that leave, with these pods. */
function leavingClaims(claims: ClaimRow[], arrivals: Arrival[]): Map<string, Arrival[]> {
  const moves = new Map(arrivals.filter((pod) => pod.from).map((pod) => [`${pod.namespace}/${pod.name}`, pod]));
  const found = new Map<string, Arrival[]>();
  for (const [namespace, name, , , pods] of claims) {
    const gone = pods.flatMap((pod) => moves.get(pod.join("/")) ?? []);
    if (gone.length && gone.length === pods.length) found.set(`${namespace}/${name}`, gone);
  }
  return found;
}
