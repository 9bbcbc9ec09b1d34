// The graph, twice. The map shows every node: levels (longest paths from the inputs) go from left to
// right and wrap like lines of text, so that it takes linear time and fills its place however deep
// the network is. What is around one node is laid out by dagre, in layers with its tensors as edges.
import dagre from "@dagrejs/dagre";
import { select } from "d3-selection";
import { zoom, zoomIdentity } from "d3-zoom";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { formatsIn, operandFormats } from "./data.js";
import { Choice, Format, Section, colour, hashOf, usePage, useSize } from "./parts.jsx";
import { count, number, plural, shown } from "./text.js";

// ---- The map ----

const CELL = { w: 26, h: 11, gapX: 5, gapY: 3, row: 16 };
const MOST_LANES = 16;

// Columns of at most MOST_LANES nodes, level after level; a node stands at the mean height of what
// it reads, as far as there is room.
function columnsOf(nodes, levels) {
  const byLevel = Array.from({ length: levels }, () => []);
  for (const node of nodes) byLevel[node.level].push(node);
  const lane = new Map();
  const columns = [];
  for (const level of byLevel) {
    const wish = (node) => node.predecessors.length
      ? node.predecessors.reduce((sum, p) => sum + (lane.get(p) ?? 0), 0) / node.predecessors.length : 0;
    const sorted = level.map((node) => [wish(node), node]).sort((a, b) => a[0] - b[0] || a[1].index - b[1].index);
    for (let k = 0; k < sorted.length; k += MOST_LANES) {
      const column = sorted.slice(k, k + MOST_LANES).map(([, node]) => node);
      column.forEach((node, j) => lane.set(node, j));
      columns.push(column);
    }
  }
  return columns;
}

