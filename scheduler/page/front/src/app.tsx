// The page: numbers, tools, map and panels, and the state that they share.
import { options } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { MapCanvas } from "./canvas";
import { PALETTES, schemeOf, uncoloured, type ColourBy, type Scheme, type Theme } from "./colours";
import { DecisionsView, NoDecisions, PodView } from "./decisions_view";
import { Details } from "./details";
import { FitView } from "./fit_view";
import { after } from "./after";
import { fleetOf, type Device, type Fleet } from "./fleet";
import { layOut, type Grouping, type Layout } from "./layout";
import type { Connection } from "./live";
import type { Place } from "./paint";
import { Found, Numbers, Queue } from "./panels";
import { useNow } from "./now";
import { useView, VIEWS, type ViewName } from "./navigation";
import { QueueView } from "./queue_view";
import { QuotaView } from "./quota_view";
import { rememberedTheme, rememberTheme, type ThemeChoice } from "./preferences";
import { search } from "./search";
import { clock, count, counted, duration, percent, second, visible } from "./text";
import type { MapView } from "./view";

const SCHEMES: readonly [ColourBy, string][] = [
  ["namespace", "Namespace"],
  ["gang", "Gang"],
  ["state", "State"],
  ["age", "Age"],
];
type Tab = "numbers" | "queue" | "found" | "details";
const MOST_VALUES = 400;
const ZONE = "topology.kubernetes.io/zone";

interface Chosen {
  node: string;
  device: string | null;
}

