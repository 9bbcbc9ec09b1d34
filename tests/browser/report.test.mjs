// The HTML report in Chromium, as its reader meets it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chainPlan, file, narrowcast, reportOf, root, start, stop, withPage } from "./support.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// Converts a model with everything, to NAME.html.
function convert(model, name, ...more) {
  narrowcast("convert", model, "-q", "--save-anyway", ...more, "-o", file(`${name}.onnx`), "--save-plan", file(`${name}.plan.json`),
    "--report", file(`${name}.html`));
  return file(`${name}.html`);
}

// The real model whose plan has most nodes.
function largestModel() {
  const models = process.env.NARROWCAST_MODELS;
  if (!models) return null;
  let largest = null;
  for (const name of readdirSync(models)) {
    const model = join(models, name, "model.onnx");
    if (!existsSync(model)) continue;
    const { nodes } = JSON.parse(narrowcast("inspect", model, "--json"));
    if (!largest || nodes > largest.nodes) largest = { model, nodes };
  }
  return largest;
}

let digits, chain;
before(async () => {
  digits = convert(`${root}models/digits/digits.onnx`, "digits", "--data", `${root}models/digits/samples`);
  chain = reportOf(chainPlan(20000), "chain");
  await start();
});
after(stop);

const firstName = (page, table) => page.locator(`#${table} .grid-body .row`).first().locator(".lead").innerText();
const rowCount = async (page, table) => Number(await page.locator(`#${table} [role=table]`).getAttribute("aria-rowcount")) - 1;

