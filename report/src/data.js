// Joins what the files say: nodes with the tensors they read and make, tensors with what was traced
// and what verify measured. Any of trace, verdict and newer members may be missing.
import { toNumber } from "./text.js";

function read(id) {
  const element = document.getElementById(id);
  return element ? JSON.parse(element.textContent) : null;
}

// What the windows of the trace asked for, in powers of two, and how often that moved.
function windowScales(asked, moves) {
  if (!asked?.length) return null;
  const scales = asked.map(toNumber);
  return {
    least: scales.reduce((a, b) => Math.min(a, b)), most: scales.reduce((a, b) => Math.max(a, b)),
    moves: moves ?? scales.reduce((n, scale, k) => n + (k > 0 && scale !== scales[k - 1]), 0),
  };
}

const labelOf = (scope, name) => (scope ? `${scope}::${name}` : name);

function readTensors(plan) {
  const tensors = (plan.values ?? []).map((value, index) => ({
    kind: "tensor",
    index,
    name: value.value,
    scope: value.scope ?? "",
    label: labelOf(value.scope, value.value),
    format: value.format,
    scale: toNumber(value.scale_log2 ?? 0),
    reason: value.reason,
    absmax: toNumber(value.absmax),
    headroom: toNumber(value.headroom),
    zero: toNumber(value.zero_fraction),
    subnormal: toNumber(value.subnormal_fraction),
    sqnr: toNumber(value.sqnr_db),
    lost: toNumber(value.lost_updates_fraction),
    // Of the run that made the plan; a verdict's takes its place.
    error: toNumber(value.measured_relative_l2),
    constant: value.constant === true,
    windowScales: windowScales(value.scale_by_window?.log2, value.scale_by_window?.moves),
    // How matrix products read it, where that is not as it is stored.
    operand: value.operand && {
      windowScales: windowScales(value.operand.scale_log2_by_window),
      format: String(value.operand.format), scale: toNumber(value.operand.scale_log2 ?? 0),
      block: toNumber(value.operand.block_size), axis: toNumber(value.operand.axis), most: toNumber(value.operand.scale_log2_most),
      headroom: toNumber(value.operand.headroom), zero: toNumber(value.operand.zero_fraction),
      subnormal: toNumber(value.operand.subnormal_fraction), sqnr: toNumber(value.operand.sqnr_db),
    },
    producer: null,
    consumers: [],
    sites: [],
  }));
  const byLabel = new Map();
  for (const tensor of tensors) {
    byLabel.set(tensor.label, tensor);
    // A name of the main graph that reads like one of another scope has "::" in front as a label.
    if (!tensor.scope && tensor.name.includes("::")) byLabel.set(`::${tensor.name}`, tensor);
  }
  return { tensors, byLabel };
}

function readNodes(plan, byLabel) {
  return (plan.nodes ?? []).map((node, index) => {
    const out = {
      kind: "node",
      index,
      label: node.node,
      scope: node.scope ?? "",
      op: node.op,
      format: node.format,
      class: node.class ?? "",
      rule: node.rule ?? "",
      reason: node.reason,
      tried: node.tried,
      because: node.because_of,
      opset: node.allowed_from_opset,
      inputs: node.inputs ?? [],
      outputs: node.outputs ?? [],
      // An optional input that is left out has a scale but no name.
      inputScales: node.input_scales_log2?.length === node.inputs?.length ? node.input_scales_log2 : [],
      pattern: node.pattern,
      operands: node.operands,
      operandsReason: node.operands_reason,
      operandsBecause: node.operands_because_of,
      // Modelled, in fp32 and as planned; a product that reads narrower operands is counted as them.
      before: toNumber(node.seconds?.fp32),
      after: toNumber(node.seconds?.[node.operands] ?? node.seconds?.[node.format]),
      predecessors: [],
      successors: [],
      error: NaN,
    };
    for (const label of out.outputs) {
      const tensor = byLabel.get(label);
      if (tensor) tensor.producer = out;
    }
    return out;
  });
}

// The inputs of a matrix product that it may read in a format of their own.
const OPERANDS = 2;

export const readsOperand = (node, k, tensor) => Boolean(node.operands && k < OPERANDS && tensor?.operand);

// A constant that products alone read, in their operand format, is stored in that alone.
function addStored(tensors) {
  for (const tensor of tensors)
    tensor.onlyOperand = Boolean(tensor.constant && tensor.operand && tensor.consumers.length &&
      tensor.consumers.every((node) => node.inputs.every((label, k) => label !== tensor.label || readsOperand(node, k, tensor))));
}

