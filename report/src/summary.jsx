// The top of the report: the verdict, its claims and their limits, and what the plan costs.
import * as Plot from "@observablehq/plot";
import { useState } from "preact/hooks";
import { firstToSaturate, formatsIn, isLowerBound, isNarrow, isTf32, isUnchanged, measuredClaims, operandFormats, opsetText, reasonText, verdictState } from "./data.js";
import { Chart, Format, Name, OpenLabel, Section, colour, usePage } from "./parts.jsx";
import { beside, bytes, count, growth, number, plural, seconds, share, shown, toNumber } from "./text.js";

const states = {
  holds: ["good", "✓", "Every claim holds"],
  refused: ["bad", "✕", "Refused: a claim does not hold"],
  "not-loaded": ["bad", "✕", "Refused: ONNX Runtime does not load or run the result"],
  none: ["open", "?", "Not verified"],
  unchanged: ["good", "=", "Unchanged: nothing to convert under this policy"],
};

export const isMadeUp = ({ plan, verdict }) => plan.statistics.source === "synthetic" || Boolean(verdict?.synthetic);

export function verdictText(data) {
  const { verdict } = data;
  const state = isUnchanged(data) ? "unchanged" : verdictState(verdict);
  if (state === "holds" && verdict.claims.length && isMadeUp(data))
    return ["open", "!", "Every claim holds, on made-up inputs"];
  if (state === "holds" && verdict.claims.length && verdict.idle_claims?.length)
    return ["good", "✓", "Every claim that judged anything holds"];
  if (state === "holds" && verdict.claims.length === 0)
    return ["open", "?", "Nothing promised: no claim applies to this model's outputs"];
  return states[state];
}

function Loads({ verdict }) {
  if (verdict.loads_only_with_disable_quant_qdq && verdict.loads)
    return <>The result loads and runs there at every optimisation level only if the session
      says <Name>session.disable_quant_qdq = 1</Name>: the engine takes float8 for int8 otherwise.</>;
  const errors = (verdict.load_errors ?? []).map(({ level, error }) =>
    <span key={level} class="block">At optimisation level {shown(level)}: {shown(error)}</span>);
  if (verdict.loads)
    return `The result loads and runs there at every optimisation level${errors.length ? " at which the source does" : ""}.`;
  if (verdict.engine_has_kernels) return errors;
  return <>It has no {verdict.kernels_missing ? `${shown(verdict.kernels_missing)} ` : ""}kernels for the CPU, and does not load
    the result; the verdict is from emulation.{errors.length > 0 && <details><summary>What it says</summary>{errors}</details>}</>;
}

function VerdictSentence({ data }) {
  const { verdict } = data;
  if (isUnchanged(data))
    return <p>No tensor is narrow, so the result is the model as it was, and there is nothing to verify.
      {data.nodes.length > 0 ? " Why nodes stay wide stands below." : " No node computes on fp32 tensors."}</p>;
  if (!verdict)
    return <p>No verdict was given with this plan: whether its claims hold is not shown here.
      {measuredClaims(data) && " What the run that made the plan measured stands below; it is not of a plan that was edited since."}</p>;
  return (
    <div class="judged">
      Judged by emulation beside fp32 on {plural(verdict.samples, verdict.held_out ? "held-out sample" : "sample")}
      {verdict.held_out ? "" : ", which had calibrated it too"}
      {verdict.calibration_samples > 0 && ` and ${count(verdict.calibration_samples)} that calibrated it`}
      {verdict.engine ? `, in ONNX Runtime ${shown(verdict.engine)}` : ""}.{" "}
      <Loads verdict={verdict} />
      {verdict.claims.some((claim) => claim.measured_in_engine !== undefined) &&
        " What it computes of the held-out samples on the machine that judged stands beside each claim as engine."}
    </div>
  );
}

