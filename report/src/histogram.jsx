// How a tensor's magnitudes lie against what the formats can hold, and its updates against their
// steps.
import * as Plot from "@observablehq/plot";
import { lostShare } from "./data.js";
import { Chart, colour } from "./parts.jsx";
import { number, power, share } from "./text.js";

// The format that the plan's policy wants first.
export const narrowest = (data) =>
  (data.plan.policy.ladder ?? []).find((name) => data.formats.get(name)?.bits < 32) ?? "fp16";

// In powers of two: where the format's normal range, its subnormals and its cliff to zero begin.
function windowOf(format) {
  return {
    name: format.name,
    top: Math.log2(format.max),
    tiny: Math.log2(format.tiny),
    least: Math.log2(format.min_subnormal),
    cliff: format.cliff > 0 ? Math.log2(format.cliff) : -Infinity,
  };
}

function formatsToShow(data, tensor) {
  const names = new Set([...(data.plan.policy.ladder ?? []), tensor.format, narrowest(data)]);
  names.add("fp16");
  names.add("bf16");
  names.delete("fp64");
  return [...names].map((name) => data.formats.get(name)).filter(Boolean)
    .sort((a, b) => b.max - a.max).map(windowOf);
}

// What is seen of the axis: the values before and after the scale, and the windows of narrow formats.
function extent(bins, scale, windows) {
  let low = Infinity;
  let high = -Infinity;
  for (const { exponent } of bins) {
    low = Math.min(low, exponent, exponent + scale);
    high = Math.max(high, exponent + 1, exponent + 1 + scale);
  }
  for (const w of windows) {
    if (w.top > 64) continue;
    low = Math.min(low, w.cliff - 1);
    high = Math.max(high, w.top + 1);
  }
  return Number.isFinite(low) ? [Math.max(low - 1, -150), Math.min(high + 1, 130)] : [-26, 18];
}

const clip = (x, [low, high]) => Math.min(high, Math.max(low, x));

function windowMarks(windows, domain, format) {
  const rows = windows.filter((w) => w.top > domain[0] && w.least < domain[1]);
  return [
    Plot.barX(rows, {
      y: "name", x1: (w) => clip(w.tiny, domain), x2: (w) => clip(w.top, domain),
      fill: (w) => colour(w.name), fillOpacity: (w) => w.name === format ? 0.95 : 0.45, insetTop: 2, insetBottom: 2,
    }),
    Plot.barX(rows, {
      y: "name", x1: (w) => clip(w.least, domain), x2: (w) => clip(w.tiny, domain),
      fill: (w) => colour(w.name), fillOpacity: (w) => w.name === format ? 0.35 : 0.18, insetTop: 4, insetBottom: 4,
    }),
    Plot.tickX(rows.filter((w) => w.cliff > domain[0]), {
      y: "name", x: "cliff", stroke: "var(--bad)", strokeWidth: 1.5,
    }),
  ];
}

function shareInWindow(bins, scale, w) {
  const sums = { over: 0, normal: 0, subnormal: 0, zero: 0 };
  for (const { exponent, share: s } of bins) {
    const e = exponent + scale;
    if (e > Math.floor(w.top)) sums.over += s;
    else if (e >= w.tiny) sums.normal += s;
    else if (e >= w.cliff) sums.subnormal += s;
    else sums.zero += s;
  }
  return sums;
}

