// Builds ../bundle from src, and records the hashes of sources and outputs, which a unit test checks without node.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const BUNDLE = "../bundle";
const FIXED = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"];

const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest("hex");
/** Each front end: what it starts from, and the package that is built into it. */
const FRONT_ENDS = { map: ["src/main.tsx", "preact"], report: ["src/report.ts", "uplot"] };
const sources = [...FIXED, ...readdirSync("src").map((name) => `src/${name}`)].sort();

const record = { sources: sha256(...sources.flatMap((name) => [name, "\0", readFileSync(name), "\0"])) };

for (const [name, [start, used]] of Object.entries(FRONT_ENDS)) {
  const licence = readFileSync(`node_modules/${used}/LICENSE`, "utf-8");
  const { version } = JSON.parse(readFileSync(`node_modules/${used}/package.json`, "utf-8"));
  await build({
    entryPoints: { [name]: start },
    outdir: BUNDLE,
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    banner: { js: `/*!\n${used} ${version}\n\n${licence.trim()}\n*/` },
    charset: "ascii",
    legalComments: "none",
    logLevel: "warning",
  });
  for (const file of [`${name}.css`, `${name}.js`]) record[file] = sha256(readFileSync(`${BUNDLE}/${file}`));
}
writeFileSync(`${BUNDLE}/built.json`, `${JSON.stringify(record, null, 2)}\n`);