// Until `get` gives the value; fails with what it gave last.
async function eventually(get, wanted) {
  let last;
  for (let k = 0; k < 100; k++) {
    last = await get();
    if (last === wanted) return;
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  assert.equal(last, wanted);
}

test("the_template_is_what_its_sources_build", () => {
  execFileSync("node", ["build.mjs", file("template.html")], { cwd: `${root}report`, stdio: ["ignore", "ignore", "inherit"] });
  assert.ok(readFileSync(file("template.html")).equals(readFileSync(`${root}report/template.html`)));
});

test("verdict_and_claims_stand_first", () => withPage(digits, {}, async (page) => {
  assert.match(await page.locator("main > :first-child h1").innerText(), /^Every claim holds$/);
  assert.match(await page.locator("#claims").innerText(), /Relative L2 error[^]*≤ 0\.01[^]*[0-7]\.npz/);
  assert.match(await page.locator("#claims").innerText(), /Relative L2 error\s+[\d.]+e−4\s+held-out: [\d.]+e−4\s+calibration: [\d.]+e−4\s+engine: [\d.]+/);
  assert.match(await page.locator("#verdict").innerText(), /2 held-out samples and 6 that calibrated it/);
  assert.match(await page.locator("#verdict").innerText(), /Few samples\. Judged on 2 held-out samples/);
  assert.match(await page.locator("#limits").innerText(), /Equal quality on other data/);
  assert.match(await page.title(), /digits\.onnx: Every claim holds/);
}));

// A plan, and a verdict in which what calibrated does worse than what was held out.
function worseOnCalibration() {
  const plan = chainPlan(12);
  plan.values[3].value = plan.nodes[2].outputs[0] = plan.nodes[3].inputs[0] = `jax2tf_get_logits_/pjit_get_logits_/${"block/".repeat(12)}dense/Add_3`;
  writeFileSync(file("worse.json"), JSON.stringify(plan));
  const claim = { id: "c", metric: "relative_l2", output: "t12", limit: 0.08, holds: true, worst_sample: "s.npz" };
  const verdict = {
    schema: 1, model: plan.model, plan: { sha256: createHash("sha256").update(readFileSync(file("worse.json"))).digest("hex") },
    holds: true, samples: 2, held_out: true, calibration_samples: 6, loads: false, engine_has_kernels: false, kernels_missing: "bf16", engine: "1.2",
    load_errors: ["off", "all"].map((level) => ({ level, error: "Could not find an implementation for Sub(14)", unsupported: true })),
    claims: [{ ...claim, measured: 0.0212, measured_held_out: 0.00283, measured_calibration: 0.0212 },
      { ...claim, id: "t", metric: "top1", limit: 0.95, measured: 0.979, measured_held_out: 1, measured_calibration: 0.979 }],
    outputs: [{ output: "t12", max_abs: 1, relative_l2: 0.00283, relative_l2_calibration: 0.0212, cosine: 1 }],
  };
  writeFileSync(file("worse.verdict.json"), JSON.stringify(verdict));
  narrowcast("report", file("worse.json"), "--verdict", file("worse.verdict.json"), "-o", file("worse.html"));
  return file("worse.html");
}

test("the_figure_that_decides_stands_first_everywhere", () => withPage(worseOnCalibration(), {}, async (page) => {
  const tile = page.locator(".figure", { hasText: "Worst output error" });
  assert.match(await tile.innerText(), /0\.0212[^]*calibration; held-out: 0\.00283/);
  const row = (name) => page.locator("#claims tbody tr", { hasText: name }).innerText();
  assert.match(await row("Relative L2"), /0\.0212\s+held-out: 0\.00283\s+calibration: 0\.0212\s+≤ 0\.08\s+26\.5/);
  assert.match(await row("Top-1"), /0\.979\s+held-out: 1\s+calibration: 0\.979\s+≥ 0\.95\s+42\s/);
}));

test("a_missing_kernel_is_told_in_one_sentence", () => withPage(worseOnCalibration(), {}, async (page) => {
  const verdict = page.locator("#verdict");
  assert.match(await verdict.innerText(), /no bf16 kernels for the CPU/);
  assert.equal(await verdict.getByText("Could not find").first().isVisible(), false);
}));

for (const width of [420, 1300])
  test(`claims_fit_at_${width}`, () => withPage(worseOnCalibration(), { viewport: { width, height: 900 } }, async (page) => {
    assert.ok(await page.locator("#claims .scroll-x").evaluate((e) => e.scrollWidth <= e.clientWidth));
    const right = (await page.locator("#claims").boundingBox());
    for (const cell of await page.locator("#claims tbody td").all()) {
      const box = await cell.boundingBox();
      assert.ok(box.x + box.width <= right.x + right.width, await cell.innerText());
    }
  }));

test("long_names_keep_their_end_and_have_the_whole_as_title", () => withPage(worseOnCalibration(), {}, async (page) => {
  await page.locator("#tensors-search").fill("pjit");
  const name = page.locator("#tensors .lead .name").first();
  assert.match(await name.getAttribute("title"), /^jax2tf_get_logits_.*dense\/Add_3$/);
  const [cell, tail] = [await page.locator("#tensors .lead").first().boundingBox(), await name.locator(".tail").boundingBox()];
  assert.ok(tail.width > 80 && tail.x + tail.width <= cell.x + cell.width);
}));

test("an_unchanged_model_says_so_and_which_opset_would_do", async () => {
  convert(`${root}models/digits/digits.onnx`, "unchanged", "--data", `${root}models/digits/samples`, "--policy", "bf16", "--keep", "*");
  await withPage(file("unchanged.html"), {}, async (page) => {
    assert.match(await page.locator("h1").innerText(), /^Unchanged: nothing to convert under this policy$/);
    assert.doesNotMatch(await page.locator("#verdict").innerText(), /not verified|No verdict/i);
  });
  const plan = chainPlan(14);
  Object.assign(plan.nodes[0], { reason: "schema", allowed_from_opset: 22 });
  await withPage(reportOf(plan, "opset"), {}, async (page) =>
    assert.match(await page.locator("#reasons").innerText(), /at this opset \(--raise-opset 22 would do\)/));
});

test("a_refused_plan_says_so_first", async () => {
  const policy = JSON.parse(narrowcast("policy", "show", "fp16"));
  policy.promotion.rounds = 0;
  policy.claims.find((claim) => claim.metric === "relative_l2").limit = 1e-9;
  writeFileSync(file("strict.json"), JSON.stringify(policy));
  let code = 0;
  try {
    convert(`${root}models/digits/digits.onnx`, "refused", "--data", `${root}models/digits/samples`, "--policy", file("strict.json"));
  } catch (error) {
    code = error.status;
  }
  assert.equal(code, 1);
  await withPage(file("refused.html"), {}, async (page) => {
    assert.match(await page.locator("h1").innerText(), /^Refused: a claim does not hold$/);
    assert.match(await page.locator("#claims tbody tr").first().innerText(), /^fails/);
    assert.match(await page.locator("#verdict").innerText(), /Largest error of its own/);
  });
});

// A printer or a screenshot may take the page before anything that is told of its size was told it.
test("charts_and_network_are_drawn_at_the_first_layout", () => withPage(digits, {
  before: () => {
    window.ResizeObserver = class { observe() {} unobserve() {} disconnect() {} };
    window.requestAnimationFrame = () => 0;
  },
}, async (page) => {
  for (const section of ["#cost", "#depth"])
    assert.ok(await page.locator(`${section} .chart svg`).evaluate((svg) => svg.getBoundingClientRect().width > 200), section);
  assert.ok(await page.locator("#network canvas").evaluate((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return data.some((byte) => byte > 0);
  }));
}));

test("levels_are_named_once_however_few_there_are", async () => {
  const few = convert(`${root}models/tiny/functions.onnx`, "few", "--random", "4", "--narrow", "*");
  for (const html of [few, digits])
    await withPage(html, {}, async (page) => {
      const labels = await page.locator('#depth [aria-label="x-axis tick label"] text').allTextContents();
      assert.ok(labels.length > 0 && labels.every((label) => /^\d+$/.test(label)), labels.join());
      assert.equal(new Set(labels).size, labels.length, labels.join());
    });
});

// What the command line says of a conversion of digits, with more options, and its page.
function told(name, ...more) {
  const text = narrowcast("convert", `${root}models/digits/digits.onnx`, "--data", `${root}models/digits/samples`, ...more,
    "-o", file(`${name}.onnx`), "--save-plan", file(`${name}.plan.json`), "--report", file(`${name}.html`));
  return { text, plan: JSON.parse(readFileSync(file(`${name}.plan.json`), "utf8")), html: file(`${name}.html`) };
}

const matched = (text, pattern) => {
  assert.match(text, pattern);
  return text.match(pattern).slice(1);
};

test("operands_in_8_bits_are_told_as_the_command_line_tells_them", async () => {
  const { text, html } = told("operands", "--policy", "fp8", "--raise-opset", "19");
  const [narrow] = matched(text, /plan +(\d+) of \d+ float nodes narrow/);
  const [products, of, tensors] = matched(text, /operands +(\d+) of (\d+) matrix products read theirs in fp8e4m3fn: (\d+) tensors/);
  const [saturates] = matched(text, /may grow about ([\d.]+) times before \S+ saturates/);
  const [leaves] = matched(text, /may grow about ([\d.]+) times before \S+ leaves fp16/);
  assert.ok(Number(products) > 0 && Number(saturates) < Number(leaves));
  await withPage(html, {}, async (page) => {
    const figures = page.locator(".figures .figure");
    assert.match(await figures.filter({ hasText: "Narrow nodes" }).innerText(), new RegExp(`^Narrow nodes\\s+${narrow}\\s`));
    const headrooms = await figures.filter({ hasText: "Headroom" }).allInnerTexts();
    assert.equal(headrooms.length, 2);
    assert.ok(headrooms[0].includes(`${saturates}×`) && /saturates in fp8e4m3fn/.test(headrooms[0]), headrooms[0]);
    assert.match(headrooms[0], /^Headroom in fp8e4m3fn/);
    assert.match(headrooms[1], /^Headroom in fp16[^]*leaves fp16/);
    assert.ok(headrooms[1].includes(`${leaves}×`), headrooms[1]);
    const legend = (await page.locator(".format-bar-block .legend").innerText()).replace(/\s+/g, " ");
    assert.ok(legend.includes(`fp8e4m3fn operands of ${products} of ${of} matrix products: ${tensors} tensors`), legend);
    assert.match(await page.locator("#limits").innerText(), new RegExp(`Of ${tensors} tensors read in fp8e4m3fn`));
    assert.match(await page.locator("#network .legend").innerText(), /fp8e4m3fn\s+operands/);
    await page.locator("#nodes").getByRole("button", { name: "fp8e4m3fn", exact: true }).click();
    await eventually(() => rowCount(page, "nodes"), Number(products));
    assert.equal(await page.locator("#verdict").getByText("session.disable_quant_qdq = 1").count(), Number(/disable_quant_qdq/.test(text)));
  });
});

test("a_node_and_its_operands_say_in_which_format_and_at_which_scale_they_are_read", async () => {
  const { html, plan } = told("read", "--policy", "fp8", "--raise-opset", "19");
  const node = plan.nodes.find((n) => n.operands && n.inputs[0] === "image");
  const scaleOf = (name) => plan.values.find((v) => v.value === name).operand.scale_log2;
  const power = (k) => `2${String(k).replace(/./g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]))}`;
  const [input, weight] = node.inputs;
  await withPage(html, {}, async (page) => {
    await page.evaluate((label) => { location.hash = `#node=${encodeURIComponent(label)}`; }, node.node);
    await page.locator(".details").getByRole("heading", { name: node.node }).waitFor();
    const text = (await page.locator(".details").innerText()).replace(/\s+/g, " ");
    assert.ok(text.includes(`${input} fp32, read in fp8e4m3fn times ${power(scaleOf(input))}`), text);
    assert.ok(text.includes(`${weight} fp8e4m3fn times ${power(scaleOf(weight))}`), text);
    await page.evaluate((label) => { location.hash = `#tensor=${encodeURIComponent(label)}`; }, input);
    await page.locator(".details").getByRole("heading", { name: input }).waitFor();
    const why = await page.locator(".details .why").innerText();
    assert.match(why, /^Stays fp32: it is an input of the model/);
    assert.ok(why.includes(`Matrix products read it in fp8e4m3fn times ${power(scaleOf(input))}.`), why);
  });
});

test("a_file_called_model_is_titled_with_its_folder", async () => {
  mkdirSync(file("<some> folder"), { recursive: true });
  copyFileSync(`${root}models/digits/digits.onnx`, file("<some> folder/model.onnx"));
  narrowcast("convert", file("<some> folder/model.onnx"), "-o", file("titled.onnx"), "--report", file("titled.html"));
  await withPage(file("titled.html"), {}, async (page) => {
    assert.match(await page.title(), /^<some> folder\/model\.onnx: /);
  });
});

test("a_condition_of_loading_is_stated", async () => {
  const { plan } = told("loads", "--save-verdict", file("loads.verdict.json"));
  const verdict = JSON.parse(readFileSync(file("loads.verdict.json"), "utf8"));
  assert.equal(verdict.loads_only_with_disable_quant_qdq, false);
  for (const only of [false, true]) {
    writeFileSync(file("loads.json"), JSON.stringify({ ...verdict, loads_only_with_disable_quant_qdq: only }));
    narrowcast("report", file("loads.plan.json"), "--verdict", file("loads.json"), "-o", file("loads.html"));
    await withPage(file("loads.html"), {}, async (page) => {
      const text = await page.locator("#verdict").innerText();
      assert.match(text, /loads and runs there at every optimisation level/);
      assert.equal(/only if the session says session\.disable_quant_qdq = 1/.test(text), only);
    });
  }
  assert.ok(plan.nodes.length > 0);
});

test("a_claim_that_judges_nothing_or_fails_by_its_last_digits_is_plain", async () => {
  told("idle", "--save-verdict", file("idle.verdict.json"));
  const verdict = JSON.parse(readFileSync(file("idle.verdict.json"), "utf8"));
  const text = "The claim ll (label_loss) judged nothing.";
  const show = (claims) => {
    writeFileSync(file("idle.json"), JSON.stringify({ ...verdict, claims, idle_claims: [{ id: "ll", text }] }));
    narrowcast("report", file("idle.plan.json"), "--verdict", file("idle.json"), "-o", file("idle.html"));
  };
  show(verdict.claims);
  await withPage(file("idle.html"), {}, async (page) => {
    assert.match(await page.locator("#verdict").innerText(), /Every claim that judged anything holds[^]*Not judged\. The claim ll/);
  });
  show(verdict.claims.map((claim) => claim.metric === "cosine" ? { ...claim, measured: 0.99999999999, limit: 1, holds: false } : claim));
  await withPage(file("idle.html"), {}, async (page) => {
    assert.match(await page.locator("#claims tbody tr", { hasText: "Cosine" }).first().innerText(), /0\.99999999999[^]*≥ 1\s/);
  });
});

test("tf32_is_told_as_a_setting_of_the_runtime", async () => {
  const { html, plan } = told("tf32", "--policy", "tf32");
  assert.deepEqual(plan.limits.slice(0, 2).map((limit) => limit.id), ["setting", "speed"]);
  await withPage(html, {}, async (page) => {
    assert.match(await page.locator("#verdict").innerText(), /tf32 is a setting of the runtime/);
    assert.match(await page.locator(".figures").innerText(), /Setting of the runtime\s+tf32[^]*not modelled/);
    assert.doesNotMatch(await page.locator("main").innerText(), /Narrow nodes|cannot speed up|Planned|Why not narrower/);
    assert.match(await page.locator("#limits").innerText(), /What tf32 saves is not modelled/);
  });
});

test("what_the_plan_measured_is_shown_without_a_verdict", async () => {
  const { plan } = told("measured");
  narrowcast("report", file("measured.plan.json"), "-o", file("measured.html"));
  const { measured } = plan.claims.find((claim) => claim.metric === "relative_l2");
  const worst = measured.reduce((x, y) => (y.value > x.value ? y : x));
  await withPage(file("measured.html"), {}, async (page) => {
    assert.match(await page.locator("h1").innerText(), /^Not verified$/);
    const row = await page.locator("#claims tbody tr", { hasText: "Relative L2" }).innerText();
    assert.match(row, /^holds/);
    assert.ok(row.includes(String(worst.value).slice(0, 5)) || row.includes(worst.value.toExponential().slice(0, 3)), row);
  });
});

test("a_scale_tells_what_its_windows_asked_for", async () => {
  const plan = chainPlan(3);
  Object.assign(plan.values[1], {
    scale_log2: -3, scale_by_window: { moves: 2, log2: [-1, -3, -2] },
    operand: { format: "fp8e4m3fn", scale_log2: 4, headroom: 1.5, scale_log2_by_window: [6, 6, 4, 4] },
  });
  await withPage(reportOf(plan, "windows"), { hash: "#tensor=t1" }, async (page) => {
    const text = await page.locator(".details").innerText();
    assert.match(text, /Windows asked for 2⁻³ \.\. 2⁻¹, moved 2 times\./);
    assert.match(text, /Windows asked for 2⁴ \.\. 2⁶, moved 1 time\./);
  });
});

test("of_many_promotions_ten_are_shown_until_asked", async () => {
  const plan = chainPlan(100);
  plan.promotions = Array.from({ length: 72 }, (_, k) => ({ round: 1, value: `t${k}`, from: "fp8e4m3fn", to: "fp16", error: 1.234e-4 }));
  await withPage(reportOf(plan, "promotions"), {}, async (page) => {
    const rows = page.locator("#promotions tbody tr");
    assert.equal(await rows.count(), 10);
    await page.locator("#promotions").getByRole("button", { name: "All 72" }).click();
    await eventually(() => rows.count(), 72);
  });
});

for (const width of [1100, 1280])
  test(`no_table_is_clipped_at_${width}`, async () => {
    const plan = chainPlan(100);
    plan.promotions = Array.from({ length: 72 }, (_, k) => ({ round: 1, value: `/model/layer.${k}/attention/output/dense/MatMul_output_0`, from: "fp8e4m3fn", to: "fp16", error: 1.234e-4 }));
    for (const html of [reportOf(plan, "clipped"), digits, told("clipped-operands", "--policy", "fp8", "--raise-opset", "19").html])
      await withPage(html, { viewport: { width, height: 900 } }, async (page) => {
        const clipped = await page.locator("#claims .scroll-x, #promotions .scroll-x, #nodes .grid-scroll, #nodes .wraps, #nodes .num, #tensors .num").evaluateAll((elements) =>
          elements.filter((e) => e.scrollWidth > e.clientWidth || (e.matches(".wraps") && e.scrollHeight > e.clientHeight))
            .map((e) => `${e.closest("section").id} ${e.className} ${e.scrollWidth} ${e.clientWidth} ${e.textContent.slice(0, 80)}`));
        assert.deepEqual(clipped, []);
      });
  });

test("tables_sort_by_a_column", () => withPage(chain, {}, async (page) => {
  const header = page.locator("#nodes [role=columnheader]", { hasText: "Planned" });
  await header.getByRole("button").click();
  await eventually(() => firstName(page, "nodes"), "/layer.19999/op");
  assert.equal(await header.getAttribute("aria-sort"), "descending");
  await header.getByRole("button").click();
  await eventually(() => firstName(page, "nodes"), "/layer.0/op");
  assert.equal(await header.getAttribute("aria-sort"), "ascending");
}));

test("tables_filter_by_format_reason_and_text", () => withPage(chain, {}, async (page) => {
  assert.equal(await rowCount(page, "nodes"), 20000);
  const wide = Math.ceil(20000 / 7);
  await page.locator("#nodes").getByRole("button", { name: "fp32", exact: true }).click();
  await eventually(() => rowCount(page, "nodes"), wide);
  await page.locator("#nodes").getByRole("button", { name: "fp32", exact: true }).click();
  await page.locator("#nodes select").selectOption("overflow");
  await eventually(() => rowCount(page, "nodes"), wide);
  await page.locator("#tensors-search").fill("T19999");
  await eventually(() => rowCount(page, "tensors"), 1);
  assert.equal(await firstName(page, "tensors"), "t19999");
  await page.locator("#tensors-search").fill("nothing like it");
  await page.locator("#tensors").getByText("Nothing matches.").waitFor();
}));

test("twenty_thousand_rows_stay_fast", () => withPage(chain, {}, async (page) => {
  const timing = await page.evaluate(() => performance.getEntriesByType("navigation")[0].domInteractive);
  assert.ok(timing < 8000, `page was ready after ${timing} ms`);
  assert.ok(await page.locator("#nodes .grid-body .row").count() < 100);
  const began = Date.now();
  await page.locator("#tensors-search").fill("t777");
  await eventually(() => rowCount(page, "tensors"), 11);
  assert.ok(Date.now() - began < 3000, `search took ${Date.now() - began} ms`);
  // Scrolled to the end, the last row is there.
  await page.locator("#nodes .grid-scroll").evaluate((element) => { element.scrollTop = element.scrollHeight; });
  await page.locator("#nodes").getByText("/layer.19999/op", { exact: true }).waitFor();
  assert.ok(await page.locator("#nodes .grid-body .row").count() < 100);
}));

test("a_tensor_opens_with_its_histogram_and_a_link_leads_to_its_node", () => withPage(digits, {}, async (page) => {
  await page.locator("#tensors-search").fill("logits");
  await page.locator("#tensors .lead a", { hasText: /^logits$/ }).click();
  const details = page.locator(".details");
  await details.getByRole("heading", { name: "logits" }).waitFor();
  assert.match(await details.innerText(), /Stored in fp16[^]*Headroom[^]*Relative L2/);
  assert.match(await details.locator(".chart").first().getAttribute("aria-label"), /As stored in fp16: .* normal/);
  assert.ok(await details.locator(".chart svg rect").count() > 5);
  await details.locator("a", { hasText: "/logits" }).click();
  await details.getByRole("heading", { name: "/logits" }).waitFor();
  assert.match(await details.innerText(), /Gemm/);
  assert.ok(await details.locator(".around a").count() > 1);
  await page.goBack();
  await details.getByRole("heading", { name: "logits", exact: true }).waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await details.count(), 0);
}));

