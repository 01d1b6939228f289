// The views of a live page. The part of the address behind # names the one that is shown.
import { useEffect, useState } from "preact/hooks";

export type ViewName = "map" | "queue" | "quotas" | "fit" | "decisions" | "pod";

export interface View {
  name: ViewName;
  /** Of a view about one pod. */
  namespace: string;
  pod: string;
}

export const VIEWS: readonly [ViewName, string][] = [
  ["map", "Map"],
  ["queue", "Queue"],
  ["quotas", "Quotas"],
  ["fit", "Fit"],
  ["decisions", "Decisions"],
];

const MAP: View = { name: "map", namespace: "", pod: "" };

/** Returns the view that is shown: always the map where the page is a file. */
export function useView(isLive: boolean): View {
  const [view, setView] = useState(named);
  useEffect(() => {
    const listen = (): void => setView(named());
    addEventListener("hashchange", listen);
    return () => removeEventListener("hashchange", listen);
  }, []);
  return isLive ? view : MAP;
}

function named(): View {
  const [first = "", namespace = "", pod = ""] = location.hash.slice(1).split("/").map(decoded);
  if (first === "pod" && namespace && pod) return { name: "pod", namespace, pod };
  return { ...MAP, name: VIEWS.find(([name]) => name === first)?.[0] ?? "map" };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}
