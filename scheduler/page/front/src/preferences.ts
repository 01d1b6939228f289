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