test("the_address_opens_a_node", () => withPage(digits, { hash: "#node=%2Fprobabilities" }, async (page) => {
  assert.match(await page.locator(".details").innerText(), /keeps this operator in fp32[^]*Softmax/);
}));

test("the_network_goes_by_keyboard", () => withPage(digits, {}, async (page) => {
  await page.locator("#network canvas").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  assert.match(await page.locator(".map-status").innerText(), /^BatchNormalization \/stem\/norm, fp16/);
  await page.keyboard.press("+");
  await page.keyboard.press("0");
  await page.keyboard.press("Enter");
  await page.locator(".details").getByRole("heading", { name: "/stem/norm" }).waitFor();
}));

test("a_node_opens_at_a_click_on_the_map", () => withPage(digits, {}, async (page) => {
  const canvas = page.locator("#network canvas");
  await canvas.scrollIntoViewIfNeeded();
  await page.waitForTimeout(300);
  const box = await canvas.boundingBox();
  const status = page.locator(".map-status");
  // Down a line near the left edge of the map until there is a node.
  for (let y = 4; y < box.height && !(await status.textContent()); y += 4) {
    await page.mouse.move(box.x + box.width * 0.3, box.y + y);
    await page.waitForTimeout(60); // what is told is then of this place
  }
  const [, label] = (await status.textContent()).match(/^\S+ (\S+), /);
  await page.mouse.down();
  await page.mouse.up();
  await page.locator(".details").getByRole("heading", { name: label, exact: true }).waitFor();
}));

