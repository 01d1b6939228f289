// The views of a live page. The part of the address behind # names the one that is shown.
import { useEffect, useState } from "preact/hooks";

export type View = "map" | "queue";

export const VIEWS: readonly [View, string][] = [
  ["map", "Map"],
  ["queue", "Queue"],
];

/** Returns the view that is shown: always the map where the page is a file. */
export function useView(isLive: boolean): View {
  const [view, setView] = useState(named);
  useEffect(() => {
    const listen = (): void => setView(named());
    addEventListener("hashchange", listen);
    return () => removeEventListener("hashchange", listen);
  }, []);
  return isLive ? view : "map";
}

const named = (): View => VIEWS.find(([name]) => location.hash.slice(1) === name)?.[0] ?? "map";
