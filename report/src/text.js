// Numbers and names as text.

// The file's numbers are numbers, or "inf", "-inf" and "nan".
export function toNumber(x) {
  if (typeof x === "number") return x;
  return { inf: Infinity, "-inf": -Infinity }[x] ?? NaN;
}

export function number(x, digits = 3) {
  if (x === undefined || Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return x < 0 ? "−∞" : "∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-3) return minus(x.toExponential(digits - 1).replace("e+", "e"));
  return minus(String(Number(x.toPrecision(digits))));
}

// With as many more digits as show on which side of the limit it is; of the limit itself, all.
export function beside(x, limit, digits) {
  const side = (y) => Math.sign(y - limit);
  while (digits < 17 && Number.isFinite(x) && Number.isFinite(limit) && side(Number(x.toPrecision(digits))) !== side(x)) digits++;
  return number(x, digits);
}

const minus = (text) => text.replaceAll("-", "−");

// How often a value may grow; beyond a million that is no limit, as the command line has it.
export const growth = (factor) => (factor > 1e6 ? ">1e6×" : `${number(factor)}×`);

export const count = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");

export function share(x) {
  if (x === undefined || Number.isNaN(x)) return "–";
  if (x === 0) return "0";
  if (x < 1e-4) return "<\u202f0.01\u202f%";
  return `${Number((100 * x).toPrecision(3))}\u202f%`;
}

function withUnit(x, units, factor, least) {
  let unit = 0;
  while (unit + 1 < units.length && Math.abs(x) >= least * factor) {
    x /= factor;
    unit++;
  }
  return `${number(x)}\u202f${units[unit]}`;
}
export const bytes = (n) => withUnit(n, ["B", "KiB", "MiB", "GiB", "TiB"], 1024, 1);
export const seconds = (s) => withUnit(s * 1e9, ["ns", "µs", "ms", "s"], 1000, 1);

export const power = (exponent) => `2${superscript(exponent)}`;
const superscript = (n) =>
  String(n).replace(/[-0-9]/g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)]));

export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

// A name from a model: what cannot be seen, or would turn the text around, is spelt out. U+EF80 to
// U+EFFF stand for bytes that are not UTF-8 (see json.h).
export function shown(name) {
  if (!name) return "(no name)";
  return name.replace(
    /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\uef80-\uefff]/g,
    (c) => {
      const code = c.charCodeAt(0);
      return code >= 0xef80 && code <= 0xefff
        ? `\\x${(code - 0xef00).toString(16)}`
        : `\\u{${code.toString(16)}}`;
    },
  );
}
