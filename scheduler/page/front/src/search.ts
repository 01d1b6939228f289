// Which devices a search and the filters leave in the foreground.
import type { Device, Fleet, FleetNode } from "./fleet";
import type { Scheme } from "./colours";

export interface Query {
  text: string;
  /** Entries of the legend; none: all. */
  keys: ReadonlySet<string>;
  type: string;
}

export interface Matches {
  /** By row of the device; null: no search and no filter, so that all match. */
  devices: Uint8Array | null;
  count: number;
  nodes: ReadonlySet<FleetNode>;
}

/** Every word has to be somewhere in a device, its holders, or its node with its labels. `pod:a/b` means a whole name. */
export function search(fleet: Fleet, scheme: Scheme, query: Query): Matches {
  const words = query.text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length && !query.keys.size && !query.type) return { devices: null, count: fleet.devices.length, nodes: new Set() };
  const found = new Uint8Array(fleet.devices.length);
  const nodes = new Set<FleetNode>();
  let count = 0;
  for (const node of fleet.nodes) {
    const open = words.filter((word) => !hasWord(node.text, word));
    for (const device of node.devices) {
      if (!isMatch(device, open, scheme, query)) continue;
      found[device.row] = 1;
      nodes.add(node);
      count += 1;
    }
    if (!query.keys.size && !query.type && open.every((word) => hasWord(`node:${node.name}`.toLowerCase(), word))) nodes.add(node);
  }
  return { devices: found, count, nodes };
}

function isMatch(device: Device, words: string[], scheme: Scheme, query: Query): boolean {
  if (query.type && device.type !== query.type) return false;
  if (query.keys.size && !scheme.keysOf(device).some((key) => query.keys.has(key))) return false;
  return words.every((word) => hasWord(device.text, word));
}

const PREFIXED = /^(node|device|driver|type|class|root|domain|state|cause|claim|pod|gang):./;

/** `node:gpu-1` is the node gpu-1 alone; `gpu-1` is also gpu-10. */
function hasWord(text: string, word: string): boolean {
  return PREFIXED.test(word) ? `\n${text}\n`.includes(`\n${word}\n`) : text.includes(word);
}
