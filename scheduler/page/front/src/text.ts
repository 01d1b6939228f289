// Texts: times, counts, and names of users without invisible characters.

// The same characters that scheduler/observe/terminal.py escapes.
const INVISIBLE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]/g;

/** Shows invisible characters and direction marks as `\u202e`. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

const UNITS: readonly [number, string][] = [
  [86400, "d"],
  [3600, "h"],
  [60, "m"],
  [1, "s"],
];

/** Writes a duration as kubectl does: `5m3s`, `2d5h`, `10d`. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [at, [size, unit]] of UNITS.entries()) {
    const count = Math.floor(whole / size);
    if (count === 0) continue;
    const smaller = UNITS[at + 1];
    const rest = smaller && count < 10 ? Math.floor((whole % size) / smaller[0]) : 0;
    return `${count}${unit}${rest && smaller ? `${rest}${smaller[1]}` : ""}`;
  }
  return "0s";
}

const NUMBER = new Intl.NumberFormat("en");

export const count = (value: number): string => NUMBER.format(value);

export const counted = (value: number, word: string): string => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

/** Writes a share as `25%`; what is not 0 or all is never said to be. */
export const percent = (part: number): string => {
  const rounded = Math.round(part * 100);
  if (rounded === 0 && part > 0) return "<1%";
  return rounded === 100 && part < 1 ? ">99%" : `${rounded}%`;
};

/** Writes a time as `23:00:05`, in UTC as all times are; one of another day as `11-23 23:00:05`. */
export function second(milliseconds: number): string {
  const text = new Date(milliseconds).toISOString().slice(0, 19);
  return text.startsWith(new Date().toISOString().slice(0, 10)) ? text.slice(11) : text.slice(5).replace("T", " ");
}

/** Writes a time as `2026-11-23 23:00 UTC`. */
export function clock(milliseconds: number): string {
  return `${new Date(milliseconds).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}