// Nodes are tied by every name that one makes and another reads, whether or not it is a float.
function tie(nodes, byLabel) {
  const makers = new Map();
  for (const node of nodes) for (const label of node.outputs) if (label) makers.set(label, node);
  for (const node of nodes) {
    const before = new Set();
    for (const label of new Set(node.inputs)) {
      byLabel.get(label)?.consumers.push(node);
      const maker = makers.get(label);
      if (maker && maker !== node) before.add(maker);
    }
    node.predecessors = [...before];
    for (const maker of before) maker.successors.push(node);
  }
}

// Numbers of elements by exponent of the magnitude, of one tensor.
function readHistogram(traced) {
  const bins = new Map();
  for (const side of [traced.positive, traced.negative])
    for (const [bin, n] of Object.entries(side?.exponents ?? {}))
      bins.set(Number(bin), (bins.get(Number(bin)) ?? 0) + n);
  const total = [...bins.values()].reduce((sum, n) => sum + n, 0);
  return [...bins]
    .sort((a, b) => a[0] - b[0])
    .map(([exponent, n]) => ({ exponent, share: n / total }));
}

function addTrace(trace, byLabel) {
  for (const traced of trace?.values ?? []) {
    const tensor = byLabel.get(labelOf(traced.scope, traced.name));
    if (!tensor) continue;
    tensor.histogram = readHistogram(traced);
    tensor.shape = traced.shape;
    tensor.elements = traced.runs ? traced.count / traced.runs : NaN;
    tensor.zeros = traced.count ? traced.zeros / traced.count : NaN;
    tensor.windows = (traced.windows ?? []).map(([most, least]) => ({ most, least }));
  }
}

function readSites(trace, byLabel) {
  return (trace?.updates ?? []).map((site, index) => {
    const bins = Object.entries(site.differences ?? {})
      .map(([difference, n]) => ({ difference: Number(difference), n }))
      .sort((a, b) => a.difference - b.difference);
    const updates = bins.reduce((sum, bin) => sum + bin.n, 0) + (site.zero_accumulators ?? 0);
    const label = labelOf(site.scope, site.name);
    const out = { index, label, kind: site.kind, bins, updates, tensor: byLabel.get(label) };
    out.tensor?.sites.push(out);
    return out;
  });
}

// The share of a site's updates that is below one step of a format with so many mantissa bits.
export function lostShare(site, mantissaBits) {
  const lost = site.bins.reduce((sum, bin) => sum + (bin.difference < -mantissaBits ? bin.n : 0), 0);
  return site.updates ? lost / site.updates : NaN;
}

function addVerdict(verdict, byLabel) {
  for (const value of verdict?.values ?? []) {
    const tensor = byLabel.get(labelOf(value.scope, value.value));
    if (!tensor) continue;
    tensor.error = toNumber(value.relative_l2);
    tensor.maxAbs = toNumber(value.max_abs);
    tensor.cosine = toNumber(value.cosine);
    tensor.measuredSqnr = toNumber(value.sqnr_db);
    tensor.newlyNonfinite = value.newly_nonfinite ?? 0;
  }
}

// A node's error is the largest of what it makes.
function addNodeErrors(tensors) {
  for (const { producer, error } of tensors)
    if (producer && !(error <= producer.error)) producer.error = error;
}

// Longest path from a source, in an order in which makers come first (Kahn). Chains that only
// prepare constants stand just before what reads them, not at the beginning.
function addLevels(nodes) {
  const waiting = nodes.map((node) => node.predecessors.length);
  const order = nodes.filter((node) => node.predecessors.length === 0);
  for (const node of order) {
    node.level = node.predecessors.reduce((most, p) => Math.max(most, p.level + 1), 0);
    for (const next of node.successors) if (--waiting[next.index] === 0) order.push(next);
  }
  const made = new Set(nodes.flatMap((node) => node.outputs));
  const isData = new Map();
  for (const node of order)
    isData.set(node, node.predecessors.length
      ? node.predecessors.some((p) => isData.get(p))
      : node.op !== "ConstantOfShape" && node.op !== "Constant" &&
        (node.inputs.length === 0 || node.inputs.some((label) => label && !made.has(label))));
  for (const node of order.toReversed())
    if (!isData.get(node) && node.successors.length)
      node.level = Math.max(0, Math.min(...node.successors.map((next) => next.level)) - 1);
  // What a cycle in a damaged file left out.
  for (const node of nodes) node.level ??= 0;
  return nodes.reduce((most, node) => Math.max(most, node.level), 0) + 1;
}

