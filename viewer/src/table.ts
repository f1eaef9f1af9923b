/** The calls of a run as columns, with the tree that their addresses make. */

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
  readonly places: Place[] = [
    { address: "", leaf: "", parent: -1, depth: -1, row: -1, calls: 0, below: [] },
  ];
  readonly scopeAt = new Map<string, string>();
  private readonly columns: Record<Column, number[]>;
  private readonly used: number[][] = [];
  private readonly users = new Map<number, number[]>();
  private readonly programs: number[] = [];
  private readonly programNames: string[] = [];
  private readonly programNumber = new Map<string, number>();
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
    changes.rows.forEach((row, i) => {
      for (const name of NUMBERS) this.columns[name][row] = changes[name][i] ?? -1;
      const address = changes.address[i] ?? "";
      this.said[row] = changes.said[i] ?? "";
      if (this.address[row] === undefined) this.add(row, address);
      const uses = changes.uses[i] ?? EMPTY;
      if (uses.length && !this.used[row]) {
        for (const made of uses) {
          const list = this.users.get(made);
          if (list) list.push(row);
          else this.users.set(made, [row]);
        }
      }
      this.used[row] = uses;
    });
    this.size = Math.max(this.size, changes.size);
    while (this.size > 0 && this.address[this.size - 1] === undefined) this.size--;
    this.version++;
  }

  /** Takes in where scopes stand in the source. */
  applyScopes(scopes: Scopes): void {
    scopes.address.forEach((address, i) => this.scopeAt.set(address, scopes.where[i] ?? ""));
  }

  get(column: Column, row: number): number {
    return this.columns[column][row] ?? -1;
  }

  text(column: "kind" | "model" | "file" | "source", row: number): string {
    return this.strings[this.get(column, row)] ?? "";
  }

  /** The name of the function that made the call. */
  program(row: number): string {
    return this.programNames[this.programs[row] ?? -1] ?? "";
  }

  /** The rows whose answers stand in the prompt of this one. */
  uses(row: number): number[] {
    return this.used[row] ?? EMPTY;
  }

  /** The rows whose prompts hold the answer of this one. */
  usedBy(row: number): number[] {
    return this.users.get(row) ?? EMPTY;
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

  private add(row: number, address: string): void {
    this.address[row] = address;
    const number = this.place(address);
    const place = this.places[number];
    if (!place) return;
    place.row = row;
    for (let above = place.parent; above >= 0; ) {
      const each = this.places[above];
      if (!each) break;
      each.calls++;
      above = each.parent;
    }
    const scope = this.places[place.parent]?.leaf ?? "";
    const name = scope.replace(/\.\d+$/, "") || "(top)";
    let program = this.programNumber.get(name);
    if (program === undefined) {
      program = this.programNames.push(name) - 1;
      this.programNumber.set(name, program);
    }
    this.programs[row] = program;
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
      const above: Place | undefined = this.places[parent];
      const leaf = each.slice(each.lastIndexOf("/") + 1);
      const depth: number = (above?.depth ?? -1) + 1;
      found =
        this.places.push({ address: each, leaf, parent, depth, row: -1, calls: 0, below: [] }) - 1;
      above?.below.push(found);
      this.placeAt.set(each, found);
    }
    return found;
  }
}
