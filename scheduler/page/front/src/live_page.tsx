// The page of `dovetail page`: the map and the queue of a cluster, as they change.
import { useEffect } from "preact/hooks";
import { App, Top } from "./app";
import { useLive } from "./live";

export function LivePage() {
  const live = useLive();
  useEffect(() => {
    document.title = "Dovetail";
  }, []);
  if (live.fleet) return <App fleet={live.fleet} connection={live} />;
  return (
    <div class="app">
      <Top connection={live} />
      <p class="nothing" role="status">
        {live.lost ? <strong>Nothing can be shown</strong> : <strong>The cluster is read …</strong>}
        {live.lost && <span>{live.lost.message}</span>}
      </p>
    </div>
  );
}
