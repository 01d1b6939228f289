// The head of a view that is a table: its title, the search, and how many rows match.
import { count, counted } from "./text";

interface ViewHeadProperties {
  name: string;
  title: string;
  what: string;
  placeholder: string;
  text: string;
  onText: (text: string) => void;
  matches: string;
}

export function ViewHead({ name, title, what, placeholder, text, onText, matches }: ViewHeadProperties) {
  return (
    <div class="view-head">
      <h2 id={`${name}-title`}>{title}</h2>
      <label class="search">
        <span class="unseen">Search {what}</span>
        <input
          id="view-search"
          type="search"
          value={text}
          placeholder={placeholder}
          spellcheck={false}
          autocomplete="off"
          onInput={(event) => onText(event.currentTarget.value)}
        />
      </label>
      <p class="matches" role="status">
        {matches}
      </p>
    </div>
  );
}

/** Those rows of a table in which all words of a search stand, and how to say how many. */
export function matching<Row>(rows: Row[] | null | undefined, text: string, searched: (row: Row) => string, noun: string): { found: Row[]; matches: string } {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = (rows ?? []).filter((row) => words.every((word) => searched(row).includes(word)));
  const all = rows ? counted(rows.length, noun) : "";
  return { found, matches: rows && words.length ? `${count(found.length)} of ${all}` : all };
}
