// The start: shows the document that stands in the page; without one the page follows its server.
import { render } from "preact";
import { App } from "./app";
import { fleetOf } from "./fleet";
import { LivePage } from "./live_page";
import { unpacked } from "./packed";
import { rowsOf, type FleetDocument } from "./rows";
import "./map.css";

const page = document.getElementById("page");

async function start(into: HTMLElement): Promise<void> {
  try {
    const packed = document.getElementById("document")?.textContent ?? "";
    const found = packed ? fleetOf(rowsOf(await unpacked<FleetDocument>(packed))) : null;
    into.textContent = "";
    render(found ? <App fleet={found} /> : <LivePage />, into);
  } catch (error) {
    into.textContent = `The map cannot be shown: ${error instanceof Error ? error.message : String(error)}. It needs a browser with DecompressionStream (Chrome 80, Firefox 113, Safari 16.4 or newer).`;
    into.className = "broken";
  }
}

if (page) void start(page);