/** `connection` stands for a live page. */
export function App({ fleet: now, connection }: { fleet: Fleet; connection?: Connection }) {
  const [planned, setPlanned] = useState("");
  const plans = now.document.repairs ?? [];
  const plan = plans.find((each) => each.name === planned);
  const fleet = useMemo(() => (plan ? { ...now, ...fleetOf(after(now.rows, plan)) } : now), [now, plan]);
  const { theme, choice, setChoice, prefer } = useTheme();
  const view = useView(connection !== undefined);
  const isMap = view.name === "map";
  const [by, setBy] = useState<ColourBy>("namespace");
  const groupings = useMemo(() => groupingsOf(fleet), [fleet]);
  const [grouping, setGrouping] = useState(() => firstGrouping(fleet));
  const [text, setText] = useState("");
  const [type, setType] = useState("");
  const [keys, setKeys] = useState<ReadonlySet<string>>(new Set());
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const [tab, setTab] = useState<Tab>("numbers");
  const map = useRef<MapView | null>(null);
  const input = useRef<HTMLInputElement>(null);

  const palette = PALETTES[theme];
  const scheme = useMemo(() => schemeOf(fleet, by, palette), [fleet, by, palette]);
  const aspect = useRef(stageAspect());
  const layout = useMemo(
    () => layOut(fleet, groupings.find((each) => each.key === grouping)?.grouping ?? { kind: "none" }, aspect.current),
    [fleet, grouping],
  );
  const matches = useMemo(() => search(fleet, scheme, { text, keys, type }), [fleet, scheme, text, keys, type]);
  const kept = useMemo(() => placeOf(layout, chosen), [layout, chosen]);
  const picture = useMemo(
    () => ({ layout, grouping, scheme, palette, matches, selected: kept, readAt: fleet.readAt }),
    [layout, scheme, palette, matches, kept],
  );
  usePrinting(choice, setChoice, () => map.current?.paintWhole());

  const choose = (place: Place | null): void => {
    setChosen(place && { node: place.tile.node.name, device: place.cell?.devices[0] ? idOf(place.cell.devices[0]) : null });
    if (place) setTab("details");
  };
  const find = (wanted: string): void => {
    setText(wanted);
    if (wanted && tab !== "details") setTab("found");
  };
  const onDevice = (device: Device): void => {
    const tile = layout.tiles.find((each) => each.node === device.node);
    const cell = tile?.cells.find((each) => each.devices.includes(device));
    if (!tile || !cell) return;
    choose({ tile, cell });
    map.current?.reveal(tile, true);
  };
  const clear = (): void => {
    setText("");
    setType("");
    setKeys(new Set());
  };
  useShortcuts({
    "/": () => (isMap ? input.current : document.getElementById("view-search"))?.focus(),
    t: () => prefer(theme === "light" ? "dark" : "light"),
  });
  const isFiltered = matches.devices !== null;
  const types = useMemo(() => [...new Set(fleet.devices.map((device) => device.type))].filter(Boolean).sort(), [fleet]);

  return (
    <div class={isMap ? "app" : "app in-view"}>
      <Heading fleet={fleet} theme={theme} onTheme={prefer} view={view.name} connection={connection} />
      <Figures fleet={fleet} />
      {view.name === "queue" && <QueueView fleet={fleet} hasDecisions={connection?.hasDecisions ?? false} />}
      {view.name === "quotas" && <QuotaView fleet={fleet} />}
      {view.name === "fit" && <FitView namespace={connection?.namespace ?? ""} />}
      {view.name === "decisions" && (connection?.hasDecisions ? <DecisionsView /> : <NoDecisions />)}
      {view.name === "pod" && (connection?.hasDecisions ? <PodView namespace={view.namespace} name={view.pod} /> : <NoDecisions />)}
      <div class="tools" role="search" hidden={!isMap}>
        <label class="search">
          <span class="unseen">Search</span>
          <input
            ref={input}
            type="search"
            value={text}
            placeholder="Search nodes, devices, claims, pods, labels   ( / )"
            spellcheck={false}
            autocomplete="off"
            onInput={(event) => find(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter") map.current?.frameTiles(layout.tiles.filter((tile) => matches.nodes.has(tile.node)));
              if (event.key === "Escape") find("");
            }}
          />
        </label>
        <Choice label="Type" value={type} onChange={setType} options={[["", "all types"], ...types.map((name): [string, string] => [name, name])]} />
        {plans.length > 0 && <Choice label="Show" value={plan?.name ?? ""} onChange={setPlanned} options={[["", "the fleet now"], ...plans.map((each): [string, string] => [each.name, `after ${each.name}`])]} />}
        <Choice label="Group by" value={grouping} onChange={setGrouping} options={groupings.map((each) => [each.key, each.label])} />
        <fieldset class="switch">
          <legend>Colour</legend>
          {SCHEMES.map(([name, label]) => (
            <label key={name}>
              <input
                type="radio"
                name="colour"
                checked={by === name}
                onChange={() => {
                  setBy(name);
                  setKeys(new Set());
                }}
              />
              <span>{label}</span>
            </label>
          ))}
        </fieldset>
        {plan && (
          <button type="button" class="link" onClick={() => find(`${plan.name}:`)}>
            {`${counted(plan.arrivals.filter((pod) => pod.from).length, "move")} for ${visible(plan.goal)}`}
          </button>
        )}
        <p class="matches" role="status">
          {isFiltered ? `${count(matches.count)} of ${counted(fleet.devices.length, "device")}` : counted(fleet.devices.length, "device")}
        </p>
        <button type="button" class="clear" disabled={!isFiltered} onClick={clear}>
          Clear
        </button>
      </div>
      <main hidden={!isMap}>
        <MapCanvas fleet={fleet} picture={picture} onSelect={choose} onView={(made) => (map.current = made)} />
        <aside>
          <Legend scheme={scheme} keys={keys} onKeys={setKeys} more={uncoloured(fleet, by, palette)} />
          <Tabs tab={tab} onTab={setTab} waiting={fleet.document.queue?.length ?? 0} found={isFiltered ? matches.count : null} />
          <div class="panel" role="tabpanel" id="panel" aria-labelledby={`tab-${tab}`} tabIndex={0}>
            {tab === "numbers" && <Numbers fleet={fleet} onSearch={find} />}
            {tab === "queue" && <Queue fleet={fleet} />}
            {tab === "found" && <Found fleet={fleet} matches={matches} onDevice={onDevice} />}
            {tab === "details" && <Details fleet={fleet} place={kept} hasDecisions={connection?.hasDecisions ?? false} onSearch={find} />}
          </div>
        </aside>
      </main>
      <p class="unseen" aria-live="polite">
        {kept ? spoken(kept) : ""}
      </p>
      <section class="paper" aria-hidden="true">
        <Numbers fleet={fleet} onSearch={find} />
        <h2>Pods that wait</h2>
        <Queue fleet={fleet} />
      </section>
    </div>
  );
}

