// The start: shows the document that stands in the page; without one the page follows its server.
import { render } from "preact";
import { App } from "./app";
import { embedded, fleetOf } from "./fleet";
import { LivePage } from "./live_page";
import "./map.css";

const page = document.getElementById("page");

async function start(into: HTMLElement): Promise<void> {
  try {
    const found = await embedded();
    into.textContent = "";
    render(found ? <App fleet={fleetOf(found)} /> : <LivePage />, into);
  } catch (error) {
    into.textContent = `The map cannot be shown: ${error instanceof Error ? error.message : String(error)}. It needs a browser with DecompressionStream (Chrome 80, Firefox 113, Safari 16.4 or newer).`;
    into.className = "broken";
  }
}

if (page) void start(page);
