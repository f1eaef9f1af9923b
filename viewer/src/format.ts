/** Numbers as people read them. */

/** A duration of so many microseconds. */
export function duration(us: number): string {
  if (us < 0) return "–";
  if (us < 1_000) return us ? `${us} µs` : "0 s";
  if (us < 1_000_000) return `${(us / 1_000).toFixed(us < 10_000 ? 1 : 0)} ms`;
  if (us < 120_000_000) return `${(us / 1_000_000).toFixed(2)} s`;
  return `${Math.floor(us / 60_000_000)} min ${Math.round((us % 60_000_000) / 1_000_000)} s`;
}

const WHOLE = new Intl.NumberFormat("en-US");
const CENTS = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** A whole number with its thousands apart; a dash for what is not known. */
export function count(value: number): string {
  return value < 0 ? "–" : WHOLE.format(value);
}

/** `part` of `whole` in percent. */
export function share(part: number, whole: number): string {
  if (whole <= 0) return "–";
  const percent = (100 * part) / whole;
  return percent > 0 && percent < 0.05 ? "<0.1%" : `${percent.toFixed(1)}%`;
}

/** Money, recorded in millionths: cents and more, or the first three digits of less than a dollar. */
export function money(millionths: number): string {
  if (millionths < 0) return "unknown";
  if (!millionths) return "$0";
  if (millionths >= 1_000_000) return `$${CENTS.format(millionths / 1_000_000)}`;
  const places = Math.min(6, Math.max(2, 9 - String(millionths).length));
  return `$${(millionths / 1_000_000).toFixed(places).replace(/(\.\d\d+?)0+$/, "$1")}`;
}

/** A sum of money, of which the cost of `unknown` calls is not known. */
export function total(millionths: number, unknown: number): string {
  if (!unknown) return money(millionths);
  return millionths > 0 ? `at least ${money(millionths)}` : "unknown";
}

/** "1 call", "2 calls". */
export function many(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}
