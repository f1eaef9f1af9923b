/** The calls of a run as columns; what only some views need of them is made when it is asked for. */

import { NUMBERS, type Changes, type Column, type Scopes } from "./data";

/** A node of the tree: a scope, or a call (`row` is not -1). */
export interface Place {
  address: string;
  leaf: string;
  parent: number;
  depth: number;
  row: number;
  calls: number;
  below: number[];
}

const EMPTY: number[] = [];
/** Addresses deeper than this hang at the top with what is left of them. */
const DEEPEST = 200;

export class Table {
  size = 0;
  version = 0;
  strings: string[] = [];
  readonly address: string[] = [];
  readonly said: string[] = [];
  readonly scopeAt = new Map<string, string>();
  /** What functions were called with, and what they returned, by their addresses. */
  readonly given = new Map<string, string>();
  /** How many scopes and ends of functions are known. */
  ended = 0;
  private readonly returned = new Map<string, [call: string, text: string, error: string]>();
  private readonly rowAt = new Map<string, number>();
  private readonly columns: Record<Column, number[]>;
  private readonly used: number[][] = [];
  private readonly users = new Map<number, number[]>();
  /** How many rows `users` and the tree know of. */
  private known = 0;
  private planted = 0;
  private readonly tree: Place[] = [
    { address: "", leaf: "", parent: -1, depth: -1, row: -1, calls: 0, below: [] },
  ];
  private readonly placeAt = new Map<string, number>([["", 0]]);

  constructor() {
    this.columns = Object.fromEntries(NUMBERS.map((name) => [name, []])) as unknown as Record<
      Column,
      number[]
    >;
  }

  /** Takes in what has changed. */
  apply(changes: Changes): void {
    this.strings = changes.strings;
    const { rows } = changes;
    const put = <T>(column: T[], values: T[]): void => rows.forEach((row, i) => (column[row] = values[i]!));
    for (const name of NUMBERS) put(this.columns[name], changes[name]);
    put(this.address, changes.address);
    rows.forEach((row, i) => this.rowAt.set(changes.address[i] ?? "", row));
    put(this.said, changes.said);
    put(this.used, changes.uses);
    this.size = this.address.length;
    this.version++;
  }

  /** Takes in where scopes stand in the source, and the ends of functions. */
  applyScopes(scopes: Scopes): void {
    scopes.address.forEach((address, i) => {
      this.scopeAt.set(address, scopes.where[i] ?? "");
      const given = scopes.arguments[i];
      if (given) this.given.set(address, given);
    });
    this.ended += scopes.address.length + scopes.ends.length;
    for (const [address, ...end] of scopes.ends) this.returned.set(address, end);
  }

  /** What the function at an address returned, or the error that it raised; if that is recorded. */
  result(address: string): string | undefined {
    const [call, text, error] = this.returned.get(address) ?? [];
    const row = call ? this.rowAt.get(call) : undefined;
    return error || (row === undefined ? text : this.said[row]);
  }

  /** Whether the function at an address raised an error. */
  raised(address: string): boolean {
    return !!this.returned.get(address)?.[2];
  }

  get(column: Column, row: number): number {
    return this.columns[column][row] ?? -1;
  }

  text(column: "kind" | "model" | "file" | "source", row: number): string {
    return this.strings[this.get(column, row)] ?? "";
  }

  /** The name of the function that made the call. */
  program(row: number): string {
    const [scope = ""] = (this.address[row] ?? "").split("/").slice(-2, -1);
    return scope.replace(/\.\d+$/, "") || "(top)";
  }

  /** The tree that the addresses make; the first place is its root. */
  get places(): Place[] {
    while (this.planted < this.size) this.plant(this.planted++);
    return this.tree;
  }

  /** The rows whose answers stand in the prompt of this one. */
  uses(row: number): number[] {
    return this.used[row] ?? EMPTY;
  }

  /** The rows whose prompts hold the answer of this one. */
  usedBy(row: number): number[] {
    for (; this.known < this.size; this.known++) {
      for (const made of this.uses(this.known)) {
        const list = this.users.get(made);
        if (list) list.push(this.known);
        else this.users.set(made, [this.known]);
      }
    }
    return this.users.get(row) ?? EMPTY;
  }

  /** Whether a model has answered: its cost is then known, or unknown. */
  answered(row: number): boolean {
    return [1, 4, 5].includes(this.get("outcome", row)) && this.text("kind", row) !== "tool";
  }

  /** How long a call took, in microseconds; -1 if it is not known. */
  took(row: number): number {
    const started = this.get("started", row);
    const ended = this.get("ended", row);
    return started < 0 || ended < 0 ? -1 : ended - started;
  }

  /** First start and last end. */
  range(): [number, number] {
    let first = Infinity;
    let last = 0;
    const { started, ended } = this.columns;
    for (let row = 0; row < this.size; row++) {
      const start = started[row] ?? -1;
      if (start >= 0 && start < first) first = start;
      last = Math.max(last, start, ended[row] ?? -1);
    }
    return first === Infinity ? [0, 1] : [first, Math.max(last, first + 1)];
  }

  private plant(row: number): void {
    const place = this.tree[this.place(this.address[row] ?? "")];
    if (!place) return;
    place.row = row;
    for (let above = this.tree[place.parent]; above; above = this.tree[above.parent]) above.calls++;
  }

  /** The node of an address; those above it are made as well. */
  private place(address: string): number {
    const missing: string[] = [];
    let at = address;
    let found = this.placeAt.get(at);
    while (found === undefined) {
      missing.push(at);
      at = missing.length < DEEPEST ? at.slice(0, Math.max(at.lastIndexOf("/"), 0)) : "";
      found = this.placeAt.get(at);
    }
    for (const each of missing.reverse()) {
      const parent: number = found;
      const above: Place | undefined = this.tree[parent];
      const leaf = each.slice(each.lastIndexOf("/") + 1);
      const depth: number = (above?.depth ?? -1) + 1;
      found =
        this.tree.push({ address: each, leaf, parent, depth, row: -1, calls: 0, below: [] }) - 1;
      above?.below.push(found);
      this.placeAt.set(each, found);
    }
    return found;
  }
}
