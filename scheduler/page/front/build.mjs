// Builds ../bundle from src, and records the hashes of sources and outputs, which a unit test checks without node.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const BUNDLE = "../bundle";
const FIXED = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"];

const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest("hex");
const licence = readFileSync("node_modules/preact/LICENSE", "utf-8");
const { version } = JSON.parse(readFileSync("node_modules/preact/package.json", "utf-8"));
const sources = [...FIXED, ...readdirSync("src").map((name) => `src/${name}`)].sort();

await build({
  entryPoints: { map: "src/main.tsx" },
  outdir: BUNDLE,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  banner: { js: `/*!\npreact ${version}\n\n${licence.trim()}\n*/` },
  charset: "ascii",
  logLevel: "warning",
});

const record = {
  sources: sha256(...sources.flatMap((name) => [name, "\0", readFileSync(name), "\0"])),
  "map.css": sha256(readFileSync(`${BUNDLE}/map.css`)),
  "map.js": sha256(readFileSync(`${BUNDLE}/map.js`)),
};
writeFileSync(`${BUNDLE}/built.json`, `${JSON.stringify(record, null, 2)}\n`);
