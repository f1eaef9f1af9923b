/** The critical path: what the end of the run waited for, step by step, and where the time went. */

import type { App, View } from "../app";
import type { Step } from "../data";
import { fill, h, visible } from "../dom";
import { duration, many, share } from "../format";
import { List } from "../list";

const BECAUSE: Record<string, string> = {
  data: "its answer was needed",
  order: "the program went on",
  end: "the run ended",
};

export class Critical implements View {
  readonly name = "critical";
  readonly title = "Critical path";
  readonly element: HTMLElement;
  private readonly list: List;
  private readonly sums = h("p", { class: "note", role: "status" });
  private steps: Step[] = [];
  private version = -1;
  private busy = false;

  constructor(private readonly app: App) {
    this.list = new List({
      label: "Steps of the critical path",
      role: "listbox",
      className: "steps",
      count: () => this.steps.length,
      render: (index, entry) => this.render(index, entry),
      chosen: (index) => app.choose(this.steps[index]?.row ?? -1),
    });
    this.element = h(
      "section",
      { class: "view", "aria-label": "Critical path" },
      h("div", { class: "bar" }, this.sums),
      h(
        "div",
        { class: "entry head steps", "aria-hidden": "true" },
        ...["Call", "Before it", "Waited", "Answered", "Then"].map((name) => h("span", {}, name)),
      ),
      this.list.element,
    );
  }

  update(): void {
    if (this.version !== this.app.table.version) void this.load();
    else this.list.update();
  }

  focus(): void {
    this.list.element.focus();
  }

  private async load(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.version = this.app.table.version;
    try {
      this.steps = await this.app.source.critical("a");
      this.sum();
    } catch (error) {
      fill(this.sums, String(error));
    } finally {
      this.busy = false;
    }
    this.list.update();
  }

  private sum(): void {
    let waited = 0;
    let answered = 0;
    let before = 0;
    this.steps.forEach((step, i) => {
      waited += step.asked - step.started;
      answered += step.ended - step.asked;
      before += this.gap(i);
    });
    const all = waited + answered + before;
    fill(
      this.sums,
      `${many(this.steps.length, "call")} in a row take ${duration(all)}: ` +
        `${share(answered, all)} being answered, ${share(waited, all)} waiting to be sent, ` +
        `${share(before, all)} in the program between them`,
    );
  }

  private gap(index: number): number {
    const step = this.steps[index];
    const last = this.steps[index - 1];
    return step && last ? Math.max(0, step.started - last.ended) : 0;
  }

  private render(index: number, entry: HTMLElement): void {
    const step = this.steps[index];
    if (!step) return;
    entry.classList.add("steps");
    entry.append(
      h("span", { class: "address" }, visible(this.app.table.address[step.row] ?? "")),
      h("span", { class: "number" }, duration(this.gap(index))),
      h("span", { class: "number" }, duration(step.asked - step.started)),
      h("span", { class: "number" }, duration(step.ended - step.asked)),
      h("span", {}, BECAUSE[step.by] ?? visible(step.by)),
    );
  }
}