test("rows_are_reached_by_arrow_keys", () => withPage(chain, {}, async (page) => {
  await page.locator("#nodes .lead a").first().focus();
  for (let k = 0; k < 3; k++) {
    await page.keyboard.press("PageDown");
    await page.waitForTimeout(150);
  }
  await eventually(() => page.evaluate(() => document.activeElement.textContent), "/layer.36/op");
}));

test("a_reason_shows_its_nodes", () => withPage(chain, {}, async (page) => {
  await page.locator("#reasons button").first().click();
  await eventually(() => rowCount(page, "nodes"), Math.ceil(20000 / 7));
}));

const evil = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\u202etxt\u0007<!--";

test("hostile_names_do_no_harm", async () => {
  const plan = chainPlan(3);
  plan.model.file = evil;
  plan.policy.name = evil;
  plan.limits = [{ id: evil, text: evil }];
  plan.promotions = [{ round: 1, value: evil, from: evil, to: "javascript:alert(1)", error: "inf" }];
  Object.assign(plan.nodes[1], { node: evil, op: evil, rule: evil, reason: evil, class: evil, inputs: [evil, "t1"], outputs: [evil] });
  Object.assign(plan.values[1], { value: evil, format: evil, reason: evil });
  plan.values[2].value = "__proto__";
  plan.nodes[2].inputs = ["__proto__", "constructor"];
  await withPage(reportOf(plan, "evil"), {}, async (page) => {
    await page.locator("#nodes .lead a").nth(1).click();
    const heading = page.locator(".details h2");
    await heading.waitFor();
    assert.match(await heading.innerText(), /onerror=window\.pwned=1>\\u\{202e\}txt\\u\{7\}<!--/);
    await page.locator("#tensors .lead a").nth(1).click();
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    assert.equal(await page.locator("img").count(), 0);
    assert.equal(await page.evaluate(() => document.scripts.length), 3);
  });
});

