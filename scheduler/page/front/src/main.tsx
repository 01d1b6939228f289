// The start: reads the document that stands in the page, and shows it. A server can give the same document later.
import { render } from "preact";
import { App } from "./app";
import { embedded, fleetOf } from "./fleet";
import "./map.css";

const page = document.getElementById("page");

async function start(into: HTMLElement): Promise<void> {
  try {
    const fleet = fleetOf(await embedded());
    into.textContent = "";
    render(<App fleet={fleet} />, into);
  } catch (error) {
    into.textContent = `The map cannot be shown: ${error instanceof Error ? error.message : String(error)}. It needs a browser with DecompressionStream (Chrome 80, Firefox 113, Safari 16.4 or newer).`;
    into.className = "broken";
  }
}

if (page) void start(page);
