/** The call graph: the tree of programs and their calls, and the answers that went into prompts. */

import type { App, View } from "../app";
import { addressed, brief, fill, h, svg, visible } from "../dom";
import { duration, many } from "../format";
import { List } from "../list";
import { outcomeSign } from "../outcome";

const MOST = 12;
const WIDTH = 210;
const GAP = 60;
const HEIGHT = 34;
const AT_FIRST = 400;

export class Graph implements View {
  readonly name = "graph";
  readonly title = "Graph";
  readonly element: HTMLElement;
  private readonly tree: List;
  private readonly edges = h("div", { class: "edges" });
  private readonly open = new Set<number>([0]);
  private visible: number[] = [];
  private version = -1;
  private opened = false;

  constructor(private readonly app: App) {
    this.tree = new List({
      label: "Programs and calls",
      role: "tree",
      count: () => this.visible.length,
      render: (index, entry) => this.render(this.visible[index] ?? 0, entry),
      chosen: (index) => {
        const place = app.table.places[this.visible[index] ?? 0];
        if (place && place.row >= 0) app.choose(place.row);
      },
      opened: (index) => this.toggle(index),
      key: (index, event) => this.key(index, event.key),
    });
    this.element = h(
      "section",
      { class: "view", "aria-label": "Call graph" },
      this.tree.element,
      h("section", { class: "data-edges", "aria-label": "Answers in prompts" }, this.edges),
    );
    this.tree.element.addEventListener("click", (event) => {
      if ((event.target as Element).closest(".twist")) this.toggle(this.tree.active);
    });
    app.on("choice", () => this.choice());
  }

  update(): void {
    const { table } = this.app;
    if (this.version !== table.version) {
      this.version = table.version;
      if (!this.opened) this.openSome();
      this.flatten();
    }
    this.tree.update();
    this.drawEdges();
  }

  focus(): void {
    this.tree.element.focus();
  }

  /** Makes the chosen call, where it is shown, the active entry of the tree. */
  private follow(): void {
    const { table, chosen } = this.app;
    const at = chosen < 0 ? -1 : this.visible.findIndex((each) => table.places[each]?.row === chosen);
    if (at >= 0) this.tree.active = at;
  }

  private choice(): void {
    if (!this.element.isConnected) return;
    this.follow();
    this.tree.update();
    this.drawEdges();
  }

  /** Opens scopes from the top, as long as what is shown stays short. */
  private openSome(): void {
    const { places } = this.app.table;
    let shown = places[0]?.below.length ?? 0;
    const queue = [...(places[0]?.below ?? [])];
    for (let number = queue.shift(); number !== undefined; number = queue.shift()) {
      const place = places[number];
      if (!place || !place.below.length) continue;
      shown += place.below.length;
      if (shown > AT_FIRST) break;
      this.open.add(number);
      queue.push(...place.below);
    }
    this.opened = places.length > 1 && !this.app.a.more;
  }

  private flatten(): void {
    const { places } = this.app.table;
    const found: number[] = [];
    const todo = [...(places[0]?.below ?? [])].reverse();
    for (let number = todo.pop(); number !== undefined; number = todo.pop()) {
      found.push(number);
      if (!this.open.has(number)) continue;
      const below = places[number]?.below ?? [];
      for (let i = below.length - 1; i >= 0; i--) todo.push(below[i] ?? 0);
    }
    const active = this.visible[this.tree.active];
    this.visible = found;
    if (active !== undefined) this.tree.active = found.indexOf(active);
    else this.follow();
  }

  private toggle(index: number): void {
    const number = this.visible[index];
    if (number === undefined || !this.app.table.places[number]?.below.length) return;
    if (!this.open.delete(number)) this.open.add(number);
    this.flatten();
    this.tree.update();
  }

  private key(index: number, key: string): boolean {
    const number = this.visible[index] ?? 0;
    const place = this.app.table.places[number];
    if (!place) return false;
    const isOpen = this.open.has(number);
    if (key === "ArrowRight" && place.below.length) {
      if (isOpen) this.tree.choose(index + 1);
      else this.toggle(index);
      return true;
    }
    if (key === "ArrowLeft") {
      if (isOpen && place.below.length) this.toggle(index);
      else if (place.parent > 0) this.tree.choose(this.visible.indexOf(place.parent));
      return true;
    }
    return false;
  }