function Culprit({ verdict }) {
  if (!verdict || verdict.holds) return null;
  return (
    <p>
      {verdict.first_nonfinite && <>First tensor that is not finite: <OpenLabel label={verdict.first_nonfinite} />. </>}
      {verdict.worst_local && <>Largest error of its own: <OpenLabel label={verdict.worst_local} />, relative
        L2 {number(toNumber(verdict.worst_local_error))} beyond its inputs.</>}
    </p>
  );
}

export function Verdict() {
  const { data } = usePage();
  const { verdict } = data;
  const [tone, mark, text] = verdictText(data);
  return (
    <div class={`verdict ${tone}`} id="verdict">
      <div class="mark" aria-hidden="true">{mark}</div>
      <div>
        <h1>{text}</h1>
        <VerdictSentence data={data} />
        {isTf32(data) && <p><b>tf32 is a setting of the runtime.</b> The model is the source unchanged: what was judged is fp32
          whose matrix products round their operands to tf32. Set it where the model runs.</p>}
        <Culprit verdict={verdict} />
        {[...(data.plan.cost?.drawbacks ?? []), ...(verdict?.drawbacks ?? [])].map((drawback, k) => <p key={k} class="caution drawback">{shown(drawback.text)}</p>)}
        {(verdict?.idle_claims ?? []).map((claim, k) => <p key={k} class="caution"><b>Not judged.</b> {shown(claim.text)}</p>)}
        {verdict?.few_samples && !isMadeUp(data) && <p class="caution"><b>Few samples.</b> {shown(verdict.few_samples)}</p>}
        {isMadeUp(data) && <p class="caution"><b>Nothing real was measured.</b> The inputs were made up; this says little of real data.</p>}
      </div>
    </div>
  );
}

function Figure({ label, children, detail }) {
  return <div class="figure"><dt>{label}</dt><dd>{children}<small>{detail}</small></dd></div>;
}

function FormatBar({ data }) {
  const formats = formatsIn(data, data.nodes);
  const of = (format) => data.nodes.filter((node) => node.format === format).length;
  const parts = formats.map((format) => [format, of(format)]);
  const operands = operandFormats(data)
    .map((format) => [format, data.nodes.filter((node) => node.operands === format).length]);
  // Under each format's nodes, those of them that read narrower operands, and the rest.
  const below = parts.flatMap(([format, n]) => {
    const own = operands.map(([narrow]) => [narrow, data.nodes.filter((node) => node.format === format && node.operands === narrow).length]);
    return [...own, ["", n - own.reduce((sum, [, m]) => sum + m, 0)]];
  }).filter(([, n]) => n > 0);
  const products = data.nodes.filter((node) => node.operands || node.operandsReason).length;
  const tensors = data.tensors.filter((tensor) => tensor.operand).length;
  return (
    <div class="format-bar-block">
      <div class="format-bar" role="img"
        aria-label={`Nodes by format: ${parts.map(([f, n]) => `${n} ${f}`).join(", ")}`}>
        {parts.map(([format, n]) => <i key={format} style={{ flexGrow: n, background: colour(format) }} />)}
      </div>
      {operands.length > 0 && <div class="format-bar operands" role="img"
        aria-label={`Matrix products by the format of their operands: ${operands.map(([f, n]) => `${n} ${f}`).join(", ")}, of ${products}`}>
        {below.map(([format, n], k) => <i key={k} style={{ flexGrow: n, background: format && colour(format) }} />)}
      </div>}
      <ul class="legend">
        {parts.map(([format, n]) => (
          <li key={format}><Format name={format} /> {plural(n, "node")}</li>
        ))}
        {operands.map(([format, n]) => (
          <li key={`operands ${format}`}><Format name={format} /> operands of {count(n)} of {plural(products, "matrix product")}: {plural(tensors, "tensor")}</li>
        ))}
      </ul>
    </div>
  );
}

