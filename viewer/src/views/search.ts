/** Search in addresses, prompts and answers; what was found so far is shown while it goes on. */

import type { App, View } from "../app";
import { fill, h } from "../dom";
import { many, share } from "../format";
import { List } from "../list";
import { callEntry, callHeads } from "./calls";

const PLACES: [bit: number, word: string][] = [
  [1, "address"],
  [2, "prompt"],
  [4, "answer"],
];

export class Search implements View {
  readonly name = "search";
  readonly title = "Search";
  readonly element: HTMLElement;
  private readonly input: HTMLInputElement;
  private readonly list: List;
  private readonly found = h("p", { class: "note", role: "status" });
  private readonly wanted: HTMLInputElement[];
  private rows: number[] = [];
  private where: number[] = [];
  private shown: number[] = [];
  private ticket = 0;

  constructor(private readonly app: App) {
    this.input = h("input", { type: "search", spellcheck: "false", id: "search" });
    this.wanted = PLACES.map(() =>
      h("input", { type: "checkbox", checked: true, onchange: () => this.narrow() }),
    );
    this.list = new List({
      label: "Found calls",
      role: "listbox",
      className: "calls",
      count: () => this.shown.length,
      render: (index, entry) => {
        const row = this.rows[this.shown[index] ?? 0] ?? 0;
        callEntry(app.table, row, entry);
        const where = this.where[this.shown[index] ?? 0] ?? 0;
        const words = PLACES.filter(([bit]) => where & bit).map(([, word]) => word);
        entry.classList.add("found");
        entry.append(h("span", { class: "note" }, words.join(", ")));
        if (row === app.chosen) entry.classList.add("chosen");
      },
      chosen: (index) => app.choose(this.rows[this.shown[index] ?? 0] ?? -1),
    });
    this.element = h(
      "section",
      { class: "view", "aria-label": "Search" },
      h(
        "form",
        {
          class: "bar",
          role: "search",
          onsubmit: (event) => {
            event.preventDefault();
            void this.search();
          },
        },
        h("label", {}, "Text ", this.input),
        h("button", { type: "submit" }, "Search"),
        ...PLACES.map(([, word], i) => h("label", {}, this.wanted[i], ` ${word}`)),
        this.found,
      ),
      callHeads("calls found", "Found in"),
      this.list.element,
    );
    app.on("choice", () => this.list.update());
  }

  update(): void {
    this.list.update();
  }

  focus(): void {
    this.input.focus();
    this.input.select();
  }

  private async search(): Promise<void> {
    const text = this.input.value;
    const ticket = ++this.ticket;
    this.rows = [];
    this.where = [];
    this.list.active = -1;
    this.narrow();
    if (!text) return fill(this.found, "");
    try {
      for (let from = 0; from >= 0; ) {
        const page = await this.app.source.search("a", text, from);
        if (ticket !== this.ticket) return;
        this.rows.push(...page.rows);
        this.where.push(...page.where);
        from = page.next;
        this.narrow();
        if (from >= 0) fill(this.found, `${many(this.shown.length, "call")} in ${share(from, this.app.table.size)}…`);
      }
      fill(this.found, `${many(this.shown.length, "call")} found`);
      this.element.dataset["done"] = text;
    } catch (error) {
      fill(this.found, String(error));
    }
  }

  private narrow(): void {
    const mask = PLACES.reduce((sum, [bit], i) => sum + (this.wanted[i]?.checked ? bit : 0), 0);
    this.shown = this.rows.flatMap((_, i) => ((this.where[i] ?? 0) & mask ? [i] : []));
    this.list.update();
  }
}