export function load() {
  const plan = read("data-plan");
  const trace = read("data-trace");
  const verdict = read("data-verdict");
  const vocabulary = read("data-vocabulary");
  const { tensors, byLabel } = readTensors(plan);
  const nodes = readNodes(plan, byLabel);
  tie(nodes, byLabel);
  addStored(tensors);
  addTrace(trace, byLabel);
  const sites = readSites(trace, byLabel);
  addVerdict(verdict, byLabel);
  addNodeErrors(tensors);
  const compared = tensors.some((tensor) => !Number.isNaN(tensor.error));
  const levels = addLevels(nodes);
  const rules = new Map((plan.rules ?? []).map((rule) => [rule.rule, rule.why]));
  for (const tensor of tensors)
    tensor.level = tensor.producer ? tensor.producer.level + 1 : 0;
  const formats = new Map(vocabulary.formats.map((f) => [f.name, {
    ...f,
    max: toNumber(f.max), tiny: toNumber(f.tiny),
    min_subnormal: toNumber(f.min_subnormal), cliff: toNumber(f.cliff),
  }]));
  const title = document.getElementById("title")?.content.textContent ?? plan.model.file;
  return { title, plan, trace, verdict, vocabulary, rules, compared, formats, tensors, byLabel, nodes, sites, levels };
}

// Formats that occur, the widest first.
export function formatsIn(data, items) {
  const bits = (name) => data.formats.get(name)?.bits ?? 0;
  return [...new Set(items.map((item) => item.format))]
    .sort((a, b) => bits(b) - bits(a) || (a < b ? -1 : 1));
}

// Formats that products read their operands in, the widest first.
export const operandFormats = (data) =>
  formatsIn(data, data.nodes.filter((node) => node.operands).map((node) => ({ format: node.operands })));

// The model stays as it is; the runtime is to round what products read.
export const isTf32 = ({ plan }) => plan.settings?.tf32 === true;

// As the command line counts: a node is narrow by its own format, or by that of its operands.
export const isNarrow = (node) => Boolean(node.operands) || (node.format !== "fp32" && node.format !== "fp64");

// The formats by which a node is found. fp32 finds those that stay fp32, operands and all.
export const formatsOf = (item) =>
  !item.operands ? [item.format] : item.format === "fp32" ? [item.operands] : [item.format, item.operands];

// The tensor that saturates first where products read it: its growth is not seen in the headroom of
// the format that it is stored in.
export const firstToSaturate = (data) =>
  data.tensors.reduce((first, t) => t.operand?.headroom < (first?.operand.headroom ?? Infinity) ? t : first, null);

// Each claim with what was measured of it: by the verdict, else by the run that made the plan.
export function measuredClaims({ plan, verdict }) {
  if (verdict) return verdict.claims;
  const claims = plan.claims.flatMap(({ measured = [], ...claim }) =>
    measured.map(({ value, ...rest }) => ({ ...claim, ...rest, measured: value })));
  return claims.length ? claims : null;
}

// Nothing is narrow: the result is the model as it was, and no verdict is made.
export const isUnchanged = (data) => !data.verdict && !isTf32(data) && !data.nodes.some(isNarrow) &&
  data.tensors.every(({ format }) => format === "fp32" || format === "fp64");

// For nodes that only the schema keeps wide: at which opset they would be free, or how many of them.
export function opsetText({ nodes }, reason) {
  const kept = nodes.filter((node) => node.reason === reason && node.format === "fp32");
  const opsets = kept.map((node) => node.opset ?? 0).filter((opset) => opset > 0);
  if (reason !== "schema" || opsets.length === 0) return "";
  const share = opsets.length < kept.length ? ` for ${opsets.length} of them` : "";
  return ` (--raise-opset ${Math.max(...opsets)} would do${share})`;
}

export const reasonText = (data, reason) => data.vocabulary.reasons[reason] ?? reason;

export function verdictState(verdict) {
  if (!verdict) return "none";
  if (!verdict.holds) return "refused";
  return verdict.loads || !verdict.engine_has_kernels ? "holds" : "not-loaded";
}

const atLeast = new Set(["cosine", "sqnr_db", "top1", "matched_rows"]);
export const isLowerBound = (metric) => atLeast.has(metric);