// The largest relative L2 of an output on either set of samples, beside what it has on the other.
function worstOutput(verdict) {
  const figures = (verdict?.outputs ?? []).flatMap(({ output, relative_l2, relative_l2_calibration: calibration }) => {
    const [here, there] = [toNumber(relative_l2), toNumber(calibration)];
    if (calibration === undefined) return [{ output, error: here }];
    return [{ output, error: here, beside: `held-out; calibration: ${number(there)}` },
      { output, error: there, beside: `calibration; held-out: ${number(here)}` }];
  });
  return figures.reduce((worst, figure) => (!worst || figure.error > worst.error ? figure : worst), null);
}

// How much inputs may grow before the first tensor leaves its format, and before the first that
// products read narrower saturates there; what happens first stands first.
function headroomsOf(data) {
  const out = [];
  const { headroom } = data.plan;
  if (headroom?.value)
    out.push({ label: headroom.value, factor: toNumber(headroom.factor), what: "leaves", format: headroom.format ?? "its format" });
  const first = firstToSaturate(data);
  if (first)
    out.push({ label: first.label, factor: first.operand.headroom, what: "saturates in", format: first.operand.format });
  return out.sort((a, b) => a.factor - b.factor);
}

export function Figures() {
  const { data } = usePage();
  const { plan, verdict, nodes } = data;
  const narrow = nodes.filter(isNarrow).length;
  const cost = plan.cost;
  const worst = worstOutput(verdict);
  const headrooms = headroomsOf(data);
  const accuracy = verdict?.outputs.find((output) => output.labelled);
  return (
    <div class="panel">
      <dl class="figures">
        {isTf32(data) ? <Figure label="Setting of the runtime" detail="operands of matrix products; what it saves is not modelled">tf32</Figure>
          : <Figure label="Narrow nodes" detail={`of ${plural(nodes.length, "node")} with floats`}>{count(narrow)}</Figure>}
        {worst && <Figure label="Worst output error" detail={<>relative L2, <Name>{worst.output}</Name>{worst.beside && <span class="block">{worst.beside}</span>}</>}>
          {number(worst.error)}</Figure>}
        {accuracy && <Figure label="Accuracy" detail={`fp32: ${share(accuracy.fp32_right / accuracy.labelled)} of ${plural(accuracy.labelled, "label")}`}>
          {share(accuracy.narrow_right / accuracy.labelled)}</Figure>}
        {headrooms.map(({ label, factor, what, format }) => <Figure key={what} label={headrooms.length > 1 ? `Headroom in ${shown(format)}` : "Headroom"} detail={<>before <OpenLabel label={label} /> {what} {shown(format)}</>}>
          {growth(factor)}</Figure>)}
        {cost?.seconds && !isTf32(data) && <Figure label="Modelled time" detail={`${seconds(cost.seconds.before)} in fp32, on ${shown(cost.modelled_for.target)}`}>
          {seconds(cost.seconds.after)}</Figure>}
        {cost?.constant_bytes && <Figure label="Constants" detail={`${bytes(cost.constant_bytes.before)} in fp32`}>
          {bytes(cost.constant_bytes.after)}</Figure>}
      </dl>
      <FormatBar data={data} />
    </div>
  );
}

// ---- Claims ----

// How much of what the limit allows was used, by the figure that decides: 1 is all of it. "At least
// 0.95" allows that 0.05 is missing.
function used(claim) {
  const measured = toNumber(claim.measured);
  const limit = toNumber(claim.limit);
  if (["cosine", "top1", "matched_rows"].includes(claim.metric))
    return limit < 1 ? (1 - measured) / (1 - limit) : NaN;
  if (claim.metric === "sqnr_db") return NaN;
  return limit > 0 ? measured / limit : NaN;
}

function Used({ claim }) {
  const x = used(claim);
  if (Number.isNaN(x)) return <span class="quiet">–</span>;
  return (
    <span class="used">
      <span class="track"><i class={claim.holds ? "good" : "bad"} style={{ width: `${Math.min(100, Math.max(1, 100 * x))}%` }} /></span>
      {share(Math.max(0, x))}
    </span>
  );
}

