/** What two texts have in common: the greedy algorithm of Myers (1986), over words or lines. */

export type Piece = [kind: "same" | "out" | "in", text: string];

const MOST_CHANGES = 1_500;

/** The pieces that lead from one text to the other. */
export function differing(one: string, other: string): Piece[] {
  const big = one.length + other.length > 40_000;
  const cut = big ? /(?<=\n)/ : /(?<=\s)(?=\S)/;
  const a = one.split(cut);
  const b = other.split(cut);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const inner = middle(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const pieces: Piece[] = [
    ["same", a.slice(0, start).join("")],
    ...inner,
    ["same", a.slice(a.length - end).join("")],
  ];
  return joined(pieces.filter(([, text]) => text !== ""));
}

function middle(a: string[], b: string[]): Piece[] {
  const trace = shortest(a, b);
  if (!trace) return [["out", a.join("")], ["in", b.join("")]];
  const pieces: Piece[] = [];
  let x = a.length;
  let y = b.length;
  for (let d = trace.length - 1; d >= 0; d--) {
    const at = trace[d]!;
    const k = x - y;
    const down = k === -d || (k !== d && (at.get(k - 1) ?? -1) < (at.get(k + 1) ?? -1));
    const before = down ? k + 1 : k - 1;
    const x0 = at.get(before) ?? 0;
    const y0 = x0 - before;
    while (x > x0 && y > y0 && x > 0 && y > 0) {
      pieces.push(["same", a[--x] ?? ""]);
      y--;
    }
    if (d === 0) break;
    if (down) pieces.push(["in", b[--y] ?? ""]);
    else pieces.push(["out", a[--x] ?? ""]);
  }
  return pieces.reverse();
}

/** How far each diagonal was reached with 0, 1, 2 … changes; null when there are too many. */
function shortest(a: string[], b: string[]): Map<number, number>[] | null {
  const furthest = new Map<number, number>([[1, 0]]);
  const trace: Map<number, number>[] = [];
  for (let d = 0; d <= Math.min(a.length + b.length, MOST_CHANGES); d++) {
    trace.push(new Map(furthest));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (furthest.get(k - 1) ?? -1) < (furthest.get(k + 1) ?? -1));
      let x = down ? (furthest.get(k + 1) ?? 0) : (furthest.get(k - 1) ?? 0) + 1;
      while (x < a.length && x - k < b.length && x - k >= 0 && a[x] === b[x - k]) x++;
      furthest.set(k, x);
      if (x >= a.length && x - k >= b.length) return trace;
    }
  }
  return null;
}

function joined(pieces: Piece[]): Piece[] {
  const found: Piece[] = [];
  for (const [kind, text] of pieces) {
    const last = found.at(-1);
    if (last && last[0] === kind) last[1] += text;
    else found.push([kind, text]);
  }
  return found;
}