test("what_is_missing_or_not_known_is_taken", async () => {
  const bare = {
    schema: 1, model: { file: "m.onnx", sha256: "" }, policy: { name: "p", version: 1 },
    statistics: { source: "none", samples: 0, sha256: "" }, claims: [],
    nodes: [{ node: "n", op: "Add", format: "fp5e9", news: { deep: [1] } }], values: [{ value: "v", format: "fp5e9", scale_log2: 40 }],
  };
  await withPage(reportOf(bare, "bare"), {}, async (page) => {
    assert.match(await page.locator("h1").innerText(), /^Not verified$/);
    await page.locator("#tensors .lead a").click();
    assert.match(await page.locator(".details").innerText(), /Stored in fp5e9, times 2⁴⁰/);
  });
  await withPage(reportOf({ ...bare, nodes: [], values: [] }, "empty"), {}, async (page) => {
    assert.match(await page.locator("#tensors").innerText(), /Nothing matches/);
  });
});

test("a_cycle_in_a_damaged_plan_does_not_hang", async () => {
  const plan = chainPlan(50);
  plan.nodes[10].inputs.push("t40");
  await withPage(reportOf(plan, "cycle"), {}, async (page) => {
    assert.equal(await rowCount(page, "nodes"), 50);
  });
});

test("it_prints_with_tables_in_full_width", () => withPage(chain, {}, async (page) => {
  const pdf = await page.pdf({ format: "A4" });
  assert.ok(pdf.length > 20000);
  await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
  await eventually(() => page.locator("#nodes .grid-body .row").count(), 200);
  await page.setViewportSize({ width: 794, height: 1100 });
  await page.emulateMedia({ media: "print" });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth));
}));