// As many columns a line as give the map the aspect of its place.
function lineLength(columns, aspect, stepX, stepY) {
  const heightOf = (perLine) => {
    let height = 0;
    for (let k = 0; k < columns.length; k += perLine)
      height += Math.max(...columns.slice(k, k + perLine).map((column) => column.length)) * stepY + CELL.row;
    return height;
  };
  let low = Math.min(8, columns.length), high = columns.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (middle * stepX < aspect * heightOf(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function layOut(nodes, levels, aspect) {
  const columns = columnsOf(nodes, levels);
  const stepX = CELL.w + CELL.gapX;
  const stepY = CELL.h + CELL.gapY;
  const perLine = lineLength(columns, aspect, stepX, stepY);
  const cells = new Map();
  const lines = [];
  let y = 0;
  for (let k = 0; k < columns.length; k += perLine) {
    const line = columns.slice(k, k + perLine);
    const height = Math.max(...line.map((column) => column.length)) * stepY;
    line.forEach((column, c) => column.forEach((node, j) =>
      cells.set(node, { node, x: c * stepX, y: y + j * stepY, column: k + c, lane: j })));
    lines.push({ y, height });
    y += height + CELL.row;
  }
  return { cells, list: [...cells.values()], columns, lines, width: perLine * stepX - CELL.gapX, height: Math.max(1, y - CELL.row) };
}

// CSS colours as the canvas needs them.
function palette(element, formats) {
  const probe = document.createElement("span");
  element.append(probe);
  const resolve = (css) => {
    probe.style.color = css;
    return getComputedStyle(probe).color;
  };
  const out = {
    formats: new Map(formats.map((format) => [format, resolve(colour(format))])),
    fg: resolve("var(--fg)"), muted: resolve("var(--muted)"), line: resolve("var(--line-strong)"), accent: resolve("var(--accent)"), outline: resolve("var(--outline)"),
    on: resolve("var(--on-format)"), unknown: resolve("var(--line)"),
    errors: [0, 1, 2, 3, 4].map((k) => resolve(`var(--error-${k})`)),
  };
  probe.remove();
  return out;
}

// 0 for up to 1e-5, then one more for each power of ten.
export const errorStep = (error) => Math.min(4, Math.max(0, Math.floor(Math.log10(error || 1e-9) + 6)));

function drawMap(canvas, map, colours, transform, by, focus, selected) {
  const ratio = window.devicePixelRatio || 1;
  const g = canvas.getContext("2d");
  const { width, height } = canvas.getBoundingClientRect();
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  g.setTransform(ratio * transform.k, 0, 0, ratio * transform.k, ratio * transform.x, ratio * transform.y);
  const view = { x0: -transform.x / transform.k, y0: -transform.y / transform.k };
  view.x1 = view.x0 + width / transform.k;
  view.y1 = view.y0 + height / transform.k;
  const seen = (c) => c.x + CELL.w > view.x0 && c.x < view.x1 && c.y + CELL.h > view.y0 && c.y < view.y1;
  const visible = map.list.filter(seen);
  const edge = (a, b) => {
    const x0 = a.x + CELL.w, y0 = a.y + CELL.h / 2, x1 = b.x, y1 = b.y + CELL.h / 2;
    const bend = Math.max(6, Math.min(60, Math.abs(x1 - x0) / 2));
    g.beginPath();
    g.moveTo(x0, y0);
    g.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    g.stroke();
  };
  if (visible.length < 2500) {
    g.strokeStyle = colours.line;
    g.lineWidth = 0.7;
    for (const c of visible) for (const next of c.node.successors) {
      const d = map.cells.get(next);
      if (d.x > c.x) edge(c, d);
    }
  }
  const near = focus && new Set([focus, ...focus.predecessors, ...focus.successors]);
  for (const c of visible) {
    g.globalAlpha = near && !near.has(c.node) ? 0.45 : 1;
    g.fillStyle = by === "error"
      ? (Number.isNaN(c.node.error) ? colours.unknown : colours.errors[errorStep(c.node.error)])
      : colours.formats.get(c.node.format);
    g.beginPath();
    g.roundRect(c.x, c.y, CELL.w, CELL.h, 2);
    g.fill();
    g.strokeStyle = colours.outline;
    g.lineWidth = 0.4;
    g.stroke();
    // On the left, where they come in: the format that operands are read in.
    if (by === "format" && c.node.operands) {
      g.fillStyle = colours.formats.get(c.node.operands);
      g.beginPath();
      g.roundRect(c.x, c.y, CELL.w / 3, CELL.h, [2, 0, 0, 2]);
      g.fill();
    }
  }
  g.globalAlpha = 1;
  const tied = focus ?? selected;
  if (tied) {
    g.strokeStyle = colours.accent;
    g.lineWidth = 1.4;
    const at = map.cells.get(tied);
    for (const p of tied.predecessors) edge(map.cells.get(p), at);
    for (const s of tied.successors) edge(at, map.cells.get(s));
  }
  for (const node of [focus, selected]) {
    const at = node && map.cells.get(node);
    if (!at) continue;
    g.strokeStyle = colours.fg;
    g.lineWidth = Math.max(1.6, 2 / transform.k);
    g.strokeRect(at.x - 1, at.y - 1, CELL.w + 2, CELL.h + 2);
  }
  if (transform.k > 2.1) {
    g.fillStyle = colours.on;
    g.font = "4.6px system-ui, sans-serif";
    g.textBaseline = "middle";
    const fits = (text) => {
      const room = (most) => g.measureText(most).width <= CELL.w - 3;
      let end = text.length;
      while (end > 1 && !room(end < text.length ? `${text.slice(0, end)}…` : text)) end--;
      return end < text.length ? `${text.slice(0, end)}…` : text;
    };
    for (const c of visible) {
      if (by === "error") g.fillStyle = errorStep(c.node.error) > 2 ? colours.on : colours.fg;
      g.save();
      g.beginPath();
      g.rect(c.x, c.y, CELL.w, CELL.h);
      g.clip();
      g.fillText(fits(shown(c.node.op)), c.x + 1.5, c.y + CELL.h / 2 + 0.3);
      g.restore();
    }
  }
}

function step(map, node, key) {
  const at = map.cells.get(node);
  const column = map.columns[at.column];
  if (key === "ArrowRight") return node.successors[0] ?? map.columns[at.column + 1]?.[0];
  if (key === "ArrowLeft") return node.predecessors[0] ?? map.columns[at.column - 1]?.[0];
  if (key === "ArrowDown") return column[at.lane + 1] ?? map.columns[at.column + 1]?.[0];
  if (key === "ArrowUp") return column[at.lane - 1] ?? map.columns[at.column - 1]?.at(-1);
  return undefined;
}

const describe = (node) =>
  `${shown(node.op)} ${shown(node.label)}, ${shown(node.format)}${node.operands ? `, operands ${shown(node.operands)}` : ""}${Number.isNaN(node.error) ? "" : `, error ${number(node.error)}`}`;

function useMap(canvas, size, map, by) {
  const { data, selected, theme } = usePage();
  const [focus, setFocus] = useState(null);
  const [zoomed, setZoomed] = useState(0);
  const state = useRef({ transform: zoomIdentity });
  const home = () => {
    const [width, height] = size;
    const k = Math.min(width / (map.width + 24), height / (map.height + 24), 3);
    return zoomIdentity.translate((width - k * map.width) / 2, (height - k * map.height) / 2).scale(k);
  };
  useLayoutEffect(() => {
    if (!size[0]) return undefined;
    const first = home();
    const behaviour = zoom().scaleExtent([first.k * 0.9, Math.max(12, first.k * 2)])
      // One finger and the wheel scroll the page, two fingers the map; the wheel too once it is in use.
      .filter((event) => event.type.startsWith("touch") ? event.touches.length > 1
        : event.type === "wheel" ? event.ctrlKey || event.metaKey || state.current.active : !event.button)
      .on("zoom", (event) => {
        state.current.transform = event.transform;
        setZoomed((n) => n + 1);
      });
    const target = select(canvas.current).call(behaviour).on("dblclick.zoom", null);
    state.current.zoom = (factor) => target.call(behaviour.scaleBy, factor);
    state.current.home = () => target.call(behaviour.transform, first);
    state.current.show = (cell) => {
      const { transform: t } = state.current;
      const x = t.applyX(cell.x), y = t.applyY(cell.y);
      if (x < 0 || y < 0 || x > size[0] - CELL.w || y > size[1] - CELL.h)
        target.call(behaviour.translateTo, cell.x, cell.y);
    };
    state.current.home();
    return () => target.on(".zoom", null);
  }, [size[0], size[1], map]);
  const colours = useMemo(() => canvas.current && palette(canvas.current.parentElement, [...formatsIn(data, data.nodes), ...operandFormats(data)]),
    [size[0] > 0, theme]);
  const chosen = selected?.kind === "node" ? selected : selected?.producer;
  useLayoutEffect(() => {
    if (size[0] && colours) drawMap(canvas.current, map, colours, state.current.transform, by, focus, chosen);
  }, [zoomed, focus, chosen, by, colours, map, size[0], size[1]]);
  const at = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const [x, y] = state.current.transform.invert([event.clientX - box.left, event.clientY - box.top]);
    return map.list.find((c) => x >= c.x - 2 && x <= c.x + CELL.w + 2 && y >= c.y - 1 && y <= c.y + CELL.h + 1)?.node ?? null;
  };
  return { focus, setFocus, state, at };
}

export function Network() {
  const { data } = usePage();
  return data.nodes.length ? <NodeMap /> : null;
}

function NodeMap() {
  const { data, selected, open, printing } = usePage();
  const canvas = useRef();
  const [by, setBy] = useState("format");
  const size = useSize(canvas);
  const aspect = size[1] ? Math.round((10 * size[0]) / size[1]) / 10 : 2.5;
  const map = useMemo(() => layOut(data.nodes, data.levels, aspect), [data, aspect]);
  const { focus, setFocus, state, at } = useMap(canvas, size, map, by);
  const onKeyDown = (event) => {
    const from = focus ?? (selected?.kind === "node" ? selected : null);
    if (event.key === "Enter" && from) open(from);
    else if (event.key === "+" || event.key === "=") state.current.zoom(1.5);
    else if (event.key === "-") state.current.zoom(1 / 1.5);
    else if (event.key === "0") state.current.home();
    else if (event.key.startsWith("Arrow")) {
      const next = from ? step(map, from, event.key) : data.nodes[0];
      if (next) {
        setFocus(next);
        state.current.show(map.cells.get(next));
      }
    } else return;
    event.preventDefault();
  };
  return (
    <Section id="network" title="Network"
      note={`${plural(data.nodes.length, "node")} with floats in ${plural(data.levels, "level")}, read like text: inputs at the top left.${printing ? "" : " A node opens at a click; arrow keys go along its edges, Enter opens. Drag to move, + and − to zoom."}`}
      tools={<>
        {data.compared && <Choice label="Colour by" value={by} onChange={setBy} options={[["format", "Format"], ["error", "Error"]]} />}
        <div class="choice" role="group" aria-label="Zoom">
          <button type="button" aria-label="Zoom in" onClick={() => state.current.zoom(1.5)}>+</button>
          <button type="button" aria-label="Zoom out" onClick={() => state.current.zoom(1 / 1.5)}>−</button>
          <button type="button" onClick={() => state.current.home()}>All</button>
        </div></>}>
      <div class="map">
        <canvas ref={canvas} class={data.nodes.length < 60 ? "small" : ""} tabIndex={0} role="application" aria-roledescription="map of the network"
          aria-label={`Network of ${plural(data.nodes.length, "node")}. Arrow keys move from node to node, Enter opens one.`}
          onKeyDown={onKeyDown} onFocus={() => { state.current.active = true; }}
          onBlur={() => { state.current.active = false; setFocus(null); }}
          onPointerMove={(event) => { if (!event.buttons) setFocus(at(event)); }} onPointerLeave={() => setFocus(null)}
          onClick={(event) => { const node = focus ?? at(event); if (node) open(node); }} />
        <p class="map-status" role="status">{focus ? describe(focus) : ""}</p>
      </div>
      <ul class="legend">
        {by === "format" ? <>{formatsIn(data, data.nodes).map((format) => <li key={format}><Format name={format} /></li>)}
            {operandFormats(data).map((format) => <li key={`operands ${format}`}><Format name={format} /> operands, at the left of a node</li>)}</>
          : <>{["≤ 1e−5", "≤ 1e−4", "≤ 1e−3", "≤ 1e−2", "> 1e−2"].map((text, k) => (
            <li key={text}><i class="swatch" style={{ background: `var(--error-${k})` }} />{text}</li>))}<li><i class="swatch" style={{ background: "var(--line)" }} />not compared</li></>}
      </ul>
    </Section>
  );
}

// ---- What is around one node ----

const MOST_AROUND = 40;
const BOX = { w: 132, h: 34 };

function around(node, hops) {
  const found = new Set([node]);
  let edge = [node];
  for (let k = 0; k < hops && found.size < MOST_AROUND; k++) {
    const next = [];
    for (const n of edge)
      for (const other of [...n.predecessors, ...n.successors])
        if (!found.has(other) && found.size < MOST_AROUND) {
          found.add(other);
          next.push(other);
        }
    edge = next;
  }
  return found;
}

function layOutAround(nodes) {
  const g = new dagre.graphlib.Graph();
  g.setGraph({ rankdir: "TB", nodesep: 14, ranksep: 26, marginx: 4, marginy: 4 });
  g.setDefaultEdgeLabel(() => ({}));
  for (const n of nodes) g.setNode(String(n.index), { width: BOX.w, height: BOX.h, node: n });
  for (const n of nodes) for (const next of n.successors)
    if (nodes.has(next)) g.setEdge(String(n.index), String(next.index));
  dagre.layout(g);
  return g;
}

const cutEnd = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const cut = (text, most) => (text.length > most ? `…${text.slice(1 - most)}` : text);

export function Neighbourhood({ node }) {
  const [hops, setHops] = useState(1);
  const nodes = useMemo(() => around(node, hops), [node, hops]);
  const g = useMemo(() => layOutAround(nodes), [nodes]);
  const { width, height } = g.graph();
  const left = [...new Set([...node.predecessors, ...node.successors])].filter((n) => !nodes.has(n)).length;
  return (
    <div>
      <div class="section-head"><h3>Around it</h3>
        <Choice label="How far" value={hops} onChange={setHops} options={[[1, "1 step"], [2, "2"], [3, "3"]]} /></div>
      <div class="scroll-x around" tabIndex={0} role="region" aria-label="Nodes around it">
        <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label={`${plural(nodes.size, "node")} around ${shown(node.label)}`}>
          {g.edges().map((e) => {
            const { points } = g.edge(e);
            return <path key={`${e.v}-${e.w}`} class="edge" d={`M${points.map((p) => `${p.x},${p.y}`).join("L")}`} />;
          })}
          {g.nodes().map((id) => {
            const { x, y, node: n } = g.node(id);
            return (
              <a key={id} href={hashOf(n)} aria-label={describe(n)} aria-current={n === node ? "true" : undefined}>
                <rect x={x - BOX.w / 2} y={y - BOX.h / 2} width={BOX.w} height={BOX.h} rx="5" class={n === node ? "box here" : "box"} />
                <rect x={x - BOX.w / 2} y={y - BOX.h / 2 + 4} width="4" height={BOX.h - 8} rx="2" fill={colour(n.format)} />
                <text x={x - BOX.w / 2 + 10} y={y - 3} class="op">{cutEnd(shown(n.op), 16)}</text>
                <text x={x - BOX.w / 2 + 10} y={y + 10} class="sub">{cut(shown(n.label), 19)}</text>
                <title>{describe(n)}</title>
              </a>
            );
          })}
        </svg>
      </div>
      {left > 0 && <p class="caption">{count(left)} more neighbours are not drawn.</p>}
    </div>
  );
}
