// node build.mjs [FILE]: builds template.html, the report without its data: one file with the script, the styles and the
// licences of the libraries inside. The page may run that one script, known by its hash, and may ask
// for nothing from anywhere; so even data that broke out of its element could do no harm.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const result = await build({
  entryPoints: ["src/main.jsx", "src/style.css"],
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  outdir: "out",
  format: "iife",
  target: ["chrome123", "firefox121", "safari17.5"],
  jsx: "automatic",
  jsxImportSource: "preact",
  alias: { react: "preact/compat", "react-dom": "preact/compat" },
  define: { "process.env.NODE_ENV": '"production"' },
  legalComments: "none",
  charset: "utf8",
});
const output = (extension) =>
  result.outputFiles.find((file) => file.path.endsWith(extension)).text.trim();

// The packages that ended up in the bundle, with their licence texts.
const packages = new Set();
for (const { inputs } of Object.values(result.metafile.outputs))
  for (const [path, { bytesInOutput }] of Object.entries(inputs)) {
    const match = path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//);
    if (match && bytesInOutput > 0) packages.add(match[1]);
  }
const licences = [...packages].sort().map((name) => {
  const folder = `node_modules/${name}`;
  const { version, license } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${name} has no licence file`);
  return { name, version, license, text: readFileSync(`${folder}/${file}`, "utf8").trim() };
});

const escape = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
const licenceText = licences
  .map(({ name, version, license, text }) => `${name} ${version} (${license})\n\n${text}`)
  .join(`\n\n${"-".repeat(72)}\n\n`);

const script = output(".js");
if (/<\/script|<!--/i.test(script)) throw new Error("the script would end its own element");
const hash = createHash("sha256").update(script).digest("base64");
const html = readFileSync("src/page.html", "utf8")
  .replace("{{policy}}", `default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline'; img-src data:`)
  .replace("{{style}}", () => output(".css"))
  .replace("{{licences}}", () => escape(licenceText))
  .replace("{{script}}", () => script);
const target = process.argv[2] ?? "template.html";
writeFileSync(target, html);
console.log(`${target}: ${html.length} characters`);
for (const { name, version, license } of licences) console.log(`  ${name} ${version} ${license}`);
