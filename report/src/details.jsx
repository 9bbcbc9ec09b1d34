// What is known of one node or tensor, beside the page: opened by a link, left with Escape.
import { useEffect, useRef } from "preact/hooks";
import { readsOperand, reasonText } from "./data.js";
import { Magnitudes, Trajectory, Updates } from "./histogram.jsx";
import { Neighbourhood } from "./network.jsx";
import { Format, Name, Open, OpenLabel, usePage } from "./parts.jsx";
import { count, number, plural, power, seconds, share, shown } from "./text.js";

function Facts({ rows }) {
  return <dl class="facts">{rows.filter(Boolean).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

const has = (x) => x !== undefined && !Number.isNaN(x);

const MOST_LINKS = 12;

function Links({ items }) {
  if (!items.length) return <span class="quiet">none</span>;
  return (
    <ul class="links">
      {items.slice(0, MOST_LINKS).map((item) => <li key={item.label}><Open item={item} /> <Format name={item.format} /></li>)}
      {items.length > MOST_LINKS && <li class="quiet">and {count(items.length - MOST_LINKS)} more</li>}
    </ul>
  );
}

const times = (scale) => (scale ? ` times ${power(scale)}` : "");

// "fp8e4m3fn times 2⁶"
const operandText = ({ format, block, scale, most }) =>
  block ? `${shown(format)}, blocks times ${power(scale)} to ${power(most)}` : `${shown(format)}${times(scale)}`;

// Why a tensor that would fit stays fp32.
function staysWide(tensor) {
  if (!tensor.producer && !tensor.constant)
    return "it is an input of the model, whose types are kept, or made by a node that has no float to decide about";
  if (tensor.producer)
    return tensor.producer.format === "fp32" ? `node ${shown(tensor.producer.label)}, which makes it, computes in fp32`
      : `node ${shown(tensor.producer.label)} gives it in fp32 whatever it computes in`;
  const wide = tensor.consumers.find((node) => node.format === "fp32");
  return wide ? `node ${shown(wide.label)} reads it in fp32` : "its readers do not agree on a narrow format";
}

function whyTensor(data, tensor) {
  const why = tensor.reason ? reasonText(data, tensor.reason) : "";
  if (tensor.onlyOperand)
    return `Stored in ${operandText(tensor.operand)} alone: only matrix products read it, and they read it so.`;
  const read = tensor.operand ? ` Matrix products read it in ${operandText(tensor.operand)}.` : "";
  if (tensor.format !== "fp32")
    return `Stored in ${tensor.format}${tensor.scale ? `, times ${power(tensor.scale)}` : ""}.${why ? ` Against the most wanted format: ${why}.` : ""}${read}`;
  return `Stays fp32: ${why || staysWide(tensor)}.${read}`;
}

function Tensor({ tensor }) {
  const { data } = usePage();
  return (
    <>
      <p class="why">{whyTensor(data, tensor)}</p>
      <h3>Magnitudes</h3>
      <Magnitudes data={data} tensor={tensor} />
      <ScaleWindows of={tensor.windowScales} />
      <Facts rows={[
        tensor.shape && ["Shape", tensor.shape.length ? tensor.shape.join(" × ") : "scalar"],
        has(tensor.absmax) && ["Largest magnitude", number(tensor.absmax, 4)],
        has(tensor.headroom) && ["Headroom", `${number(tensor.headroom)}×`],
        has(tensor.zero) && ["Become zero", share(tensor.zero)],
        has(tensor.subnormal) && ["Become subnormal", share(tensor.subnormal)],
        has(tensor.sqnr) && ["Expected SQNR", `${number(tensor.sqnr)} dB`],
        has(tensor.zeros) && ["Zeros in fp32", share(tensor.zeros)],
        has(tensor.lost) && ["Lost updates", share(tensor.lost)],
      ]} />
      {tensor.operand && <>
        <h3>As matrix products read it: {shown(tensor.operand.format)}{tensor.operand.block
          ? `, in blocks of ${count(tensor.operand.block)} along axis ${tensor.operand.axis}, times ${power(tensor.operand.scale)} to ${power(tensor.operand.most)}`
          : tensor.operand.scale ? `, times ${power(tensor.operand.scale)}` : ""}</h3>
        {!tensor.operand.block && <Magnitudes data={data} tensor={tensor} as={tensor.operand} />}
        <ScaleWindows of={tensor.operand.windowScales} />
        <Facts rows={[
          has(tensor.operand.headroom) && ["Headroom", `${number(tensor.operand.headroom)}×`],
          has(tensor.operand.zero) && ["Become zero", share(tensor.operand.zero)],
          has(tensor.operand.subnormal) && ["Become subnormal", share(tensor.operand.subnormal)],
          has(tensor.operand.sqnr) && ["Expected SQNR", `${number(tensor.operand.sqnr)} dB`],
        ]} />
      </>}
      {has(tensor.error) && <>
        <h3>Measured beside fp32</h3>
        <Facts rows={[
          ["Relative L2", number(tensor.error, 4)],
          has(tensor.maxAbs) && ["Largest absolute", number(tensor.maxAbs, 4)],
          has(tensor.cosine) && ["Cosine", number(tensor.cosine, 6)],
          has(tensor.measuredSqnr) && ["SQNR", `${number(tensor.measuredSqnr)} dB`],
          tensor.newlyNonfinite > 0 && ["Newly not finite", plural(tensor.newlyNonfinite, "element")],
        ]} />
      </>}
      {tensor.sites.map((site) => (
        <div key={site.index}>
          <h3>Updates: {shown(site.kind.replaceAll("_", " "))}</h3>
          <Updates data={data} sites={[site]} />
        </div>
      ))}
      <Trajectory data={data} tensor={tensor} />
      <h3>Made by</h3>
      {tensor.producer ? <Links items={[tensor.producer]} /> : <p class="quiet">a graph input, a constant, or a node without floats</p>}
      <h3>Read by</h3>
      <Links items={tensor.consumers} />
    </>
  );
}

// How the scale came about: the smallest that a window asks for is taken, so that all of them fit.
function ScaleWindows({ of: asked }) {
  if (!asked) return null;
  return <p class="caption">Windows asked for {power(asked.least)} .. {power(asked.most)}, moved {plural(asked.moves, "time")}.</p>;
}

function Values({ labels, scales, of: node }) {
  const { data } = usePage();
  const rows = labels.map((label, k) => {
    const tensor = data.byLabel.get(label);
    return { label, scale: scales?.[k], tensor, operand: node && readsOperand(node, k, tensor) ? tensor.operand : null };
  }).filter((row) => row.label);
  if (!rows.length) return <p class="quiet">none</p>;
  return (
    <ul class="links">
      {rows.slice(0, 2 * MOST_LINKS).map(({ label, scale, tensor, operand }, k) => (
        <li key={k}><OpenLabel label={label} />{" "}
          {tensor && !(operand && tensor.onlyOperand) && <Format name={tensor.format} />}
          {operand && <span class="quiet">{tensor.onlyOperand ? " " : ", read in "}<Format name={operand.format} />
            {operand.block ? `, blocks times ${power(operand.scale)} to ${power(operand.most)}` : times(operand.scale)}</span>}
          {!operand && scale ? <span class="quiet">{times(scale)}</span> : null}
          {tensor && has(tensor.error) && tensor.error > 0 && <span class="quiet"> error {number(tensor.error)}</span>}
        </li>))}
      {rows.length > 2 * MOST_LINKS && <li class="quiet">and {count(rows.length - 2 * MOST_LINKS)} more</li>}
    </ul>
  );
}

function WhyNode({ node }) {
  const { data } = usePage();
  const reason = node.reason && reasonText(data, node.reason);
  return (
    <p class="why">
      {node.rule ? <>Rule <Name>{node.rule}</Name>{node.class && <> made it <b>{node.class}</b></>}. </> : null}
      {reason ? <>Computed in {shown(node.format)}{node.tried && node.tried !== node.format ? <>, not in {shown(node.tried)}</> : null}: {reason}
        {node.because && <>: <OpenLabel label={node.because} /></>}
        {node.opset > 0 && ` (from opset ${node.opset} on it does)`}.</>
        : <>Computed in {shown(node.format)}, as wanted.</>}
      {node.operands && <> Its operands are read in {shown(node.operands)}.</>}
      {node.operandsReason && <> Its operands are not read narrower: {reasonText(data, node.operandsReason)}
        {node.operandsBecause && <>: <OpenLabel label={node.operandsBecause} /></>}.</>}
      {data.rules.has(node.rule) && <span class="block quiet">{shown(data.rules.get(node.rule))}</span>}
    </p>
  );
}

function Node({ node }) {
  return (
    <>
      <WhyNode node={node} />
      <Facts rows={[
        ["Operator", <Name>{node.op}</Name>],
        node.pattern && ["Part of", <Name>{node.pattern}</Name>],
        node.scope && ["Scope", <Name>{node.scope}</Name>],
        has(node.before) && ["Modelled time", `${seconds(node.before)} → ${seconds(node.after)}`],
        has(node.error) && ["Largest error", number(node.error, 4)],
        ["Level", count(node.level + 1)],
      ]} />
      <h3>Reads</h3>
      <Values labels={node.inputs} scales={node.inputScales} of={node} />
      <h3>Makes</h3>
      <Values labels={node.outputs} />
      <Neighbourhood key={node.index} node={node} />
    </>
  );
}

export function Details({ item, close }) {
  const panel = useRef();
  useEffect(() => { panel.current.scrollTop = 0; panel.current.querySelector("h2").focus({ preventScroll: true }); }, [item]);
  useEffect(() => {
    const onKeyDown = (event) => { if (event.key === "Escape") close(); };
    window.addEventListener("keydown", onKeyDown);
    return () => window.removeEventListener("keydown", onKeyDown);
  }, [close]);
  return (
    <aside class="details" ref={panel} aria-labelledby="details-title" tabIndex={0}>
      <header>
        <div class="details-bar"><span class="quiet">{item.kind === "node" ? "Node" : "Tensor"}</span>
          <Format name={item.onlyOperand ? item.operand.format : item.format} />
          <button type="button" class="close" aria-label="Close" onClick={close}>✕</button></div>
        <h2 id="details-title" tabIndex={-1}><Name>{item.label}</Name></h2>
      </header>
      {item.kind === "node" ? <Node node={item} /> : <Tensor tensor={item} />}
    </aside>
  );
}