// All that fail, and of those that hold the one nearest its limit, by claim.
function importantClaims(claims) {
  const rows = [];
  for (const id of new Set(claims.map((claim) => claim.id))) {
    const same = claims.filter((claim) => claim.id === id);
    const failing = same.filter((claim) => !claim.holds);
    const holding = same.filter((claim) => claim.holds);
    rows.push(...failing.map((claim) => ({ claim })));
    const nearest = holding.reduce((best, claim) => !best || used(claim) > used(best) ? claim : best, null);
    const alike = holding.every((claim) => claim.measured === nearest.measured);
    if (nearest) rows.push({ claim: nearest, of: holding.length, alike });
  }
  return rows.sort((a, b) => a.claim.holds - b.claim.holds);
}

const metricNames = {
  finite: "No new NaN or infinity", relative_l2: "Relative L2 error", cosine: "Cosine",
  sqnr_db: "SQNR, dB", top1: "Top-1 agreement", max_abs: "Largest absolute error",
  label_loss: "Accuracy lost", matched_rows: "Rows that have their like",
};

// A cosine near 1 needs its digits.
const measure = ({ metric, limit }, measured) =>
  beside(toNumber(measured), toNumber(limit), metric === "cosine" ? 8 : 4);

// The worse of the held-out samples and those that calibrated decides; both stand below it, with what
// the engine makes of the held-out ones.
function Measured({ claim }) {
  const { measured, measured_held_out: heldOut, measured_calibration: calibration, measured_in_engine: engine } = claim;
  return <>{measure(claim, measured)}
    {heldOut !== undefined && <small class="block">held-out: {measure(claim, heldOut)}</small>}
    {calibration !== undefined && <small class="block">calibration: {measure(claim, calibration)}</small>}
    {engine !== undefined && <small class={claim.holds && !claim.holds_in_engine ? "block caution" : "block"}>engine: {measure(claim, engine)}</small>}</>;
}

function ClaimRow({ row }) {
  const { claim, of, alike } = row;
  return (
    <tr>
      <td><span class={`pill ${claim.holds ? "good" : "bad"}`}>{claim.holds ? "holds" : "fails"}</span></td>
      <td>{metricNames[claim.metric] ?? shown(claim.metric)}</td>
      <td class="num" data-name="Measured"><Measured claim={claim} /></td>
      <td class="num" data-name="Limit"><span class="quiet">{isLowerBound(claim.metric) ? "≥" : "≤"}</span> {beside(toNumber(claim.limit), toNumber(claim.limit), 4)}</td>
      <td data-name="Used"><Used claim={claim} /></td>
      <td class="long" data-name="Output">{of > 1 && alike ? `all ${plural(of, "output")}` : <OpenLabel label={claim.output} />}
        {of > 1 && !alike && <small class="block">the worst of {count(of)} outputs</small>}</td>
      <td class="long" data-name="Worst sample">{claim.worst_sample && !(of > 1 && alike) ? <Name>{claim.worst_sample}</Name> : <span class="quiet">–</span>}</td>
    </tr>
  );
}

function PromisedOnly({ claims }) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Claims of the policy">
      <table class="plain">
        <thead><tr><th>Claim</th><th class="num">Limit</th><th>Outputs</th></tr></thead>
        <tbody>{claims.map((claim) => (
          <tr key={claim.id}>
            <td>{metricNames[claim.metric] ?? shown(claim.metric)}</td>
            <td class="num">{isLowerBound(claim.metric) ? "≥" : "≤"} {beside(toNumber(claim.limit), toNumber(claim.limit), 4)}</td>
            <td>{claim.outputs ? claim.outputs.map((o) => <Name key={o}>{o}</Name>) : "all"}</td>
          </tr>))}
        </tbody>
      </table>
    </div>
  );
}

const MOST_CLAIMS = 300;

