// Small parts that everything else is made of.
import * as Plot from "@observablehq/plot";
import { createContext } from "preact";
import { useContext, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { shown } from "./text.js";

// { data, selected, open(item), close(), theme, printing }
export const Page = createContext(null);
export const usePage = () => useContext(Page);

const known = ["fp64", "fp32", "tf32", "bf16", "fp16", "fp8e4m3fn", "fp8e4m3fnuz", "fp8e5m2",
  "fp8e5m2fnuz", "fp4e2m1"];
export const colour = (format) => `var(--${known.includes(format) ? format : "other"})`;

export const Format = ({ name }) => (
  <span class="format"><i style={{ background: colour(name) }} />{shown(name)}</span>
);

export const Name = ({ children }) => <span class="name"><bdi>{shown(children)}</bdi></span>;

export const hashOf = (item) => `#${item.kind}=${encodeURIComponent(item.label)}`;

// A name that is cut in its middle where it does not fit: what tells names apart is mostly their end.
const TAIL = 24;

function CutName({ children }) {
  const name = shown(children);
  const letters = [...name];
  if (letters.length <= TAIL) return <span class="name" title={name}><bdi>{name}</bdi></span>;
  return <span class="name cut" title={name}><bdi class="head">{letters.slice(0, -TAIL).join("")}</bdi><span
    class="tail"><bdi>{letters.slice(-TAIL).join("")}</bdi></span></span>;
}

// A link that opens a node or tensor beside the page.
export function Open({ item, cut, children }) {
  return <a class="open" href={hashOf(item)}>{children ?? (cut ? <CutName>{item.label}</CutName> : <Name>{item.label}</Name>)}</a>;
}

// The tensor of that label, if the plan has it.
export function OpenLabel({ label }) {
  const { data } = usePage();
  const tensor = data.byLabel.get(label);
  return tensor ? <Open item={tensor} /> : <Name>{label}</Name>;
}

export function Section({ id, title, note, children, tools }) {
  return (
    <section id={id} aria-labelledby={`${id}-title`}>
      <header class="section-head">
        <h2 id={`${id}-title`}>{title}</h2>
        {tools}
      </header>
      {note && <p class="note">{note}</p>}
      {children}
    </section>
  );
}

// [width, height] of what `place` holds. Measured before the first painting, so that a page that is
// painted once (a print, a screenshot) is whole, and again whenever it changes.
export function useSize(place) {
  const [size, setSize] = useState([0, 0]);
  useLayoutEffect(() => {
    const measure = () => {
      const { clientWidth, clientHeight } = place.current;
      setSize((last) => (last[0] === clientWidth && last[1] === clientHeight ? last : [clientWidth, clientHeight]));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(place.current);
    return () => observer.disconnect();
  }, []);
  return size;
}

// A chart of Observable Plot, as wide as its place. `draw(width)` gives the options; the label says
// in words what it shows.
export function Chart({ draw, label, depends = [], onDraw }) {
  const place = useRef();
  const [width] = useSize(place);
  useLayoutEffect(() => {
    if (width < 40) return;
    const chart = Plot.plot({ width, style: { fontFamily: "inherit", fontSize: "11px" }, ...draw(width) });
    chart.setAttribute("aria-hidden", "true");
    place.current.replaceChildren(chart);
    onDraw?.(chart);
  }, [width, ...depends]);
  return <div class="chart" ref={place} role="img" aria-label={label} />;
}

// Toggles of which one is on.
export function Choice({ label, options, value, onChange }) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map(([key, text]) => (
        <button key={key} type="button" aria-pressed={key === value} onClick={() => onChange(key)}>
          {text}
        </button>
      ))}
    </div>
  );
}

// True while the page is being printed: tables then show their first rows without a scroll bar, and
// colours are those for paper, which differ in lightness too. They are set before anything is drawn.
export function usePrinting() {
  const [printing, setPrinting] = useState(false);
  useEffect(() => {
    const set = (now) => () => {
      document.documentElement.toggleAttribute("data-printing", now);
      setPrinting(now);
    };
    const begin = set(true), end = set(false);
    window.addEventListener("beforeprint", begin);
    window.addEventListener("afterprint", end);
    return () => {
      window.removeEventListener("beforeprint", begin);
      window.removeEventListener("afterprint", end);
    };
  }, []);
  return printing;
}
