// The page: what the files say is joined once (data.js); what is open beside the page is in the
// address, so that a link to this file can point at a tensor, and Back closes it.
import * as Plot from "@observablehq/plot";
import { render } from "preact";
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { formatsIn, lostShare, load } from "./data.js";
import { Details } from "./details.jsx";
import { Updates, worstLost } from "./histogram.jsx";
import { Network } from "./network.jsx";
import { Chart, Format, Open, Page, Section, colour, usePage, usePrinting } from "./parts.jsx";
import { Claims, Cost, Figures, Limits, Promotions, Provenance, Reasons, Verdict, Weights, verdictText } from "./summary.jsx";
import { Nodes, Tensors, noFilter } from "./table.jsx";
import { count, number, plural, share, shown } from "./text.js";

// ---- Error along the depth ----

const MOST_DOTS = 1500;

// Of many values, those with the largest error in each of some columns and format.
function thinned(tensors, levels) {
  if (tensors.length <= MOST_DOTS) return tensors;
  const columns = Math.min(levels, 400);
  const largest = new Map();
  for (const tensor of tensors) {
    const key = `${Math.floor((tensor.level * columns) / (levels + 1))} ${tensor.format}`;
    if (!(largest.get(key)?.error >= tensor.error)) largest.set(key, tensor);
  }
  return [...largest.values()];
}

// Powers of ten; where there are few of them, twice and five times as well.
function logTick(rows) {
  const errors = rows.map((t) => t.error);
  const few = Math.max(...errors) / Math.min(...errors) < 200;
  return (v) => {
    const digit = Number(v.toExponential(0)[0]);
    return digit === 1 || (few && (digit === 2 || digit === 5)) ? v.toExponential(0).replace("-", "−") : "";
  };
}

// At most about ten; between two levels there is nothing to name.
function wholeTicks(levels) {
  const first = Math.min(...levels), last = Math.max(...levels);
  const steps = [1, 2, 5].flatMap((digit) => Array.from({ length: 9 }, (_, power) => digit * 10 ** power));
  const step = Math.min(...steps.filter((step) => (last - first) / step <= 10));
  const ticks = [];
  for (let tick = Math.ceil(first / step) * step; tick <= last; tick += step) ticks.push(tick);
  return ticks;
}

function Depth() {
  const { data, open } = usePage();
  const all = useMemo(() => data.tensors.filter((t) => t.error > 0 && Number.isFinite(t.error)), [data]);
  const rows = useMemo(() => thinned(all, data.levels), [all]);
  if (!data.compared) return null;
  const exact = data.tensors.filter((t) => t.error === 0).length;
  const worst = all.reduce((most, t) => (!most || t.error > most.error ? t : most), null);
  const note = worst
    ? <>Relative L2 error of {plural(all.length, "tensor")} beside fp32, by level of the node that makes them{exact > 0 && `; ${count(exact)} more are exact`}. Largest: <Open item={worst} /> with {number(worst.error)}.</>
    : `All ${plural(exact, "compared tensor")} are exactly as in fp32.`;
  return (
    <Section id="depth" title="Error along the depth" note={note}>
      {worst && <Chart label={`Relative L2 error by level, from ${number(Math.min(...rows.map((t) => t.error)))} to ${number(worst.error)}`}
        depends={[rows]}
        onDraw={(chart) => chart.addEventListener("click", () => { if (chart.value) open(chart.value); })}
        draw={(width) => ({
          height: Math.max(200, Math.min(300, width / 3.4)), marginLeft: 56, marginBottom: 34, marginRight: 16,
          x: { label: "level", ticks: wholeTicks(rows.map((t) => t.level)), tickFormat: "d" },
          y: { type: "log", label: null, grid: true, ticks: 5, tickFormat: logTick(rows) },
          marks: [
            Plot.dot(rows, { x: "level", y: "error", r: rows.length > 400 ? 2.2 : 3.2, fill: (t) => colour(t.format), stroke: "var(--outline)", strokeWidth: 0.6 }),
            Plot.dot(rows, Plot.pointer({ x: "level", y: "error", r: 6, stroke: "var(--fg)", strokeWidth: 1.5 })),
            Plot.text(rows, Plot.pointer({ px: "level", py: "error", frameAnchor: "top-left", dx: 4, dy: 2, text: (t) => `${shown(t.label).slice(-60)}  ${number(t.error)}`, fill: "currentColor", stroke: "var(--panel)", strokeWidth: 4, fontSize: 12 })),
          ],
        })} />}
      <ul class="legend">{formatsIn(data, all).map((format) => <li key={format}><Format name={format} /></li>)}</ul>
    </Section>
  );
}

// ---- Updates ----

const MOST_SITES = 12;

