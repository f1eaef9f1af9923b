/** The calls of a run by the functions that made them, as a tree. */

import { isOwnFailure } from "./outcome";
import type { Table } from "./table";

/** A function, or what it calls; `rows` are the calls that stand at it, in the order of the run. */
export interface Group {
  name: string;
  depth: number;
  rows: number[];
  below: Map<string, Group>;
  /** Each activation's first start and last end. */
  activations: Map<string, [number, number]>;
  calls: number;
  failed: number;
  prompt: number;
  completion: number;
  cost: number;
  unknown: number;
  last: number;
}

const DEEPEST = 60;

function empty(name: string, depth: number): Group {
  return {
    name, depth, rows: [], below: new Map(), activations: new Map(), calls: 0, failed: 0, prompt: 0,
    completion: 0, cost: 0, unknown: 0, last: -1,
  };
}

/**
 * The tree of a table's calls; its root stands for the run. Activations of a function are one
 * group, or, where `each` is true, each has its own.
 */
export function grouped(table: Table, each: boolean): Group {
  const root = empty("", -1);
  for (let row = 0; row < table.size; row++) {
    const address = table.address[row] ?? "";
    let group = root;
    add(table, root, "", row);
    let end = 0;
    for (let depth = 0; end >= 0 && depth < DEEPEST; depth++) {
      const start = end + 1;
      end = address.indexOf("/", start);
      const leaf = end < 0 ? address.slice(start) : address.slice(start, end);
      const name = each ? leaf : leaf.replace(/\.\d+$/, "");
      let below = group.below.get(name);
      if (!below) group.below.set(name, (below = empty(name, depth)));
      group = below;
      add(table, group, end < 0 ? address : address.slice(0, end), row);
    }
    group.rows.push(row);
  }
  if (each) for (const address of table.scopeAt.keys()) addScope(root, address);
  return root;
}

/** Adds a function that made no call. */
function addScope(root: Group, address: string): void {
  let group = root, at = "";
  for (const [depth, name] of address.slice(1).split("/").slice(0, DEEPEST).entries()) {
    at += `/${name}`;
    let below = group.below.get(name);
    if (!below) {
      group.below.set(name, (below = empty(name, depth)));
      below.activations.set(at, [-1, -1]);
    }
    group = below;
  }
}

function add(table: Table, group: Group, activation: string, row: number): void {
  const started = table.get("started", row);
  const ended = table.get("ended", row);
  const cost = table.get("cost", row);
  group.calls++;
  group.failed += Number(isOwnFailure(table.get("outcome", row)));
  group.prompt += Math.max(0, table.get("prompt", row));
  group.completion += Math.max(0, table.get("completion", row));
  if (cost >= 0) group.cost += cost;
  else group.unknown += Number(table.answered(row));
  if (group.last < 0 || ended >= table.get("ended", group.last)) group.last = row;
  const known = group.activations.get(activation);
  if (!known) group.activations.set(activation, [started, ended]);
  else {
    if (started >= 0 && (known[0] < 0 || started < known[0])) known[0] = started;
    known[1] = Math.max(known[1], ended);
  }
}

/** The durations of a group's activations in microseconds, shortest first. */
export function durations(group: Group): number[] {
  const found: number[] = [];
  for (const [start, end] of group.activations.values()) {
    if (start >= 0 && end >= start) found.push(end - start);
  }
  return found.sort((one, other) => one - other);
}

/** The value below which a share of sorted values lies (nearest rank); -1 of none. */
export function percentile(sorted: number[], part: number): number {
  return sorted.length ? (sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? -1) : -1;
}