export function Claims() {
  const { data } = usePage();
  const [all, setAll] = useState(false);
  const claims = measuredClaims(data);
  if (!claims)
    return <Section id="claims" title="Claims" note="What the policy promises. The verdict file says what was measured.">
      <PromisedOnly claims={data.plan.claims} /></Section>;
  const important = importantClaims(claims);
  const rows = all ? claims.slice(0, MOST_CLAIMS).map((claim) => ({ claim })) : important;
  return (
    <Section id="claims" title="Claims"
      note={data.verdict ? null : "As the run that made the plan measured them, to three digits. No verdict file was given."}
      tools={claims.length > important.length &&
        <button type="button" class="plain-button" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? "Only what matters" : `All ${count(claims.length)}`}</button>}>
      {claims.length === 0 ? <p class="note">No claim of the policy applies to this model's outputs.</p> :
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Claims and what they measured">
          <table class="plain stacks">
            <thead><tr><th><span class="hidden">Result</span></th><th>Claim</th><th class="num">Measured</th>
              <th class="num">Limit</th><th title="Of what the limit allows">Used</th><th>Output</th><th>Worst sample</th></tr></thead>
            <tbody>{rows.map((row, k) => <ClaimRow key={k} row={row} />)}</tbody>
          </table>
        </div>}
      {all && claims.length > MOST_CLAIMS && <p class="note">The first {MOST_CLAIMS}; the verdict file has all.</p>}
    </Section>
  );
}

export function Limits() {
  const { data } = usePage();
  const limits = data.plan.limits ?? [];
  if (!limits.length) return null;
  return (
    <Section id="limits" title="What the claims do not cover">
      <ul class="limits">{limits.map((limit) => <li key={limit.id}>{shown(limit.text)}</li>)}</ul>
    </Section>
  );
}

// ---- Cost ----

function Pair({ label, before, after, show }) {
  const most = Math.max(before, after) || 1;
  return (
    <tr>
      <th scope="row">{label}</th>
      <td class="bars">
        <span class="bar"><i class="before" style={{ width: `${(70 * before) / most}%` }} /><span>{show(before)}</span></span>
        <span class="bar"><i class="after" style={{ width: `${(70 * after) / most}%` }} /><span>{show(after)}</span></span>
      </td>
      <td class="num">{before > 0 ? `${number(before / after)}×` : "–"}</td>
    </tr>
  );
}

function TimeByOperator({ nodes, casts }) {
  const totals = new Map();
  for (const node of nodes) {
    if (!(node.before > 0)) continue;
    const total = totals.get(node.op) ?? { op: node.op, before: 0, after: 0 };
    total.before += node.before;
    total.after += node.after;
    totals.set(node.op, total);
  }
  if (!totals.size) return null;
  const sorted = [...totals.values()].sort((a, b) => b.before - a.before);
  const rows = sorted.slice(0, 9);
  const rest = sorted.slice(9);
  if (rest.length) rows.push({
    op: `${rest.length} others`,
    before: rest.reduce((sum, row) => sum + row.before, 0),
    after: rest.reduce((sum, row) => sum + row.after, 0),
  });
  if (casts > 0) rows.push({ op: "Casts added", before: 0, after: casts });
  const most = Math.max(...rows.map((row) => Math.max(row.before, row.after)));
  const unit = most < 1e-6 ? [1e9, "ns"] : most < 1e-3 ? [1e6, "µs"] : [1e3, "ms"];
  const flat = rows.flatMap((row) => [
    { op: shown(row.op), when: "fp32", time: row.before * unit[0] },
    { op: shown(row.op), when: "planned", time: row.after * unit[0] },
  ]);
  return (
    <div>
      <h3>Modelled time by operator</h3>
      <Chart label={`Modelled time by operator: ${rows.map((r) => `${r.op} ${seconds(r.before)} in fp32, ${seconds(r.after)} planned`).join("; ")}`}
        depends={[nodes]}
        draw={() => ({
          height: rows.length * 26 + 36, marginLeft: 128, marginRight: 12, marginTop: 4, marginBottom: 28,
          x: { label: unit[1], grid: true, ticks: 4 },
          y: { axis: null, domain: ["fp32", "planned"], padding: 0.12 },
          fy: { domain: rows.map((row) => shown(row.op)), label: null, axis: "left", padding: 0.28, tickFormat: (op) => op.length > 20 ? `${op.slice(0, 19)}…` : op },
          marks: [Plot.barX(flat, {
            fy: "op", y: "when", x: "time", fill: (d) => d.when === "fp32" ? "var(--bar-before)" : "var(--bar-after)",
            title: (d) => `${d.op}, ${d.when}: ${number(d.time)} ${unit[1]}`,
          })],
        })} />
    </div>
  );
}

