/** All calls in one list: sorted by any column, narrowed by words. */

import type { App, View } from "../app";
import type { Table } from "../table";
import { addressed, brief, h, visible } from "../dom";
import { count, duration, many } from "../format";
import { heads, List } from "../list";
import { isFailure, outcomeSign } from "../outcome";

type Key = (table: Table, row: number) => number;

const ORDERS: [name: string, key: Key, descending: boolean][] = [
  ["order of the program", (_, row) => row, false],
  ["start", (table, row) => table.get("started", row), false],
  ["longest first", (table, row) => table.took(row), true],
  ["most prompt tokens first", (table, row) => table.get("prompt", row), true],
  ["most generated tokens first", (table, row) => table.get("completion", row), true],
  ["dearest first", (table, row) => table.get("cost", row), true],
  ["most attempts first", (table, row) => table.get("attempts", row), true],
];
const OUTCOMES = ["all", "in flight", "answered", "failed", "cancelled", "refused", "in a failed item"];

export class Calls implements View {
  readonly name = "calls";
  readonly title = "Calls";
  readonly element: HTMLElement;
  private readonly list: List;
  private readonly order: HTMLSelectElement;
  private readonly outcome: HTMLSelectElement;
  private readonly words: HTMLInputElement;
  private readonly found = h("p", { class: "note", role: "status" });
  private rows: number[] = [];
  private version = -1;

  constructor(private readonly app: App) {
    const change = (): void => this.sort();
    this.order = h("select", { onchange: change }, ...options(ORDERS.map(([name]) => name)));
    this.outcome = h("select", { onchange: change }, ...options(OUTCOMES));
    this.words = h("input", { type: "search", oninput: change, spellcheck: "false" });
    this.list = new List({
      label: "Calls",
      role: "listbox",
      className: "calls",
      count: () => this.rows.length,
      render: (index, entry) => this.render(this.rows[index] ?? 0, entry),
      chosen: (index) => app.choose(this.rows[index] ?? -1),
    });
    this.element = h(
      "section",
      { class: "view", "aria-label": "Calls" },
      h(
        "div",
        { class: "bar" },
        h("label", {}, "Order ", this.order),
        h("label", {}, "Outcome ", this.outcome),
        h("label", {}, "Address, model or answer has ", this.words),
        this.found,
      ),
      callHeads(),
      this.list.element,
    );
    app.on("choice", () => this.list.update());
  }

  update(): void {
    if (this.version !== this.app.table.version) this.sort();
    else this.list.update();
  }

  focus(): void {
    this.list.element.focus();
  }

  /** Goes to the next call of the list, or the one before. */
  step(by: number): void {
    const at = this.rows.indexOf(this.app.chosen);
    this.list.choose(at < 0 ? 0 : at + by);
  }

  private sort(): void {
    const { table } = this.app;
    this.version = table.version;
    const outcome = OUTCOMES.indexOf(this.outcome.value) - 1;
    const words = this.words.value.toLowerCase();
    const rows: number[] = [];
    for (let row = 0; row < table.size; row++) {
      const ended = table.get("outcome", row);
      if (outcome === 2 ? !isFailure(ended) : outcome >= 0 && ended !== outcome) continue;
      if (words && !this.matches(row, words)) continue;
      rows.push(row);
    }
    const [, key, descending] = ORDERS.find(([name]) => name === this.order.value) ?? ORDERS[0]!;
    if (key !== ORDERS[0]![1]) {
      const keys = new Float64Array(table.size);
      for (const row of rows) keys[row] = key(table, row) * (descending ? -1 : 1);
      rows.sort((one, other) => (keys[one] ?? 0) - (keys[other] ?? 0) || one - other);
    }
    this.rows = rows;
    this.found.textContent = many(rows.length, "call");
    this.list.active = rows.indexOf(this.app.chosen);
    this.list.update();
  }

  private matches(row: number, words: string): boolean {
    const { table } = this.app;
    return (
      (table.address[row] ?? "").toLowerCase().includes(words) ||
      (table.said[row] ?? "").toLowerCase().includes(words) ||
      table.text("model", row).toLowerCase().includes(words)
    );
  }

  private render(row: number, entry: HTMLElement): void {
    callEntry(this.app.table, row, entry);
    if (row === this.app.chosen) entry.classList.add("chosen");
  }
}

function options(names: string[]): HTMLElement[] {
  return names.map((name) => h("option", { value: name }, name));
}

/** What stands over calls in a list. */
export function callHeads(className = "calls", ...more: string[]): HTMLElement {
  return heads(className, ["", "Call", "Model", "|Time", "|Tokens", "|Cached", "Answer", ...more]);
}

/** The cells of a call in a list; tokens are those of the prompt and those of the answer. */
export function callEntry(table: Table, row: number, entry: HTMLElement): void {
  entry.classList.add("calls");
  const [prompt, completion] = [table.get("prompt", row), table.get("completion", row)];
  const tokens = prompt < 0 && completion < 0 ? "–" : `${count(prompt)}+${count(completion)}`;
  entry.append(
    outcomeSign(table.get("outcome", row)),
    addressed(brief(table.address[row] ?? "")),
    h("span", {}, brief(table.text("model", row))),
    h("span", { class: "number" }, duration(table.took(row))),
    h("span", { class: "number" }, tokens),
    h("span", { class: "number" }, count(table.get("cached", row))),
    h("span", { class: "said" }, visible(table.said[row] ?? "")),
  );
}