// As it is stored, or as matrix products read it: format and scale.
export function Magnitudes({ data, tensor: traced, as = traced }) {
  const tensor = { histogram: traced.histogram, format: as.format, scale: as.scale };
  const bins = tensor.histogram;
  if (!bins?.length) return <p class="note">No magnitudes: {data.trace ? "the trace has no histogram of it" : "no trace was given with this plan"}.</p>;
  const windows = formatsToShow(data, tensor);
  const domain = extent(bins, tensor.scale, windows);
  // What does not fit is told for the format that was wanted.
  const stored = data.formats.get(tensor.format)?.bits < 32;
  const wanted = stored ? tensor.format : narrowest(data);
  const own = windows.find((w) => w.name === wanted);
  const inside = own && shareInWindow(bins, tensor.scale, own);
  const after = bins.map((bin) => ({ ...bin, exponent: bin.exponent + tensor.scale }));
  const x = { domain, label: null, ticks: 6, tickFormat: power };
  const label = inside
    ? `Magnitudes from ${power(bins[0].exponent)} to ${power(bins.at(-1).exponent + 1)}. ${stored ? "As stored" : "It would be"} in ${wanted}: ${share(inside.normal)} normal, ${share(inside.subnormal)} subnormal, ${share(inside.zero)} below the cliff, ${share(inside.over)} too large.`
    : `Magnitudes from ${power(bins[0].exponent)} to ${power(bins.at(-1).exponent + 1)}.`;
  const common = { marginLeft: 72, marginRight: 10 };
  return (
    <div>
      <Chart label={label} depends={[traced, as]} draw={() => ({
        ...common, height: 130, marginBottom: 6, marginTop: 8, x: { ...x, axis: null },
        y: { type: "sqrt", label: null, tickFormat: (s) => `${Math.round(100 * s)} %`, ticks: 3, grid: true },
        marks: [
          Plot.rectY(after, { x1: "exponent", x2: (b) => b.exponent + 1, y: "share", fill: colour(tensor.format), insetLeft: 0.5, insetRight: 0.5,
            title: (b) => `${power(b.exponent)} to ${power(b.exponent + 1)}: ${share(b.share)}` }),
          tensor.scale ? Plot.rectY(bins, { x1: "exponent", x2: (b) => b.exponent + 1, y: "share", fill: "none", stroke: "var(--muted)", strokeDasharray: "2 2" }) : null,
          Plot.ruleY([0], { stroke: "var(--line-strong)" }),
        ],
      })} />
      <Chart label="The windows of the formats on the same axis" depends={[traced, as]} draw={() => ({
        ...common, height: windows.length * 17 + 30, marginTop: 0, marginBottom: 26, x,
        y: { label: null, domain: windows.map((w) => w.name), tickSize: 0 },
        marks: windowMarks(windows, domain, tensor.format),
      })} />
      <p class="caption">
        {tensor.scale ? <>Filled: as stored, times {power(tensor.scale)}; dashed: before the scale. </> : null}
        Bars: normal range of a format; faint: subnormals; red: below it, zero.
        {inside && <> {stored ? "In" : "It would be, in"} {wanted}: {share(inside.subnormal)} subnormal, {share(inside.zero)} below the cliff, {share(inside.over)} too large.</>}
      </p>
    </div>
  );
}

// A histogram as small as a word, against the format's window: for the rows of a table.
const AXIS = [-40, 24];
export function Spark({ tensor, format }) {
  const bins = tensor.histogram;
  if (!bins?.length) return null;
  const w = format && windowOf(format);
  const x = (e) => (96 * (clip(e, AXIS) - AXIS[0])) / (AXIS[1] - AXIS[0]);
  const most = Math.max(...bins.map((bin) => Math.sqrt(bin.share)));
  return (
    <svg class="spark" width="96" height="18" viewBox="0 0 96 18" aria-hidden="true">
      {w && <rect x={x(w.tiny)} width={x(w.top) - x(w.tiny)} y="0" height="18" class="spark-window" />}
      {w && <rect x={x(w.least)} width={x(w.tiny) - x(w.least)} y="0" height="18" class="spark-subnormal" />}
      {bins.map((bin) => {
        const e = bin.exponent + tensor.scale;
        const h = Math.max(1, (16 * Math.sqrt(bin.share)) / most);
        const outside = w && (e > w.top || e < w.cliff);
        return <rect key={bin.exponent} x={x(e)} width="1.3" y={18 - h} height={h}
          fill={outside ? "var(--bad)" : colour(tensor.format)} />;
      })}
    </svg>
  );
}

function stepLines(data, names) {
  return names.map((name) => data.formats.get(name)).filter(Boolean)
    .map((f) => ({ name: f.name, at: -f.mantissa_bits })).sort((a, b) => a.at - b.at);
}