export function Cost() {
  const { data } = usePage();
  const cost = data.plan.cost;
  if (!cost || isTf32(data)) return null;
  const casts = cost.casts ?? 0;
  return (
    <Section id="cost" title="Where bytes and time go"
      note={`Modelled, not measured, for one run on target ${shown(cost.modelled_for.target)}: a node takes the longer of its arithmetic and its traffic. ${plural(casts, "Cast")} ${cost.scale_nodes ? `and ${plural(cost.scale_nodes, "scale node")} are` : casts === 1 ? "is" : "are"} added${cost.nodes_wide_only_for_casts ? `; ${plural(cost.nodes_wide_only_for_casts, "node")} could be narrow and stay${cost.nodes_wide_only_for_casts === 1 ? "s" : ""} fp32 because Casts would cost more` : ""}.`}>
      <div class="two">
        <div>
          <h3>A run, in fp32 and as planned</h3>
          <table class="pairs">
            <thead class="hidden"><tr><th>What</th><th>fp32, planned</th><th>Gain</th></tr></thead>
            <tbody>
              {[["seconds", "Time", seconds], ["traffic_bytes", "Bytes moved", bytes],
                ["activation_bytes", "Activations", bytes], ["constant_bytes", "Constants", bytes]]
                .filter(([key]) => cost[key])
                .map(([key, label, show]) =>
                  <Pair key={key} label={label} show={show} before={toNumber(cost[key].before)} after={toNumber(cost[key].after)} />)}
            </tbody>
          </table>
          <ul class="legend">
            <li><i class="swatch before" />fp32</li><li><i class="swatch after" />planned</li>
            {cost.share_that_cannot_speed_up > 0 && <li class="quiet">{share(cost.share_that_cannot_speed_up)} of the time cannot speed up</li>}
          </ul>
        </div>
        <TimeByOperator nodes={data.nodes} casts={toNumber(cost.cast_seconds)} />
      </div>
    </Section>
  );
}

// ---- Why not narrow, promotions, weights ----

export function Reasons({ onReason }) {
  const { data } = usePage();
  const counts = new Map();
  for (const node of data.nodes)
    if (node.reason && !isNarrow(node)) counts.set(node.reason, (counts.get(node.reason) ?? 0) + 1);
  if (!counts.size || isTf32(data)) return null;
  const rows = [...counts].sort((a, b) => b[1] - a[1]);
  const most = rows[0][1];
  return (
    <Section id="reasons" title="Why nodes stay wide" note="Nodes that stay fp32, by what decided.">
      <ul class="reasons">
        {rows.map(([reason, n]) => (
          <li key={reason}>
            <button type="button" onClick={() => onReason(reason)} title="Show these nodes">
              <span class="num">{count(n)}</span>
              <span class="track"><i style={{ width: `${(100 * n) / most}%` }} /></span>
              <span class="text">{reasonText(data, reason)}{opsetText(data, reason)}</span>
            </button>
          </li>
        ))}
      </ul>
    </Section>
  );
}

const MOST_ROWS = 100;
const FIRST_ROWS = 10;

const MOST_PROMOTIONS = 1000;

