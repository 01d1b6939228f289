// The page of `dovetail page`: what it shows until there is a picture, and a token where the server asks for one.
import { useEffect, useState } from "preact/hooks";
import { App, Top } from "./app";
import { useLive } from "./live";
import { rememberedToken, rememberToken } from "./preferences";

export function LivePage() {
  const live = useLive();
  useEffect(() => {
    document.title = "Dovetail";
  }, []);
  if (live.fleet && live.wanted === null) return <App fleet={live.fleet} connection={live} />;
  return (
    <div class="app">
      <Top connection={live} />
      {live.wanted === null ? (
        <div class="nothing" role="status">
          <strong>{live.lost ? "Nothing can be shown" : "The cluster is read …"}</strong>
          {live.lost && <span>{live.lost.message}</span>}
          {live.lost && rememberedToken() && (
            <button type="button" class="link" onClick={() => rememberToken("")}>
              Use another token
            </button>
          )}
        </div>
      ) : (
        <TokenForm problem={live.wanted} />
      )}
    </div>
  );
}

function TokenForm({ problem }: { problem: string }) {
  const [text, setText] = useState("");
  return (
    <form
      class="token"
      onSubmit={(event) => {
        event.preventDefault();
        setText("");
        rememberToken(text.trim());
      }}
    >
      <h2>Who asks?</h2>
      <p>
        The page shows what you may list. It asks the API server with a token, which stays in this tab. One that only
        Dovetail accepts, of a service account:
      </p>
      <code>kubectl create token NAME -n NAMESPACE --audience dovetail.dev</code>
      <label>
        <span>Token</span>
        <input type="password" value={text} autocomplete="off" required onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <p role="alert" class="odd">
        {problem && `Refused: ${problem}`}
      </p>
      <button type="submit">Show the cluster</button>
    </form>
  );
}
