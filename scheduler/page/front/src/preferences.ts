// What the reader chose, kept where the browser allows it; a page from a file may have no storage.
export type ThemeChoice = "auto" | "light" | "dark";

const KEY = "dovetail-theme";

export function rememberedTheme(): ThemeChoice {
  try {
    const found = localStorage.getItem(KEY);
    return found === "light" || found === "dark" ? found : "auto";
  } catch {
    return "auto";
  }
}

export function rememberTheme(choice: ThemeChoice): void {
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // Nothing is remembered then.
  }
}

const TOKEN_KEY = "dovetail-token";

/** The event of another token. */
export const TOKEN_CHANGED = "dovetail-token-changed";

let token = "";

/** The token that the reader gave: kept in this tab alone, until it is closed. */
export function rememberedToken(): string {
  try {
    return token || (sessionStorage.getItem(TOKEN_KEY) ?? "");
  } catch {
    return token;
  }
}

export function rememberToken(given: string): void {
  token = given;
  try {
    sessionStorage.setItem(TOKEN_KEY, given);
  } catch {
    // It is kept until the page is loaded again.
  }
  document.dispatchEvent(new Event(TOKEN_CHANGED));
}
