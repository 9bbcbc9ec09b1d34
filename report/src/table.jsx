// The tables of nodes and tensors: sorted, filtered and searched by TanStack Table; only the rows
// that can be seen are in the page (TanStack Virtual), so that 20,000 are no more work than 20.
import {
  getCoreRowModel, getFilteredRowModel, getSortedRowModel, useReactTable,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useDeferredValue } from "preact/compat";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { formatsIn, formatsOf, isTf32, reasonText } from "./data.js";
import { Spark, narrowest } from "./histogram.jsx";
import { Format, Open, Section, hashOf, usePage } from "./parts.jsx";
import { count, growth, number, power, seconds, share, shown } from "./text.js";

const ROW = 34;
const ROW_PADDING = 12;
const MOST_PRINTED = 200;
const known = (x) => (x === undefined || Number.isNaN(x) ? undefined : x);

const numeric = (id, header, get, show = number, extra = {}) => ({
  id, header, accessorFn: (item) => known(get(item)), cell: (c) => show(c.getValue()),
  sortingFn: "basic", sortUndefined: "last", sortDescFirst: true, meta: { num: true, ...extra },
});
const text = (id, header, get, show, extra = {}) => ({
  id, header, accessorFn: get, cell: show ?? ((c) => shown(c.getValue() || "–")), sortingFn: "basic",
  sortDescFirst: false, meta: extra,
});

function tensorColumns(data) {
  const columns = [
    text("name", "Tensor", (t) => t.label, (c) => <Open item={c.row.original} cut />, { width: "minmax(150px, 3fr)", className: "lead", print: 190 }),
    text("format", "Format", (t) => t.format, (c) => <Format name={c.getValue()} />, { width: "82px" }),
    data.trace && { id: "range", header: "Magnitudes", enableSorting: false, accessorFn: () => "",
      cell: (c) => <Spark tensor={c.row.original} format={data.formats.get(narrowest(data))} />, meta: { width: "112px" } },
    numeric("absmax", "Largest", (t) => t.absmax, number, { width: "86px" }),
    numeric("headroom", "Headroom", (t) => t.headroom, (x) => x === undefined ? "–" : growth(x), { width: "98px" }),
    data.tensors.some((t) => t.scale) && numeric("scale", "Scale", (t) => t.scale, (x) => x ? power(x) : "–", { width: "70px" }),
    numeric("zero", "To zero", (t) => t.zero, share, { width: "84px" }),
    numeric("subnormal", "Subnormal", (t) => t.subnormal, share, { width: "100px" }),
    data.compared && numeric("error", "Error", (t) => t.error, number, { width: "86px" }),
    numeric("sqnr", "SQNR, dB", (t) => t.sqnr, number, { width: "92px" }),
    data.sites.length > 0 && numeric("lost", "Lost updates", (t) => t.lost, share, { width: "116px" }),
    text("reason", "Note", (t) => t.reason ?? "", (c) => c.getValue() ? reasonText(data, c.getValue()) : "", { width: "minmax(180px, 2fr)", className: "quiet wraps" }),
  ];
  return columns.filter(Boolean);
}

function nodeColumns(data) {
  const timed = !isTf32(data) && data.nodes.some((node) => node.before > 0);
  return [
    numeric("index", "#", (n) => n.index + 1, String, { width: "50px" }),
    text("name", "Node", (n) => n.label, (c) => <Open item={c.row.original} cut />, { width: "minmax(124px, 2.6fr)", className: "lead", print: 150 }),
    text("op", "Operator", (n) => n.op, undefined, { width: "minmax(96px, 1.5fr)", print: 156 }),
    text("format", "Format", (n) => n.format, (c) => <Format name={c.getValue()} />, { width: "76px" }),
    data.nodes.some((n) => n.operands) && text("operands", "Operands", (n) => n.operands ?? "", (c) => c.getValue() ? <Format name={c.getValue()} /> : "", { width: "104px" }),
    text("class", "Class", (n) => n.class, undefined, { width: "62px" }),
    timed && numeric("before", "In fp32", (n) => n.before, (x) => x > 0 ? seconds(x) : "–", { width: "70px", title: "modelled time in fp32" }),
    timed && numeric("after", "Planned", (n) => n.after, (x) => x > 0 ? seconds(x) : "–", { width: "78px", title: "modelled time as planned" }),
    data.compared && numeric("error", "Error", (n) => n.error, number, { width: "82px", title: "relative L2 of its outputs" }),
    text("rule", "Rule", (n) => n.rule, undefined, { width: "minmax(80px, 1.4fr)", className: "quiet", print: 124 }),
    !isTf32(data) && text("reason", "Why not narrower", (n) => n.reason ?? "", (c) => c.getValue() ? reasonText(data, c.getValue()) : "", { width: "minmax(170px, 2.5fr)", className: "quiet wraps" }),
  ].filter(Boolean);
}

