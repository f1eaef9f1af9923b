/** What the run took: the four kinds of cost, and tokens, time and money by model or program. */

import type { App, View } from "../app";
import type { Amount, Costs } from "../data";
import { fill, h, visible } from "../dom";
import { count, duration, money, share } from "../format";

interface Sum {
  calls: number;
  failed: number;
  retries: number;
  prompt: number;
  cached: number;
  completion: number;
  cost: number;
  time: number;
}

const KINDS: [keyof Costs & ("spent" | "reused" | "in_doubt" | "estimated"), string][] = [
  ["spent", "spent"],
  ["reused", "reused, so saved"],
  ["in_doubt", "in doubt, at most"],
  ["estimated", "estimated"],
];
const MOST = 200;

export class Cost implements View {
  readonly name = "cost";
  readonly title = "Cost";
  readonly element: HTMLElement;
  private readonly body = h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Tables of cost" });
  private version = -1;
  private costs: Costs | null = null;

  constructor(private readonly app: App) {
    this.element = h("section", { class: "view", "aria-label": "Cost" }, this.body);
  }

  update(): void {
    if (this.version === this.app.table.version) return;
    this.version = this.app.table.version;
    void this.load();
  }

  focus(): void {
    this.body.focus();
  }

  private async load(): Promise<void> {
    try {
      this.costs = await this.app.source.costs("a");
    } catch {
      this.costs = null;
    }
    const { table } = this.app;
    fill(
      this.body,
      this.kinds(),
      this.sums("By model", (row) => `${table.text("model", row)}`),
      this.sums("By program", (row) => table.program(row)),
      this.sums("By kind of call", (row) => table.text("kind", row)),
    );
  }

  private kinds(): HTMLElement {
    const rows = KINDS.map(([kind, title]) => [title, this.costs?.[kind]] as const);
    const number = (value: number | null | undefined): string => count(value ?? -1);
    return grid(
      "In four kinds, which are never added up",
      ["Kind", "Calls", "Prompt tokens", "Cached", "Generated", "Cost", "Cost not known"],
      rows
        .filter((row): row is readonly [string, Amount] => !!row[1])
        .map(([title, each]) => [
          title,
          count(each.calls),
          number(each.prompt_tokens),
          number(each.cached_tokens),
          number(each.completion_tokens),
          money(each.cost ?? -1),
          each.unknown["cost"] ? `of ${count(each.unknown["cost"])}` : "",
        ]),
    );
  }

  private sums(title: string, name: (row: number) => string): HTMLElement {
    const { table } = this.app;
    const sums = new Map<string, Sum>();
    for (let row = 0; row < table.size; row++) {
      const key = name(row);
      let sum = sums.get(key);
      if (!sum) {
        sum = { calls: 0, failed: 0, retries: 0, prompt: 0, cached: 0, completion: 0, cost: 0, time: 0 };
        sums.set(key, sum);
      }
      sum.calls++;
      sum.failed += Number(table.get("outcome", row) === 2);
      sum.retries += table.get("failed", row);
      sum.prompt += Math.max(0, table.get("prompt", row));
      sum.cached += Math.max(0, table.get("cached", row));
      sum.completion += Math.max(0, table.get("completion", row));
      sum.cost += Math.max(0, table.get("cost", row));
      sum.time += Math.max(0, table.took(row));
    }
    const order = [...sums].sort(([, one], [, other]) => other.calls - one.calls);
    return grid(
      order.length > MOST ? `${title} (the first ${MOST} of ${count(order.length)})` : title,
      ["Name", "Calls", "Failed", "Retries", "Prompt tokens", "Cached", "Hit rate", "Generated", "Cost", "Time in flight"],
      order.slice(0, MOST).map(([key, sum]) => [
        visible(key) || "(none)", count(sum.calls), count(sum.failed), count(sum.retries),
        count(sum.prompt), count(sum.cached), share(sum.cached, sum.prompt), count(sum.completion),
        money(sum.cost), duration(sum.time),
      ]),
    );
  }
}

/** A table of text. */
export function grid(title: string, head: string[], rows: string[][]): HTMLElement {
  return h(
    "table",
    {},
    h("caption", {}, title),
    h("thead", {}, h("tr", {}, ...head.map((name) => h("th", { scope: "col" }, name)))),
    h(
      "tbody",
      {},
      ...rows.map((row) =>
        h(
          "tr",
          {},
          ...row.map((cell, i) =>
            i === 0 ? h("th", { scope: "row" }, cell) : h("td", { class: "number" }, cell),
          ),
        ),
      ),
    ),
  );
}