interface HeadingProperties {
  fleet: Fleet | null;
  theme: Theme;
  onTheme(choice: ThemeChoice): void;
  view?: ViewName;
  connection?: Connection | undefined;
}

function Heading({ fleet, theme, onTheme, view, connection }: HeadingProperties) {
  const left = fleet ? leftOut(fleet) : "";
  return (
    <header>
      <svg viewBox="0 0 24 24" class="logo" aria-hidden="true">
        <path d="M3 3h18v7h-3l-2 4h-8l-2-4H3z" />
        <path d="M3 13h2l2 4h10l2-4h2v8H3z" />
      </svg>
      <h1>{connection ? "Dovetail" : "Fleet map"}</h1>
      {connection && (
        <nav aria-label="Views">
          {VIEWS.filter(([name]) => (name !== "fit" || connection.hasFit) && (name !== "quotas" || hasQuotas(fleet, view))).map(([name, label]) => (
            <a key={name} href={`#${name}`} aria-current={name === view ? "page" : undefined}>
              {label}
            </a>
          ))}
        </nav>
      )}
      <p class="source">{fleet?.document.source ?? ""}</p>
      {connection ? <LiveAge connection={connection} /> : fleet && <Age fleet={fleet} />}
      {left && (
        <p class="warning" title={left}>
          {left}
        </p>
      )}
      <button
        type="button"
        class="theme"
        aria-label={theme === "light" ? "Dark colours" : "Light colours"}
        title="Light or dark (t)"
        onClick={() => onTheme(theme === "light" ? "dark" : "light")}
      >
        {theme === "light" ? "☾" : "☀"}
      </button>
    </header>
  );
}

/** Where there are no quotas, their view is shown to those only who ask for it. */
const hasQuotas = (fleet: Fleet | null, view: ViewName | undefined): boolean => view === "quotas" || Boolean(fleet?.document.quotas?.length);

/** The heading of a live page without a picture. */
export function Top({ connection }: { connection: Connection }) {
  const { theme, prefer } = useTheme();
  return <Heading fleet={null} theme={theme} onTheme={prefer} connection={connection} />;
}

/** What the reader may not list, by kind or counted. */
function leftOut(fleet: Fleet): string {
  const { forbidden, hidden = {} } = fleet.document;
  const { pods = 0, devices = 0, namespaces = 0 } = hidden;
  const counts: [number, string][] = [
    [pods, "waiting pod"],
    [devices, "holder"],
    [namespaces, "namespace"],
  ];
  const amounts = counts.filter(([number]) => number).map(([number, word]) => counted(number, word));
  return [
    forbidden.length ? `not listed, because it is forbidden: ${forbidden.join(", ")}` : "",
    amounts.length ? `left out, because you may not list them: ${amounts.join(", ")}` : "",
  ]
    .filter(Boolean)
    .join("; ");
}

function Age({ fleet }: { fleet: Fleet }) {
  const now = useNow(10_000);
  return (
    <p class="age" title={`Read at ${clock(fleet.readAt)} by dovetail ${fleet.document.version}`}>
      <b>{duration((now - fleet.readAt) / 1000)} old</b> <span>{clock(fleet.readAt)}</span>
    </p>
  );
}

/** How old the picture is, and since when it cannot be read again. */
function LiveAge({ connection }: { connection: Connection }) {
  const now = useNow(1_000);
  const { readAt, lost } = connection;
  return (
    <div class={lost ? "age lost" : "age"} title={lost?.message}>
      {readAt !== null && <b>{duration((now - readAt) / 1000)} old</b>}
      <p role="alert">{lost && readAt !== null && `Connection lost since ${second(lost.since)} UTC: ${lost.message}`}</p>
    </div>
  );
}

