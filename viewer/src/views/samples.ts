/** The evaluations of a run: the table of their scores, and their samples with target, answer and scores. */

import type { App } from "../app";
import type { EvaluationDoc, SampleRow } from "../data";
import { brief, fill, h, visible, type Child } from "../dom";
import { count } from "../format";
import { grid } from "./cost";

const MOST = 500;
type Order = { by: string; descending: boolean };

export class Samples {
  constructor(private readonly app: App) {}

  /** What is shown of these evaluations. */
  parts(found: EvaluationDoc[]): Child[] {
    return found.flatMap((each) => [h("h2", {}, visible(each.title)), this.scores(each), this.samples(each)]);
  }

  private scores(found: EvaluationDoc): HTMLElement {
    return grid("Scores", found.head.map(visible), found.rows.map((row) => row.map(visible)));
  }

  private samples(found: EvaluationDoc): HTMLElement {
    const holder = h("div", { class: "samples" });
    const order: Order = { by: "", descending: false };
    const draw = (): void => fill(holder, this.table(found, order, draw));
    draw();
    return holder;
  }

  private table(found: EvaluationDoc, order: Order, draw: () => void): HTMLElement {
    const head = (name: string, sorts: boolean): HTMLElement => {
      if (!sorts) return h("th", { scope: "col" }, visible(name));
      const sorted = order.by === name;
      const press = (): void => {
        order.descending = sorted && !order.descending;
        order.by = name;
        draw();
      };
      const sign = sorted ? (order.descending ? " ▾" : " ▴") : "";
      const direction = sorted ? (order.descending ? "descending" : "ascending") : "none";
      return h(
        "th",
        { scope: "col", "aria-sort": direction },
        h("button", { type: "button", class: "opens", onclick: press }, visible(name), sign),
      );
    };
    const samples = [...found.samples];
    if (order.by) {
      const key = (sample: SampleRow): number => sample.scores[order.by] ?? -Infinity;
      const sign = order.descending ? -1 : 1;
      samples.sort((one, other) => sign * (key(one) - key(other)) || 0);
    }
    const rows = samples.slice(0, MOST).map((sample) => this.row(found, sample));
    const title = samples.length > MOST ? `Samples (the first ${MOST} of ${count(samples.length)})` : "Samples";
    return h(
      "table",
      {},
      h("caption", {}, title),
      h("thead", {}, h("tr", {}, ...["Case", "Target", "Answer"].map((name) => head(name, false)), ...found.names.map((name) => head(name, true)))),
      h("tbody", {}, ...rows),
    );
  }

  private row(found: EvaluationDoc, sample: SampleRow): HTMLElement {
    const row = this.app.table.address.findIndex((address) => address.startsWith(`${sample.address}/`));
    const name = visible(sample.id) + (sample.number ? ` (${sample.number + 1})` : "");
    const score = (name: string): HTMLElement => {
      const value = sample.scores[name];
      const error = sample.errors[name];
      const shown = error ? "failed" : value === null || value === undefined ? "–" : String(Number(value.toFixed(4)));
      return h("td", { class: error ? "number failure" : "number", title: visible(error ?? "") }, shown);
    };
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, row < 0 ? name : h("a", { href: `#/overview/${row}` }, name)),
      h("td", { class: "said" }, brief(sample.target)),
      h("td", { class: sample.error ? "said failure" : "said" }, brief(sample.error ?? sample.answer)),
      ...found.names.map(score),
    );
  }
}