  private render(number: number, entry: HTMLElement): void {
    const { table } = this.app;
    const place = table.places[number];
    if (!place) return;
    entry.classList.add("tree-entry");
    entry.setAttribute("aria-level", String(place.depth + 1));
    entry.style.paddingInlineStart = `${0.4 + 1.1 * Math.min(place.depth, 30)}rem`;
    const below = place.below.length;
    if (below) entry.setAttribute("aria-expanded", String(this.open.has(number)));
    if (place.row >= 0 && place.row === this.app.chosen) entry.classList.add("chosen");
    const sign = below ? (this.open.has(number) ? "▾" : "▸") : "";
    entry.append(h("span", { class: "twist", "aria-hidden": "true" }, sign));
    if (place.row >= 0) entry.append(outcomeSign(table.get("outcome", place.row)));
    entry.append(h("span", { class: "address" }, brief(place.leaf)));
    if (place.row >= 0) {
      entry.append(
        h("span", { class: "number" }, duration(table.took(place.row))),
        h("span", { class: "said" }, visible(table.said[place.row] ?? "")),
      );
    } else {
      const where = visible(table.scopeAt.get(place.address) ?? "");
      const short = where.slice(where.lastIndexOf("/") + 1);
      const note = [many(place.calls, "call"), short].filter(Boolean).join(", ");
      entry.append(h("span", { class: "note", title: where }, note));
    }
  }

  /** The chosen call between those whose answers it was given and those that were given its own. */
  private drawEdges(): void {
    const { table, chosen } = this.app;
    if (chosen < 0) {
      fill(this.edges, h("p", { class: "note" }, "Choose a call to see whose answers it holds."));
      return;
    }
    const taken = new Set([chosen]);
    const before = this.beside([chosen], (row) => table.uses(row), taken);
    const after = this.beside([chosen], (row) => table.usedBy(row), taken);
    const columns = [
      { title: "", rows: this.beside(before, (row) => table.uses(row), taken) },
      { title: "given answers of", rows: before },
      { title: "the call", rows: [chosen] },
      { title: "gave its answer to", rows: after },
      { title: "", rows: this.beside(after, (row) => table.usedBy(row), taken) },
    ].filter(({ rows }) => rows.length);
    const place = new Map<number, [number, number]>();
    columns.forEach(({ rows }, x) => rows.forEach((row, y) => place.set(row, [x, y])));
    const tall = Math.max(1, ...columns.map(({ rows }) => rows.length)) * HEIGHT;
    const wide = columns.length * WIDTH + (columns.length - 1) * GAP;
    const lines = svg("svg", {
      width: String(wide), height: String(tall), "aria-hidden": "true", class: "lines",
    });
    for (const [row, [x, y]] of place) {
      for (const made of table.uses(row)) {
        const from = place.get(made);
        if (from && from[0] < x) lines.append(line(from[0], from[1], x, y));
      }
    }
    const box = h("div", { class: "nodes" }, lines);
    box.style.width = `${wide}px`;
    box.style.height = `${tall}px`;
    columns.forEach(({ title, rows }, x) =>
      rows.forEach((row, y) => {
        const node = h(
          "a",
          {
            class: row === chosen ? "node chosen" : "node",
            href: `#/graph/${row}`,
            title,
          },
          addressed(brief(table.address[row] ?? "")),
        );
        node.style.left = `${x * (WIDTH + GAP)}px`;
        node.style.top = `${y * HEIGHT}px`;
        box.append(node);
      }),
    );
    const uses = table.uses(chosen).length;
    const users = table.usedBy(chosen).length;
    const note = `Its prompt holds ${many(uses, "answer")}; its answer stands in ${many(users, "prompt")}.`;
    fill(this.edges, h("p", { class: "note" }, note), box);
  }

  /** The rows next to these that are not drawn yet. */
  private beside(rows: number[], next: (row: number) => number[], taken: Set<number>): number[] {
    const found: number[] = [];
    for (const row of rows) {
      for (const each of next(row)) {
        if (found.length >= MOST) return found;
        if (taken.has(each)) continue;
        taken.add(each);
        found.push(each);
      }
    }
    return found;
  }
}

function line(x0: number, y0: number, x1: number, y1: number): SVGElement {
  const from = [x0 * (WIDTH + GAP) + WIDTH, y0 * HEIGHT + HEIGHT / 2 - 3] as const;
  const to = [x1 * (WIDTH + GAP), y1 * HEIGHT + HEIGHT / 2 - 3] as const;
  const bend = GAP / 2;
  return svg("path", {
    d: `M${from[0]} ${from[1]} C${from[0] + bend} ${from[1]} ${to[0] - bend} ${to[1]} ${to[0]} ${to[1]}`,
  });
}
