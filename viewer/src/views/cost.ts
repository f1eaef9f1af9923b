/** What the run took: the four kinds of cost, and tokens, time and money by model or program. */

import { Whole, type App, type View } from "../app";
import type { Amount, Costs } from "../data";
import { fill, h, visible } from "../dom";
import { isFailure } from "../outcome";
import { count, duration, many, share, total } from "../format";

interface Sum {
  calls: number;
  failed: number;
  retries: number;
  prompt: number;
  cached: number;
  completion: number;
  cost: number;
  unknown: number;
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
  private readonly whole: Whole<Costs>;

  constructor(private readonly app: App) {
    this.whole = new Whole(app, this, app.source.costs, (costs, failure) => this.show(costs, failure));
    this.element = h("section", { class: "view", "aria-label": "Cost" }, this.body);
  }

  update(): void {
    this.whole.update();
  }

  focus(): void {
    this.body.focus();
  }

  private show(costs: Costs | null, failure: string): void {
    const { table } = this.app;
    fill(
      this.body,
      costs ? this.kinds(costs) : h("p", { role: "alert" }, failure),
      this.sums("By model", (row) => `${table.text("model", row)}`),
      this.sums("By program", (row) => table.program(row)),
      this.sums("By kind of call", (row) => table.text("kind", row)),
    );
  }

  private kinds(costs: Costs): HTMLElement {
    const rows: [string, Amount][] = KINDS.map(([kind, title]) => [title, costs[kind]]);
    const number = (value: number | null): string => count(value ?? -1);
    return grid(
      "The whole run, in four kinds that are never added up",
      ["Kind", "Calls", "Prompt tokens", "Cached", "Written to the cache", "Generated", "Cost", "Without a known cost"],
      rows.map(([title, each]) => [
        title,
        count(each.calls),
        number(each.prompt_tokens),
        number(each.cached_tokens),
        number(each.written_tokens === null ? null : each.written_tokens + (each.written_1h_tokens ?? 0)),
        number(each.completion_tokens),
        each.calls ? total(each.cost ?? -1, each.unknown["cost"] ?? 0) : "–",
        each.unknown["cost"] ? many(each.unknown["cost"], "call") : "",
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
        sum = { calls: 0, failed: 0, retries: 0, prompt: 0, cached: 0, completion: 0, cost: 0, unknown: 0, time: 0 };
        sums.set(key, sum);
      }
      sum.calls++;
      sum.failed += Number(isFailure(table.get("outcome", row)));
      sum.retries += table.get("failed", row);
      sum.prompt += Math.max(0, table.get("prompt", row));
      sum.cached += Math.max(0, table.get("cached", row));
      sum.completion += Math.max(0, table.get("completion", row));
      const cost = table.get("cost", row);
      if (cost >= 0) sum.cost += cost;
      else sum.unknown += Number(table.answered(row));
      sum.time += Math.max(0, table.took(row));
    }
    const order = [...sums].sort(([, one], [, other]) => other.calls - one.calls);
    return grid(
      order.length > MOST ? `${title} (the first ${MOST} of ${count(order.length)})` : title,
      ["Name", "Calls", "Failed", "Retries", "Prompt tokens", "Cached", "Hit rate", "Generated", "Cost", "Time in flight"],
      order.slice(0, MOST).map(([key, sum]) => [
        visible(key) || "(none)", count(sum.calls), count(sum.failed), count(sum.retries),
        count(sum.prompt), count(sum.cached), share(sum.cached, sum.prompt), count(sum.completion),
        total(sum.cost, sum.unknown), duration(sum.time),
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
