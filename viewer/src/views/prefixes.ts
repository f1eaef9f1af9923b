/** The tree of beginnings that prompts share, and how much of each was in a cache. */

import { Whole, type App, type View } from "../app";
import type { PrefixTree } from "../data";
import { fill, h, visible } from "../dom";
import { count, many, share } from "../format";
import { heads, List } from "../list";

export class Prefixes implements View {
  readonly name = "prefixes";
  readonly title = "Prefixes";
  readonly element: HTMLElement;
  private readonly list: List;
  private readonly sums = h("p", { class: "note", role: "status" }, "Comparing prompts…");
  private tree: PrefixTree | null = null;
  private below: number[][] = [];
  private depth: number[] = [];
  private visible: number[] = [];
  private readonly closed = new Set<number>();
  private readonly whole: Whole<PrefixTree>;

  constructor(app: App) {
    this.whole = new Whole(app, this, app.source.prefixes, (tree, failure) => {
      if (tree) this.take(tree);
      else fill(this.sums, failure);
    });
    this.list = new List({
      label: "Shared beginnings of prompts",
      role: "tree",
      className: "prefixes",
      count: () => this.visible.length,
      render: (index, entry) => this.render(this.visible[index] ?? 0, entry),
      chosen: (index) => app.choose(this.tree?.first[this.visible[index] ?? 0] ?? -1),
      opened: (index) => this.toggle(index),
      key: (index, event) => this.key(index, event.key),
    });
    this.list.element.addEventListener("click", (event) => {
      if ((event.target as Element).closest(".twist")) this.toggle(this.list.active);
    });
    this.element = h(
      "section",
      { class: "view", "aria-label": "Shared prefixes" },
      h("div", { class: "bar" }, this.sums),
      heads("prefixes", ["Text", "|Calls", "|Characters", "|Cached"]),
      this.list.element,
    );
  }

  update(): void {
    if (!this.whole.update()) this.list.update();
  }

  focus(): void {
    this.list.element.focus();
  }

  private take(tree: PrefixTree): void {
    const first = this.tree === null;
    this.tree = tree;
    this.below = tree.parent.map(() => []);
    this.depth = tree.parent.map(() => 0);
    tree.parent.forEach((parent, node) => {
      if (parent < 0) return;
      this.below[parent]?.push(node);
      this.depth[node] = (this.depth[parent] ?? 0) + 1;
    });
    if (first && tree.parent.length > 400) {
      tree.parent.forEach((_, node) => {
        if ((this.depth[node] ?? 0) > 1) this.closed.add(node);
      });
    }
    const prompt = tree.prompt[0] ?? 0;
    const hits = `${share(tree.cached[0] ?? 0, prompt)} of ${count(prompt)} prompt tokens came from a cache`;
    const rest = tree.left_out ? `; ${many(tree.left_out, "smaller beginning")} left out` : "";
    fill(this.sums, `${many(tree.calls[0] ?? 0, "call")}; ${hits}${rest}`);
    this.flatten();
  }

  private flatten(): void {
    const found: number[] = [];
    const todo = [...(this.below[0] ?? [])].reverse();
    for (let node = todo.pop(); node !== undefined; node = todo.pop()) {
      found.push(node);
      if (this.closed.has(node)) continue;
      const below = this.below[node] ?? [];
      for (let i = below.length - 1; i >= 0; i--) todo.push(below[i] ?? 0);
    }
    this.visible = found;
    this.list.update();
  }

  private toggle(index: number): void {
    const node = this.visible[index];
    if (node === undefined || !this.below[node]?.length) return;
    if (!this.closed.delete(node)) this.closed.add(node);
    this.flatten();
  }

  private key(index: number, key: string): boolean {
    const node = this.visible[index] ?? 0;
    const open = !!this.below[node]?.length && !this.closed.has(node);
    if (key === "ArrowRight") {
      if (open) this.list.choose(index + 1);
      else this.toggle(index);
      return true;
    }
    if (key === "ArrowLeft") {
      if (open) this.toggle(index);
      else this.list.choose(this.visible.indexOf(this.tree?.parent[node] ?? -1));
      return true;
    }
    return false;
  }

  private render(node: number, entry: HTMLElement): void {
    const tree = this.tree;
    if (!tree) return;
    const depth = this.depth[node] ?? 0;
    const below = this.below[node]?.length ?? 0;
    const prompt = tree.prompt[node] ?? 0;
    const cached = tree.cached[node] ?? 0;
    entry.setAttribute("aria-level", String(depth));
    if (below) entry.setAttribute("aria-expanded", String(!this.closed.has(node)));
    const bar = h("meter", {
      min: 0, max: 1, value: prompt ? cached / prompt : 0, "aria-label": "cached",
    });
    const text = h(
      "span",
      { class: "said" },
      h("span", { class: "twist", "aria-hidden": "true" }, below ? (this.closed.has(node) ? "▸" : "▾") : ""),
      visible((tree.text[node] ?? "").replace(/\s+/g, " ")),
    );
    text.style.paddingInlineStart = `${0.9 * Math.min(depth - 1, 30)}rem`;
    entry.classList.add("prefixes");
    entry.append(
      text,
      h("span", { class: "number" }, count(tree.calls[node] ?? 0)),
      h("span", { class: "number" }, count(tree.chars[node] ?? 0)),
      h("span", { class: "number" }, bar, ` ${share(cached, prompt)}`),
    );
  }
}
