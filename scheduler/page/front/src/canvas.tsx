// The map with its buttons and the text beside the pointer.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { counted, duration } from "./text";
import type { Fleet } from "./fleet";
import type { Box } from "./layout";
import type { Picture, Place } from "./paint";
import { MapView } from "./view";
import { next } from "./walk";

interface Properties {
  fleet: Fleet;
  picture: Picture;
  onSelect(place: Place | null): void;
  onView(view: MapView): void;
}

interface Hovered {
  place: Place;
  x: number;
  y: number;
  box: Box | null;
}

const PAN = 80;

export function MapCanvas({ fleet, picture, onSelect, onView }: Properties) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const view = useRef<MapView | null>(null);
  const select = useRef(onSelect);
  select.current = onSelect;
  const [hovered, setHovered] = useState<Hovered | null>(null);

  useLayoutEffect(() => {
    if (!canvas.current) return;
    const made = new MapView(
      canvas.current,
      picture,
      {
        hover: (place, x, y, box) => setHovered(place && { place, x, y, box }),
        select: (place) => select.current(place),
      },
    );
    view.current = made;
    onView(made);
    // The frame after the next one begins when the first picture is on the screen.
    requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("dovetail-first-picture")));
    return () => made.close();
  }, []);
  useLayoutEffect(() => view.current?.show(picture), [picture]);

  const keys = (event: KeyboardEvent): void => {
    const made = view.current;
    if (!made || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow")) {
      event.preventDefault();
      if (event.shiftKey) {
        const [x, y] = { ArrowLeft: [-PAN, 0], ArrowRight: [PAN, 0], ArrowUp: [0, -PAN], ArrowDown: [0, PAN] }[event.key] ?? [0, 0];
        made.pan(x ?? 0, y ?? 0);
        return;
      }
      const place = next(picture.layout, picture.selected, event.key);
      if (place) {
        onSelect(place);
        made.reveal(place.tile, true);
      }
    } else if (event.key === "+" || event.key === "=") made.zoom(1);
    else if (event.key === "-") made.zoom(-1);
    else if (event.key === "0") made.fit();
    else if (event.key === "Escape") onSelect(null);
    else if (event.key === "Enter" && picture.selected) made.reveal(picture.selected.tile, true);
  };

  const nodes = counted(fleet.nodes.length, "node");
  return (
    <div class="stage">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={`Map of ${nodes} with ${counted(fleet.devices.length, "device")}`}
        aria-describedby="map-keys"
        onKeyDown={keys}
      />
      <p id="map-keys" class="unseen">
        Arrow keys go from device to device, plus and minus zoom, 0 shows everything, Escape ends the selection.
      </p>
      {fleet.nodes.length === 0 && (
        <p class="nothing">
          <strong>No node and no device</strong>
          <span>{fleet.document.forbidden.length ? "Some kinds may not be listed." : "The source has no Node and no ResourceSlice."}</span>
        </p>
      )}
      <div class="zoom" role="group" aria-label="Zoom">
        <button type="button" onClick={() => view.current?.zoom(1)} aria-label="Zoom in" title="Zoom in (+)">
          +
        </button>
        <button type="button" onClick={() => view.current?.zoom(-1)} aria-label="Zoom out" title="Zoom out (-)">
          −
        </button>
        <button type="button" onClick={() => view.current?.fit()} aria-label="Show everything" title="Show everything (0)">
          ⤢
        </button>
      </div>
      {hovered?.box && <div class="outline" style={outline(hovered.box)} aria-hidden="true" />}
      {hovered && <Tip fleet={fleet} hovered={hovered} room={canvas.current} />}
    </div>
  );
}

const outline = ({ x, y, w, h }: Box): Record<string, string> => ({
  transform: `translate(${Math.round(x) - 2}px, ${Math.round(y) - 2}px)`,
  width: `${Math.round(w) + 4}px`,
  height: `${Math.round(h) + 4}px`,
});

/** The screen reader hears the selection instead. */
function Tip({ fleet, hovered, room }: { fleet: Fleet; hovered: Hovered; room: HTMLElement | null }) {
  const { tile, cell } = hovered.place;
  const isRight = hovered.x > (room?.clientWidth ?? 0) / 2;
  const isLow = hovered.y > (room?.clientHeight ?? 0) / 2;
  const place: Record<string, string> = isRight
    ? { right: `${(room?.clientWidth ?? 0) - hovered.x + 14}px` }
    : { left: `${hovered.x + 14}px` };
  place[isLow ? "bottom" : "top"] = `${isLow ? (room?.clientHeight ?? 0) - hovered.y + 14 : hovered.y + 14}px`;
  const device = cell && (cell.devices.find((each) => each.holders.length) ?? cell.devices[0]);
  const held = cell ? cell.devices.flatMap((each) => each.holders.map((holder) => ({ each, holder }))) : [];
  return (
    <div class="tip" style={place} aria-hidden="true">
      <b>{tile.node.name}</b>
      {cell && device && (
        <>
          <span>
            {cell.isCard ? `${device.card} · ${counted(cell.devices.length, "partition")}` : device.name}
            {device.type && !cell.isCard ? ` · ${device.type}` : ""}
          </span>
          {held.slice(0, 5).map(({ each, holder }) => (
            <span key={`${each.row}/${holder.claim.row}`}>
              {cell.isCard && <i>{each.name} </i>}
              {holder.claim.namespace}/{holder.claim.pods[0]?.name ?? holder.claim.name}
              {holder.share && ` · ${holder.share}`}
              {Number.isNaN(holder.claim.since) ? "" : ` · ${duration((fleet.readAt - holder.claim.since) / 1000)}`}
            </span>
          ))}
          {held.length > 5 && <span>and {held.length - 5} more</span>}
          {!held.length && <span class="quiet">{device.why || device.state}</span>}
        </>
      )}
      {!cell && <span class="quiet">{counted(tile.node.devices.length, "device")}</span>}
    </div>
  );
}