const haystack = (item) => `${item.label}\n${item.op ?? ""}\n${item.rule ?? ""}`.toLowerCase();

function matches(item, { search, formats, reason }) {
  if (formats.length && !formatsOf(item).some((format) => formats.includes(format))) return false;
  if (reason && item.reason !== reason) return false;
  return !search || haystack(item).includes(search);
}

function Filters({ id, items, noun, filter, setFilter, found }) {
  const { data } = usePage();
  const formats = useMemo(() => formatsIn(data, items.flatMap(formatsOf).map((format) => ({ format }))), [items]);
  const reasons = useMemo(() => [...new Set(items.map((item) => item.reason).filter(Boolean))].sort(), [items]);
  const toggle = (format) => setFilter({
    ...filter,
    formats: filter.formats.includes(format) ? filter.formats.filter((f) => f !== format) : [...filter.formats, format],
  });
  return (
    <div class="filters">
      <input id={`${id}-search`} type="search" placeholder={`Search ${noun}s`} aria-label={`Search ${noun}s`}
        value={filter.search} onInput={(event) => setFilter({ ...filter, search: event.currentTarget.value })} />
      <div class="chips" role="group" aria-label="Formats shown">
        {formats.map((format) => (
          <button key={format} type="button" aria-pressed={filter.formats.includes(format)} onClick={() => toggle(format)}>
            <Format name={format} /></button>
        ))}
      </div>
      {reasons.length > 0 && (
        <select aria-label="Reason" value={filter.reason} onChange={(event) => setFilter({ ...filter, reason: event.currentTarget.value })}>
          <option value="">Any reason</option>
          {reasons.map((reason) => <option key={reason} value={reason}>{reasonText(data, reason)}</option>)}
        </select>
      )}
      <span class="found" role="status">{found === items.length ? `${count(found)} ${noun}${found === 1 ? "" : "s"}` : `${count(found)} of ${count(items.length)}`}</span>
    </div>
  );
}

const leastWidth = ({ columnDef }) => parseInt((columnDef.meta?.width ?? "100px").replace("minmax(", ""), 10);
const paperWidth = (column) => column.columnDef.meta?.print ?? leastWidth(column);

// On paper without buttons: Chromium repeats no head with a button in it on the next page.
function Header({ header, table }) {
  const { printing } = usePage();
  const { column } = header;
  const sorted = column.getIsSorted();
  const { num, title } = column.columnDef.meta ?? {};
  const sum = table.getVisibleLeafColumns().reduce((total, other) => total + paperWidth(other), 0);
  return (
    <div role="columnheader" class={num ? "num" : ""} title={title} style={{ "--on-paper": `${(100 * paperWidth(column)) / sum}%` }}
      aria-sort={sorted ? (sorted === "asc" ? "ascending" : "descending") : column.getCanSort() ? "none" : undefined}>
      {column.getCanSort() && !printing
        ? <button type="button" onClick={column.getToggleSortingHandler()}>{column.columnDef.header}
          <span class="arrow" aria-hidden="true">{sorted === "asc" ? "↑" : sorted === "desc" ? "↓" : ""}</span></button>
        : `${column.columnDef.header}${printing && sorted ? (sorted === "asc" ? " ↑" : " ↓") : ""}`}
    </div>
  );
}

function Row({ row, index, top, selected }) {
  return (
    <div role="row" aria-rowindex={index + 2} class={`row ${selected ? "selected" : ""}`} style={top === null ? {} : { transform: `translateY(${top}px)` }}
      onClick={(event) => { if (!event.target.closest("a, button") && !getSelection()?.toString()) location.hash = hashOf(row.original); }}>
      {row.getVisibleCells().map((cell) => {
        const { num, className } = cell.column.columnDef.meta ?? {};
        const show = cell.column.columnDef.cell;
        return <div role="cell" key={cell.id} class={`${num ? "num" : ""} ${className ?? ""}`}>{show(cell.getContext())}</div>;
      })}
    </div>
  );
}