export function Promotions() {
  const { data } = usePage();
  const list = data.plan.promotions ?? [];
  const [all, setAll] = useState(false);
  const rows = list.slice(0, all ? MOST_PROMOTIONS : FIRST_ROWS);
  return (
    <Section id="promotions" title="Promotions"
      tools={list.length > FIRST_ROWS && <button type="button" class="plain-button" aria-expanded={all} onClick={() => setAll(!all)}>
        {all ? `First ${FIRST_ROWS}` : `All ${count(list.length)}`}</button>}
      note={list.length ? `${plural(list.length, "tensor")}, given a wider format because a claim did not hold, in the order in which it was done.`
        : "None: no tensor had to be given a wider format to meet the claims."}>
      {list.length > 0 && <div class="scroll-x" tabIndex={0} role="region" aria-label="Promotions"><table class="plain">
        <thead><tr><th class="num">Round</th><th>Tensor</th><th>From</th><th>To</th><th class="num">Error of its own</th></tr></thead>
        <tbody>{rows.map((entry, k) => (
          <tr key={k}><td class="num">{entry.round}</td><td><OpenLabel label={entry.value} /></td>
            <td><Format name={entry.from} /></td><td><Format name={entry.to} /></td>
            <td class="num">{number(toNumber(entry.error))}</td></tr>))}</tbody>
      </table></div>}
      {list.length > rows.length && <p class="note">The first {count(rows.length)} of {count(list.length)}.</p>}
    </Section>
  );
}

export function Weights() {
  const { data } = usePage();
  const list = data.plan.weights ?? [];
  if (!list.length) return null;
  const copies = list.filter((weight) => weight.note).length;
  return (
    <Section id="weights" title="Weights of the training"
      note={`${count(copies)} of ${plural(list.length, "weight")} need a 32-bit master copy: too many of their updates are below a step, or none was seen.`}>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Weights of the training"><table class="plain">
        <thead><tr><th>Weight</th><th>Judged for</th><th class="num">Updates lost</th><th>Needs</th></tr></thead>
        <tbody>{list.slice(0, MOST_ROWS).map((weight) => (
          <tr key={weight.weight}><td><OpenLabel label={weight.weight} /></td><td><Format name={weight.format} /></td>
            <td class="num">{share(toNumber(weight.lost_updates_fraction))}</td><td>{weight.note ? shown(weight.note) : ""}</td></tr>))}</tbody>
      </table></div>
    </Section>
  );
}

export function Provenance() {
  const { data } = usePage();
  const { plan, trace, verdict, vocabulary } = data;
  const rows = [
    ["Model", <Name>{plan.model.file}</Name>], ["SHA-256", <Name>{plan.model.sha256}</Name>],
    ["Policy", <><Name>{plan.policy.name}</Name> version {plan.policy.version}</>],
    ["Ladder", (plan.policy.ladder ?? []).map((f) => <Format key={f} name={f} />)],
    isTf32(data) && ["Setting", "tf32, in the runtime"],
    ["Overrides", (plan.policy.overrides ?? []).length ? plan.policy.overrides.map((o) => <Name key={o}>{o}</Name>) : "none"],
    ["Inputs and outputs", plan.policy.inputs ? `${shown(plan.policy.inputs)}, ${shown(plan.policy.outputs ?? "")}` : "–"],
    ["Statistics", `${plan.statistics.source === "none" ? "none" : plan.statistics.source === "synthetic" ? "made-up samples" : "data"}, ${plural(plan.statistics.samples, "sample")}`],
    ["Made from", `plan${trace ? ", trace" : ""}${verdict ? ", verdict" : ""}`],
    ["Written by", `narrowcast ${vocabulary.version}${plan.tool ? `; the plan by ${shown(plan.tool)}` : ""}`],
  ];
  return (
    <Section id="provenance" title="Provenance">
      <dl class="facts">{rows.filter(Boolean).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      <details class="licences"><summary>Licences of the libraries in this page</summary>
        <pre tabIndex={0}>{document.getElementById("licences").content.textContent}</pre></details>
    </Section>
  );
}