function UpdateSites() {
  const { data } = usePage();
  const sites = useMemo(() => data.sites.filter((site) => site.updates)
    .map((site) => ({ site, lost: worstLost(data, site) }))
    .sort((a, b) => b.lost - a.lost), [data]);
  if (!sites.length) return null;
  return (
    <Section id="updates" title="Updates against steps"
      note={`Where something small is added into something larger: ${plural(sites.length, "site")} were watched. An update below one step of the format is partly or wholly lost.`}>
      <div class="two">
        <div><h3>All sites together</h3><Updates data={data} sites={data.sites} height={200} /></div>
        <div><h3>Most lost, in the format it is stored in</h3>
          <div class="scroll-x" tabIndex={0} role="region" aria-label="Sites that lose most"><table class="plain">
            <thead><tr><th>Result</th><th>Kind</th><th>Format</th><th class="num">Lost</th><th class="num">In fp16</th><th class="num">In bf16</th></tr></thead>
            <tbody>{sites.slice(0, MOST_SITES).map(({ site, lost }) => (
              <tr key={site.index}><td>{site.tensor ? <Open item={site.tensor} /> : shown(site.label)}</td>
                <td>{shown(site.kind.replaceAll("_", " "))}</td><td><Format name={site.tensor?.format ?? "fp32"} /></td>
                <td class="num">{share(lost)}</td><td class="num">{share(lostShare(site, 10))}</td><td class="num">{share(lostShare(site, 7))}</td></tr>))}</tbody>
          </table></div></div>
      </div>
    </Section>
  );
}

// ---- The page ----

const sections = [["claims", "Claims"], ["cost", "Cost"], ["depth", "Error"], ["network", "Network"], ["nodes", "Nodes"],
  ["tensors", "Tensors"], ["updates", "Updates"], ["provenance", "Provenance"]];

function useTheme() {
  const [theme, setTheme] = useState("auto");
  const dark = useMemo(() => window.matchMedia("(prefers-color-scheme: dark)"), []);
  const [isDark, setIsDark] = useState(dark.matches);
  useEffect(() => {
    const change = () => setIsDark(dark.matches);
    dark.addEventListener("change", change);
    return () => dark.removeEventListener("change", change);
  }, []);
  useEffect(() => { document.documentElement.dataset.theme = theme; }, [theme]);
  return [theme, setTheme, `${theme} ${isDark}`];
}

function Bar({ data, theme, setTheme }) {
  const [tone, mark] = verdictText(data);
  const [there, setThere] = useState([]);
  useEffect(() => setThere(sections.filter(([id]) => document.getElementById(id))), []);
  const next = { auto: "dark", dark: "light", light: "auto" };
  return (
    <header class="bar">
      <a class="title" href="#"><span class={`dot ${tone}`} aria-hidden="true">{mark}</span><span class="name"><bdi>{shown(data.title)}</bdi></span></a>
      <nav aria-label="Sections">{there.map(([id, text]) => <a key={id} href={`#${id}`}>{text}</a>)}</nav>
      <button type="button" class="theme" onClick={() => setTheme(next[theme])} title="Colours of the page">Theme: {theme}</button>
    </header>
  );
}

function itemOf(data, hash) {
  const match = hash.match(/^#(node|tensor)=(.*)$/s);
  if (!match) return null;
  let label;
  try {
    label = decodeURIComponent(match[2]);
  } catch {
    return null;
  }
  return match[1] === "tensor" ? data.byLabel.get(label) ?? null : data.nodes.find((node) => node.label === label) ?? null;
}

function useSelected(data) {
  const [selected, setSelected] = useState(() => itemOf(data, location.hash));
  const [from, setFrom] = useState(null);
  useEffect(() => {
    const change = () => {
      const item = itemOf(data, location.hash);
      if (item && !document.activeElement?.closest(".details")) setFrom(document.activeElement);
      if (item || location.hash === "#-" || !location.hash) setSelected(item);
    };
    window.addEventListener("hashchange", change);
    return () => window.removeEventListener("hashchange", change);
  }, [data]);
  const open = useCallback((item) => { location.hash = `#${item.kind}=${encodeURIComponent(item.label)}`; }, []);
  const close = useCallback(() => {
    history.replaceState(null, "", "#-");
    setSelected(null);
    if (from?.isConnected) from.focus();
  }, [from]);
  return { selected, open, close };
}

function Report({ data }) {
  const { selected, open, close } = useSelected(data);
  const [theme, setTheme, shade] = useTheme();
  const [nodeFilter, setNodeFilter] = useState(noFilter);
  const printing = usePrinting();
  const page = useMemo(() => ({ data, selected, open, close, theme: `${shade} ${printing}`, printing }),
    [data, selected, open, close, shade, printing]);
  const showReason = (reason) => {
    setNodeFilter({ ...noFilter, formats: ["fp32"], reason });
    document.getElementById("nodes").scrollIntoView({ behavior: "smooth" });
  };
  return (
    <Page.Provider value={page}>
      <Bar data={data} theme={theme} setTheme={setTheme} />
      <div class={`layout ${selected ? "with-details" : ""}`}>
        <main>
          <Verdict />
          <Figures />
          <Claims />
          <Limits />
          <Cost />
          <div class="two pair"><Reasons onReason={showReason} /><Promotions /></div>
          <Depth />
          <Network />
          <Nodes filter={nodeFilter} setFilter={setNodeFilter} />
          <Tensors />
          <UpdateSites />
          <Weights />
          <Provenance />
        </main>
        {selected && <Details item={selected} close={close} />}
      </div>
    </Page.Provider>
  );
}

const data = load();
document.title = `${shown(data.title)}: ${verdictText(data)[2]}`;
const root = document.getElementById("page");
root.textContent = "";
render(<Report data={data} />, root);
