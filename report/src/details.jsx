// What is known of one node or tensor, beside the page: opened by a link, left with Escape.
import { useEffect, useRef } from "preact/hooks";
import { reasonText } from "./data.js";
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

function whyTensor(data, tensor) {
  const why = tensor.reason ? reasonText(data, tensor.reason) : "";
  if (tensor.format !== "fp32")
    return `Stored in ${tensor.format}${tensor.scale ? `, times ${power(tensor.scale)}` : ""}.${why ? ` Against the most wanted format: ${why}.` : ""}`;
  return why ? `Stays fp32: ${why}.` : "Stays fp32: nothing that makes or reads it is narrow, though it would fit.";
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
        has(tensor.headroom) && ["Headroom", `${number(tensor.headroom, 4)}×`],
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
          has(tensor.operand.headroom) && ["Headroom", `${number(tensor.operand.headroom, 4)}×`],
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

function Values({ labels, scales }) {
  const { data } = usePage();
  const rows = labels.map((label, k) => ({ label, scale: scales?.[k], tensor: data.byLabel.get(label) })).filter((row) => row.label);
  if (!rows.length) return <p class="quiet">none</p>;
  return (
    <ul class="links">
      {rows.slice(0, 2 * MOST_LINKS).map((row, k) => (
        <li key={k}><OpenLabel label={row.label} />{" "}
          {row.tensor && <Format name={row.tensor.format} />}
          {row.scale ? <span class="quiet"> times {power(row.scale)}</span> : null}
          {row.tensor && has(row.tensor.error) && row.tensor.error > 0 && <span class="quiet"> error {number(row.tensor.error)}</span>}
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
      <Values labels={node.inputs} scales={node.inputScales} />
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
          <Format name={item.format} />
          <button type="button" class="close" aria-label="Close" onClick={close}>✕</button></div>
        <h2 id="details-title" tabIndex={-1}><Name>{item.label}</Name></h2>
      </header>
      {item.kind === "node" ? <Node node={item} /> : <Tensor tensor={item} />}
    </aside>
  );
}
