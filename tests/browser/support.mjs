// What the browser tests share: reports made by narrowcast, and a page that remembers everything
// that went wrong in it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

export const root = new URL("../../", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "narrowcast-browser-"));
export const file = (name) => join(folder, name);

export const narrowcast = (...args) =>
  execFileSync("narrowcast", args, { stdio: ["ignore", "pipe", "inherit"] }).toString();

// The report of a plan given as a value; without trace and verdict.
export function reportOf(plan, name) {
  writeFileSync(file(`${name}.json`), JSON.stringify(plan));
  narrowcast("report", file(`${name}.json`), "-o", file(`${name}.html`));
  return file(`${name}.html`);
}

let browser;
export async function start() {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    chromiumSandbox: process.getuid() !== 0,
  });
}
export async function stop() {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
}

// Opens a report, hands the page to `use`, and fails if the page complained of anything or asked for
// anything but itself. `options.before` runs in the page before its script.
export async function withPage(path, { before, ...options }, use) {
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 }, reducedMotion: "reduce", ...options });
  page.setDefaultTimeout(10000);
  if (before) await page.addInitScript(before);
  const wrong = [];
  const address = pathToFileURL(path).href;
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") wrong.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => wrong.push(`error: ${error.stack}`));
  page.on("dialog", (dialog) => { wrong.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => {
    const url = request.url();
    if (url !== address && !url.startsWith("data:")) wrong.push(`request: ${url}`);
  });
  try {
    await page.goto(`${address}${options.hash ?? ""}`);
    await page.locator("#tensors").waitFor();
    await use(page);
    assert.deepEqual(wrong, []);
  } finally {
    await page.close();
  }
}

// A plan of so many nodes in a chain, each with a weight; every seventh stays fp32.
export function chainPlan(length) {
  const nodes = [], values = [{ value: "t0", scope: "", format: "fp32", absmax: 1, headroom: 9 }];
  for (let k = 0; k < length; k++) {
    const wide = k % 7 === 0;
    const format = wide ? "fp32" : "fp16";
    nodes.push({
      node: `/layer.${k}/op`, scope: "", index: k, op: k % 2 ? "Relu" : "MatMul", class: "narrow", rule: "products", format,
      ...(wide && { reason: "overflow", tried: "fp16", because_of: `t${k}` }),
      inputs: [`t${k}`], outputs: [`t${k + 1}`], seconds: { fp16: 1e-9 * (k + 1), fp32: 2e-9 * (k + 1) },
    });
    values.push({
      value: `t${k + 1}`, scope: "", format, scale_log2: k % 5 === 0 ? -3 : 0, absmax: k + 1, headroom: 65504 / (k + 1),
      zero_fraction: 0, subnormal_fraction: k / length, sqnr_db: 70,
    });
  }
  return {
    schema: 1, model: { file: "chain.onnx", sha256: "00" }, policy: { name: "fp16", version: 1, ladder: ["fp16", "fp32"] },
    statistics: { source: "data", samples: 3, sha256: "11" }, claims: [{ id: "c", metric: "relative_l2", limit: 0.01 }],
    limits: [{ id: "samples", text: "Other data." }], promotions: [], nodes, values,
  };
}