function Grid({ table, label }) {
  const { selected, printing } = usePage();
  const scroller = useRef();
  const { rows } = table.getRowModel();
  const virtual = useVirtualizer({
    count: rows.length, getScrollElement: () => scroller.current, estimateSize: () => ROW, overscan: 12,
    scrollPaddingStart: ROW,
  });
  const leaves = table.getVisibleLeafColumns();
  const columns = leaves.map((column) => column.columnDef.meta?.width ?? "100px").join(" ");
  const minWidth = printing ? 0 : leaves.reduce((sum, column) => sum + leastWidth(column), ROW_PADDING);
  useEffect(() => { scroller.current?.scrollTo({ top: 0 }); }, [table.getState().sorting, table.getState().globalFilter]);
  // Up and down go from row to row, also to those that are not in the page yet.
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12 }[event.key];
    const at = event.target.closest?.("[aria-rowindex]");
    if (!step || !at || !event.target.matches("a")) return;
    event.preventDefault();
    const next = Math.min(rows.length - 1, Math.max(0, Number(at.getAttribute("aria-rowindex")) - 2 + step));
    virtual.scrollToIndex(next);
    requestAnimationFrame(() => requestAnimationFrame(() =>
      scroller.current?.querySelector(`[aria-rowindex="${next + 2}"] a`)?.focus({ preventScroll: true })));
  };
  const shownRows = printing
    ? rows.slice(0, MOST_PRINTED).map((row, index) => ({ row, index, top: null }))
    : virtual.getVirtualItems().map((item) => ({ row: rows[item.index], index: item.index, top: item.start })).filter(({ row }) => row);
  return (
    <div class="grid-scroll" ref={scroller} tabIndex={0} role="region" aria-label={`${label}, scrolls`} onKeyDown={onKeyDown}>
      <div role="table" aria-label={label} aria-rowcount={rows.length + 1} class="grid" style={{ "--columns": columns, minWidth: `${minWidth}px` }}>
        <div role="rowgroup" class="grid-head"><div role="row" aria-rowindex={1} class="row">
          {table.getHeaderGroups()[0].headers.map((header) => <Header key={header.id} header={header} table={table} />)}
        </div></div>
        <div role="rowgroup" class="grid-body" style={printing ? {} : { height: `${virtual.getTotalSize()}px` }}>
          {shownRows.map(({ row, index, top }) => (
            <Row key={row.id} row={row} index={index} top={top} selected={selected === row.original} />
          ))}
        </div>
      </div>
      {rows.length === 0 && <p class="nothing">Nothing matches.</p>}
      {printing && rows.length > MOST_PRINTED && <p class="note">The first {MOST_PRINTED} of {count(rows.length)}.</p>}
    </div>
  );
}

function Browser({ id, title, note, items, columns, noun, first, filter, setFilter }) {
  const [sorting, setSorting] = useState(first);
  const late = useDeferredValue(filter);
  const globalFilter = useMemo(() => ({ ...late, search: late.search.trim().toLowerCase() }), [late]);
  const table = useReactTable({
    data: items, columns, state: { sorting, globalFilter }, onSortingChange: setSorting,
    getCoreRowModel: getCoreRowModel(), getSortedRowModel: getSortedRowModel(), getFilteredRowModel: getFilteredRowModel(),
    getColumnCanGlobalFilter: (column) => column.id === "name",
    globalFilterFn: (row, _, value) => matches(row.original, value),
    getRowId: (item) => String(item.index), enableMultiSort: true,
  });
  return (
    <Section id={id} title={title} note={note}>
      <Filters id={id} items={items} noun={noun} filter={filter} setFilter={setFilter} found={table.getRowModel().rows.length} />
      <Grid table={table} label={title} />
    </Section>
  );
}

export const noFilter = { search: "", formats: [], reason: "" };

export function Nodes({ filter, setFilter }) {
  const { data } = usePage();
  const columns = useMemo(() => nodeColumns(data), [data]);
  return <Browser id="nodes" title="Nodes" noun="node" items={data.nodes} columns={columns} first={[]}
    filter={filter} setFilter={setFilter} />;
}

export function Tensors() {
  const { data } = usePage();
  const [filter, setFilter] = useState(noFilter);
  const columns = useMemo(() => tensorColumns(data), [data]);
  return <Browser id="tensors" title="Tensors" noun="tensor" items={data.tensors} columns={columns}
    first={[{ id: data.compared ? "error" : "headroom", desc: data.compared }]} filter={filter} setFilter={setFilter}
    note={`${data.trace ? `Small histograms: magnitudes from 2⁻⁴⁰ to 2²⁴ against the range of ${narrowest(data)}, red where they leave it. ` : ""}Largest, headroom, to zero, subnormal and SQNR are of the most wanted format${data.compared ? "; the error is relative L2, measured beside fp32" : ""}.`} />;
}