// The text of each page of the report as it is printed, laid out as on paper.
async function printed(html, name) {
  await withPage(html, {}, (page) => page.pdf({ path: file(`${name}.pdf`), format: "A4" }));
  return execFileSync("pdftotext", ["-layout", file(`${name}.pdf`), "-"]).toString().split("\f").slice(0, -1);
}

test("on_paper_every_section_is_there_in_its_order", async () => {
  const text = (await printed(digits, "sections")).join("\n");
  const titles = ["Every claim holds", "Narrow nodes", "Claims", "What the claims do not cover", "Where bytes and time go",
    "Why nodes stay wide", "Promotions", "Error along the depth", "Network", "Nodes", "Tensors", "Updates against steps", "Provenance"];
  let at = -1;
  for (const title of titles) {
    const next = text.slice(at + 1).search(new RegExp(`^\\W*${title}`, "m"));
    assert.ok(next >= 0, `${title} is missing, or not behind what stands before it`);
    at += 1 + next;
  }
  assert.doesNotMatch(text, /Search nodes|Theme:|Drag to move/);
});

test("on_paper_no_row_is_cut_and_every_page_of_a_table_has_its_head", async () => {
  const plan = chainPlan(400);
  for (const node of plan.nodes) node.reason ??= "boundary";
  const pages = await printed(reportOf(plan, "rows"), "rows");
  const lines = pages.join("\n").split("\n");
  for (let k = 0; k < 200; k++) {
    const row = new RegExp(`^ *${k + 1} +/layer\\.${k}/op +${k % 2 ? "Relu" : "MatMul"} +${k % 7 ? "fp16" : "fp32"} `);
    assert.equal(lines.filter((line) => row.test(line)).length, 1, `row ${k + 1}`);
  }
  let headed = 0;
  for (const page of pages.filter((text) => /^ *\d+ +\/layer\.\d+\/op /m.test(text))) {
    assert.match(page, /# +Node +Operator/);
    headed++;
    // Each sentence of a row, over two or more lines, begins and ends on this page.
    for (const [begin, end] of [["a value leaves", "range"], ["its Casts would", "saves"]])
      assert.equal(page.split(begin).length, page.split(end).length, `"${begin} ... ${end}"`);
  }
  assert.ok(headed > 2, `${headed} pages of nodes`);
  assert.match(pages.join("\n"), /The first 200 of 400/);
});

test("on_paper_formats_differ_in_lightness_and_the_dark_theme_is_left", () => withPage(digits, { colorScheme: "dark" }, async (page) => {
  const tones = () => page.evaluate(() => {
    const probe = document.createElement("span");
    document.body.append(probe);
    const light = (css) => {
      probe.style.color = css;
      const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const out = ["fp32", "bf16", "fp16", "fp8e4m3fn", "fp4e2m1"].map((format) => light(`var(--${format})`));
    const text = light("var(--fg)"), ground = light("var(--panel)");
    probe.remove();
    return { out, text, ground };
  });
  assert.ok((await tones()).text > (await tones()).ground);
  await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
  const { out, text, ground } = await tones();
  assert.ok(text < 40 && ground > 240);
  for (let k = 1; k < out.length; k++) assert.ok(out[k - 1] - out[k] > 18, out.join(" "));
  await page.evaluate(() => window.dispatchEvent(new Event("afterprint")));
  assert.ok((await tones()).text > (await tones()).ground);
}));

test("what_is_not_worth_it_says_so_beside_the_verdict", async () => {
  const overrides = [["*", "fp32"], ["/stem/norm", "fp16"]].map(([glob, format]) => ({ glob, format, note: "n" }));
  writeFileSync(file("alone.overrides.json"), JSON.stringify({ overrides }));
  const { html } = told("alone", "--overrides", file("alone.overrides.json"));
  await withPage(html, {}, async (page) => {
    const text = await page.locator("#verdict").innerText();
    assert.match(text, /Every claim holds[^]*Not worth it on target accelerator[^]*more memory than fp32/);
  });
  await withPage(digits, {}, async (page) => assert.equal(await page.locator("#verdict .drawback").count(), 0));
});

test("scales_stand_beside_inputs_though_one_is_left_out", async () => {
  const plan = chainPlan(3);
  Object.assign(plan.nodes[1], { inputs: ["t0", "", "t1"], input_scales_log2: [0, 0, -5] });
  await withPage(reportOf(plan, "left-out"), { hash: "#node=%2Flayer.1%2Fop" }, async (page) =>
    assert.match(await page.locator(".details").innerText(), /t1\s+fp32\s+times 2⁻⁵/));
});

for (const colorScheme of ["light", "dark"])
  for (const width of [400, 1600])
    test(`axe_finds_nothing_serious_${colorScheme}_${width}`, () => withPage(digits, { colorScheme, viewport: { width, height: 900 } }, async (page) => {
      // Injected by the test's own channel, which the page's policy does not bind.
      await page.evaluate(axe);
      for (const item of [null, "#tensor=probabilities", "#node=%2Flogits"]) {
        if (item) {
          await page.evaluate((hash) => { location.hash = hash; }, item);
          await page.locator(".details").waitFor();
          await page.waitForTimeout(300);
        }
        const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        const serious = violations.filter((v) => v.impact === "serious" || v.impact === "critical")
          .map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 160)} ${n.any[0]?.message ?? ""}`).join(" | ")}`);
        assert.deepEqual(serious, []);
      }
    }));