// Updates by floor(log2 |u|) - floor(log2 |a|): left of a format's line they are below its step.
export function Updates({ data, sites, height = 150, names = ["fp32", "fp16", "bf16"] }) {
  const sums = new Map();
  for (const site of sites)
    for (const bin of site.bins) sums.set(bin.difference, (sums.get(bin.difference) ?? 0) + bin.n);
  const total = sites.reduce((sum, site) => sum + site.updates, 0);
  if (!sums.size) return <p class="note">No updates were seen.</p>;
  const bins = [...sums].map(([difference, n]) => ({ difference, share: n / total }));
  const lines = stepLines(data, names);
  const low = Math.min(-25, ...bins.map((b) => b.difference));
  const high = Math.max(2, ...bins.map((b) => b.difference + 1));
  const lost = lines.map((line) => {
    const below = bins.reduce((sum, b) => sum + (b.difference < line.at ? b.share : 0), 0);
    return `${share(below)} below a step of ${line.name}`;
  });
  return (
    <div>
      <Chart label={`Size of updates against what they are added into: ${lost.join(", ")}.`} depends={[sites]} draw={() => ({
        height, marginLeft: 72, marginRight: 10, marginBottom: 36, marginTop: 22,
        x: { domain: [low, high], label: "update ÷ accumulator", ticks: 7, tickFormat: power },
        y: { type: "sqrt", label: null, ticks: 3, grid: true, tickFormat: (s) => `${Math.round(100 * s)} %` },
        marks: [
          Plot.rectY(bins, { x1: "difference", x2: (b) => b.difference + 1, y: "share", fill: "var(--accent)", fillOpacity: 0.75, insetLeft: 0.5, insetRight: 0.5,
            title: (b) => `${power(b.difference)}: ${share(b.share)}` }),
          Plot.ruleX(lines, { x: "at", stroke: (l) => colour(l.name), strokeWidth: 2 }),
          // The last to its right, the others to their left, so that near ones do not meet.
          Plot.text(lines.slice(0, -1), { x: "at", text: "name", frameAnchor: "top", textAnchor: "end", dx: 2, dy: -14, fill: "currentColor" }),
          Plot.text(lines.slice(-1), { x: "at", text: "name", frameAnchor: "top", textAnchor: "start", dx: -2, dy: -14, fill: "currentColor" }),
          Plot.ruleY([0], { stroke: "var(--line-strong)" }),
        ],
      })} />
      <p class="caption">Left of a format's line an update is smaller than one step: {lost.join("; ")}.</p>
    </div>
  );
}

export const worstLost = (data, site) => {
  const format = data.formats.get(site.tensor?.format ?? "fp32");
  return format ? lostShare(site, format.mantissa_bits) : NaN;
};

// Windows of the trace, in the order of the steps: largest and smallest magnitude.
export function Trajectory({ data, tensor }) {
  const windows = tensor.windows ?? [];
  if (windows.length < 2) return null;
  const rows = windows.map((w, k) => ({ k, most: w.most, least: w.least })).filter((w) => w.most > 0);
  const format = data.formats.get(tensor.format);
  return (
    <div>
      <h3>Over the trace's windows</h3>
      <Chart label={`Largest magnitude over ${windows.length} windows`} depends={[tensor]} draw={() => ({
        height: 130, marginLeft: 72, marginRight: 10,
        x: { label: "window", ticks: 5 }, y: { type: "log", base: 2, label: null, grid: true, ticks: 4, tickFormat: (v) => number(v) },
        marks: [
          Plot.areaY(rows, { x: "k", y1: "least", y2: "most", fill: colour(tensor.format), fillOpacity: 0.25 }),
          Plot.lineY(rows, { x: "k", y: "most", stroke: colour(tensor.format) }),
          format && format.max < 1e6 ? Plot.ruleY([format.max * 2 ** -tensor.scale], { stroke: "var(--bad)" }) : null,
        ],
      })} />
    </div>
  );
}
