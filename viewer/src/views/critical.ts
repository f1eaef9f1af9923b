/** The critical path: what the end of the run waited for, step by step, and where the time went. */

import { Whole, type App, type View } from "../app";
import type { CriticalPath, Segment } from "../data";
import { brief, fill, h } from "../dom";
import { duration, many, share } from "../format";
import { heads, List } from "../list";
import { phase } from "../outcome";

const WAITS = 20;

export class Critical implements View {
  readonly name = "critical";
  readonly title = "Critical path";
  readonly element: HTMLElement;
  private readonly list: List;
  private readonly sums = h("p", { class: "note", role: "status" }, "Looking for the path…");
  private segments: Segment[] = [];
  private longest = 1;
  private readonly waits = h("div", { class: "waits-list" });
  private readonly whole: Whole<CriticalPath>;

  constructor(private readonly app: App) {
    this.whole = new Whole(app, this, app.source.critical, (path, failure) => {
      if (path) this.take(path);
      else fill(this.sums, failure);
    });
    this.list = new List({
      label: "Steps of the critical path",
      role: "listbox",
      className: "steps",
      count: () => this.segments.length,
      render: (index, entry) => this.render(index, entry),
      chosen: (index) => app.choose(this.segments[index]?.[3] ?? -1),
    });
    this.element = h(
      "section",
      { class: "view", "aria-label": "Critical path" },
      h("div", { class: "bar" }, this.sums, this.waits),
      heads("steps", ["|At", "|Takes", "", "What", "Call"]),
      this.list.element,
    );
  }

  update(): void {
    if (!this.whole.update()) this.list.update();
  }

  focus(): void {
    this.list.element.focus();
  }

  private take(path: CriticalPath): void {
    this.segments = path.segments;
    this.longest = Math.max(1, ...path.segments.map(([, , took]) => took));
    const kinds = Object.entries(path.kinds).sort(([, one], [, other]) => other - one);
    const parts = kinds.map(([kind, took]) => `${phase(kind)} ${share(took, path.duration)}`);
    fill(
      this.sums,
      `${duration(path.duration)} in ${many(path.segments.length, "step")}: ${parts.join(", ")}`,
    );
    const list = path.waits.slice(0, WAITS).map(([row, after, gain]) =>
      h(
        "li",
        {},
        h("a", { href: `#/critical/${row}` }, this.address(row)),
        ` waits for ${this.address(after)} without needing its answer; side by side they would save about ${duration(gain)}`,
      ),
    );
    fill(
      this.waits,
      list.length ? h("details", {}, h("summary", {}, `${many(list.length, "wait")} for order alone`), h("ul", {}, ...list)) : null,
    );
  }

  private address(row: number): string {
    return brief(this.app.table.address[row] ?? "");
  }

  private render(index: number, entry: HTMLElement): void {
    const [kind, start, took, row] = this.segments[index] ?? ["", 0, 0, -1];
    const bar = h("span", { class: "took", "aria-hidden": "true" });
    bar.style.width = `${(100 * took) / this.longest}%`;
    entry.classList.add("steps");
    if (row >= 0 && row === this.app.chosen) entry.classList.add("chosen");
    entry.append(
      h("span", { class: "number" }, duration(start - (this.segments[0]?.[1] ?? 0))),
      h("span", { class: "number" }, duration(took)),
      h("span", {}, bar),
      h("span", {}, phase(kind)),
      h("span", { class: "address" }, this.address(row)),
    );
  }
}