for (const width of [400, 900, 1600])
  test(`nothing_is_wider_than_the_page_at_${width}`, () => withPage(digits, { viewport: { width, height: 900 } }, async (page) => {
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth));
  }));

for (const width of [400, 480])
  test(`claims_need_no_scrolling_at_${width}`, async () => {
    for (const html of [digits, told("narrow-operands", "--policy", "fp8", "--raise-opset", "19").html])
      await withPage(html, { viewport: { width, height: 900 } }, async (page) => {
        const table = page.locator("#claims .scroll-x");
        assert.ok(await table.evaluate((e) => e.scrollWidth <= e.clientWidth));
        assert.match(await table.locator("tbody tr").first().innerText(), /(holds|fails)/);
      });
  });

test("the_largest_real_model_opens", { skip: !process.env.NARROWCAST_MODELS && "NARROWCAST_MODELS is not set" }, async () => {
  const { model } = largestModel();
  const html = convert(model, "largest");
  const plan = JSON.parse(readFileSync(file("largest.plan.json"), "utf8"));
  await withPage(html, {}, async (page) => {
    assert.equal(await rowCount(page, "nodes"), plan.nodes.length);
    assert.equal(await rowCount(page, "tensors"), plan.values.length);
    const last = plan.nodes.at(-1);
    await page.locator("#nodes-search").fill(last.node);
    await page.locator("#nodes .lead a").first().click();
    await page.locator(".details").getByText(last.op).first().waitFor();
  });
});