/** The numbers of `dovetail free` over all devices. */
function Figures({ fleet }: { fleet: Fleet }) {
  const { total, supply, knowsHolders, queue, forbidden } = fleet.document;
  const known = (kind: string, text: string): string => (forbidden.includes(kind) ? "?" : text);
  const shown = (value: number | undefined): string => (knowsHolders ? count(value ?? 0) : "?");
  const all = Math.max(1, total.total ?? 0);
  const figures: [string, string, number | null, string][] = [
    ["Devices", known("resourceslices", count(total.total ?? 0)), null, forbidden.includes("nodes") ? "nodes are not listed" : `on ${counted(fleet.nodes.filter((node) => !node.isPool).length, "node")}`],
    ["Held", shown(total.held), total.held ?? 0, ""],
    ["Free", shown(total.free), total.free ?? 0, total.shared ? `${count(total.shared)} with shares in use` : ""],
    ["Blocked", shown(total.blocked), total.blocked ?? 0, total.blocked ? "by partitions in use" : ""],
    ["Unusable", known("resourceslices", count(total.unusable ?? 0)), total.unusable ?? 0, Object.keys(fleet.document.unusable).join(", ")],
    ["Fragmented", supply.fragmentation === null ? "–" : percent(supply.fragmentation), null, "for a typical claim"],
    ["Waiting", queue ? count(queue.length) : "?", null, "pods in the queue"],
  ];
  return (
    <dl class="figures-strip">
      {figures.map(([name, value, part, note]) => (
        <div key={name} class={name.toLowerCase()}>
          <dt>{name}</dt>
          <dd>
            <b>{value}</b>
            {part !== null && knowsHolders && <i>{percent(part / all)}</i>}
            <span title={note}>{note}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Choice({ label, value, options, onChange }: { label: string; value: string; options: [string, string][]; onChange(value: string): void }) {
  return (
    <label class="choice">
      <span aria-hidden="true">{label}</span>
      <select value={value} aria-label={label} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map(([key, text]) => (
          <option key={key} value={key}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

interface LegendProperties {
  scheme: Scheme;
  keys: ReadonlySet<string>;
  more: number;
  onKeys(keys: ReadonlySet<string>): void;
}

function Legend({ scheme, keys, more, onKeys }: LegendProperties) {
  const toggle = (key: string): void => {
    const next = new Set(keys);
    if (!next.delete(key)) next.add(key);
    onKeys(next);
  };
  return (
    <div class="legend" role="group" aria-label="Colours; choose some to show only these">
      {scheme.entries.map((entry) => (
        <button type="button" key={entry.key} aria-pressed={keys.has(entry.key)} onClick={() => toggle(entry.key)}>
          <span class={`swatch ${entry.pattern ?? ""}`} style={entry.colour ? { backgroundColor: entry.colour } : {}} aria-hidden="true" />
          <span class="label">{entry.label}</span>
          <span class="number">{count(entry.devices)}</span>
        </button>
      ))}
      {more > 0 && <p class="quiet">{count(more)} more without a colour of their own: search for them</p>}
      {!scheme.entries.length && <p class="quiet">Nothing to colour</p>}
    </div>
  );
}

function Tabs({ tab, onTab, waiting, found }: { tab: Tab; onTab(tab: Tab): void; waiting: number; found: number | null }) {
  const tabs: [Tab, string, number | null][] = [
    ["numbers", "Numbers", null],
    ["queue", "Queue", waiting],
    ["found", "Devices", found],
    ["details", "Details", null],
  ];
  const move = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    const at = (tabs.findIndex(([name]) => name === tab) + step + tabs.length) % tabs.length;
    const name = tabs[at]?.[0] ?? "numbers";
    onTab(name);
    document.getElementById(`tab-${name}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" onKeyDown={move}>
      {tabs.map(([name, label, number]) => (
        <button
          type="button"
          role="tab"
          id={`tab-${name}`}
          key={name}
          aria-selected={tab === name}
          aria-controls="panel"
          tabIndex={tab === name ? 0 : -1}
          onClick={() => onTab(name)}
        >
          {label}
          {number !== null && <span class="number">{count(number)}</span>}
        </button>
      ))}
    </div>
  );
}

const idOf = (device: Device): string => `${device.driver}/${device.pool}/${device.name}`;

/** The place in a layout of what was chosen, maybe in another one. */
function placeOf(layout: Layout, chosen: Chosen | null): Place | null {
  const tile = chosen && layout.tiles.find((each) => each.node.name === chosen.node);
  if (!tile) return null;
  if (chosen.device === null) return { tile, cell: null };
  const cell = tile.cells.find((each) => each.devices.some((device) => idOf(device) === chosen.device));
  return cell ? { tile, cell } : null;
}

function spoken({ tile, cell }: Place): string {
  if (!cell) return `${tile.node.name}, ${counted(tile.node.devices.length, "device")}`;
  const [device] = cell.devices;
  if (!device) return tile.node.name;
  const pods = cell.devices.flatMap((each) => each.holders.map(({ claim }) => `${claim.namespace} ${claim.pods[0]?.name ?? claim.name}`));
  const what = cell.isCard ? `card ${device.card} with ${counted(cell.devices.length, "partition")}` : `${device.name}, ${device.state}`;
  return `${tile.node.name}, ${what}${pods.length ? `, held by ${pods.join(", ")}` : ""}${device.why ? `, ${device.why}` : ""}`;
}

function groupingsOf(fleet: Fleet): { key: string; label: string; grouping: Grouping }[] {
  const found: { key: string; label: string; grouping: Grouping }[] = [];
  const count = (values: Iterable<string>): number => new Set([...values].filter(Boolean)).size;
  found.push({ key: "none", label: "nothing", grouping: { kind: "none" } });
  if (count(fleet.nodes.map((node) => node.group))) found.push({ key: "group", label: "node group", grouping: { kind: "group" } });
  if (count(fleet.nodes.map((node) => node.domain))) found.push({ key: "domain", label: "NVLink domain", grouping: { kind: "domain" } });
  const labels = [...fleet.labels].map(([key, values]): [string, number] => [key, new Set(values.filter((value) => value !== null)).size]);
  for (const [key, values] of labels.sort(([one], [other]) => rank(one) - rank(other) || (one < other ? -1 : 1))) {
    if (values <= MOST_VALUES && values < Math.max(2, fleet.nodes.length)) found.push({ key: `label ${key}`, label: key, grouping: { kind: "label", key } });
  }
  return found;
}

/** The first view: by node group, else by zone, where there are several. */
function firstGrouping(fleet: Fleet): string {
  if (new Set(fleet.nodes.map((node) => node.group).filter(Boolean)).size > 1) return "group";
  return new Set(fleet.labels.get(ZONE)?.filter(Boolean)).size > 1 ? `label ${ZONE}` : "none";
}

/** Levels of the topology first: zone, rack, and whatever else is named so. */
const rank = (key: string): number => (/zone|region|rack|block|topology/.test(key) ? 0 : 1);

function stageAspect(): number {
  return window.innerWidth > 900 ? (window.innerWidth - 360) / Math.max(300, window.innerHeight - 190) : 1;
}

function useTheme() {
  const [choice, setChoice] = useState<ThemeChoice>(rememberedTheme);
  const asked = useMemo(() => matchMedia("(prefers-color-scheme: dark)"), []);
  const [isDark, setDark] = useState(asked.matches);
  useEffect(() => {
    const listen = (): void => setDark(asked.matches);
    asked.addEventListener("change", listen);
    return () => asked.removeEventListener("change", listen);
  }, []);
  const theme: Theme = choice === "auto" ? (isDark ? "dark" : "light") : choice;
  document.documentElement.dataset.theme = theme;
  const prefer = (wanted: ThemeChoice): void => {
    setChoice(wanted);
    rememberTheme(wanted);
  };
  return { theme, choice, setChoice, prefer };
}

/** Paper is light and shows everything. The browser prints what stands there when `beforeprint` returns. */
function usePrinting(choice: ThemeChoice, setChoice: (choice: ThemeChoice) => void, paint: () => void): void {
  const chosen = useRef(choice);
  useEffect(() => {
    const before = (): void => {
      chosen.current = choice;
      options.debounceRendering = (render) => render();
      setChoice("light");
      options.debounceRendering = undefined;
      paint();
    };
    const after = (): void => setChoice(chosen.current);
    addEventListener("beforeprint", before);
    addEventListener("afterprint", after);
    return () => {
      removeEventListener("beforeprint", before);
      removeEventListener("afterprint", after);
    };
  }, [choice]);
}

function useShortcuts(shortcuts: Record<string, () => void>): void {
  const current = useRef(shortcuts);
  current.current = shortcuts;
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      const isTyping = [HTMLInputElement, HTMLSelectElement, HTMLTextAreaElement].some((kind) => event.target instanceof kind);
      const action = current.current[event.key];
      if (!action || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}
