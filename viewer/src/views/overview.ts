/** The first look: question and answer, sums, failures, evaluations, and functions with what they took. */

import { Whole, type App, type View } from "../app";
import type { CallDoc, Costs, EvaluationDoc, MessageDoc } from "../data";
import { brief, fill, h, visible, type Child } from "../dom";
import { count, duration, many, share, total } from "../format";
import { durations, grouped, percentile, type Group } from "../groups";
import { isFailure, isOwnFailure, outcomeSign } from "../outcome";
import { Questions } from "./questions";
import { Samples } from "./samples";

const SELDOM_MS = 400;
const FEW = 60; // calls, each of which has its own row
const MOST_SCOPES = 200;
const OPEN_AT_FIRST = 30;
const MOST_ROWS = 400;
const MOST_CALLS = 100;
const MOST_FAILURES = 8;
const LONG = 4_000;

export class Overview implements View {
  readonly name = "overview";
  readonly title = "Overview";
  readonly element: HTMLElement;
  private readonly totals = h("dl", { class: "totals" });
  private readonly asked = h("div", {});
  private readonly answered = h("div", {});
  private readonly talk = h("div", { class: "talk" });
  private readonly failures = h("div", {});
  private readonly evaluations = h("div", {});
  private readonly functions = h("div", {});
  private readonly costs: Whole<Costs>;
  private readonly evaluated: Whole<EvaluationDoc[]>;
  private readonly samples: Samples;
  private readonly questions: Questions;
  private readonly open = new Map<string, boolean>();
  private known: Costs | null = null;
  private few = true;
  private drawn = -SELDOM_MS;
  private version = -1;
  private ended = -1;
  private told = "";
  private ends: [number, number] = [-1, -1];

  constructor(private readonly app: App) {
    this.costs = new Whole(app, this, app.source.costs, (costs) => {
      this.known = costs;
      this.drawTotals();
    });
    this.samples = new Samples(app);
    this.questions = new Questions(app);
    this.evaluated = new Whole(app, this, app.source.evaluations, (found) => {
      fill(this.evaluations, ...this.samples.parts(found ?? []));
    });
    this.element = h(
      "section",
      { class: "view", "aria-label": "Overview" },
      h(
        "div",
        { class: "scroll overview", tabindex: 0, role: "group", "aria-label": "Overview of the run" },
        this.totals,
        this.talk,
        this.questions.element,
        this.evaluations,
        this.failures,
        this.functions,
      ),
    );
    app.on("choice", () => this.mark());
  }

  update(): void {
    this.costs.update();
    this.evaluated.update();
    this.questions.update();
    const { table, info } = this.app.a;
    const told = `${info?.state} ${info?.reason} ${info?.error} ${info?.failures?.join()}`;
    if (this.version === table.version && this.told === told && this.ended === table.ended) return;
    const now = performance.now(); // a long run comes in many pieces, each of which changes all
    if (this.app.a.more && now - this.drawn < SELDOM_MS) return;
    this.drawn = now;
    this.version = table.version;
    this.ended = table.ended;
    this.told = told;
    this.drawTotals();
    this.drawFailures();
    this.drawFunctions();
    void this.drawTalk();
  }

  focus(): void {
    (this.element.firstElementChild as HTMLElement).focus();
  }

  // -- sums

  private drawTotals(): void {
    const { table, info, more } = this.app.a;
    let failed = 0, around = 0, tools = 0, prompt = 0, completion = 0, cached = 0;
    for (let row = 0; row < table.size; row++) {
      const own = isOwnFailure(table.get("outcome", row));
      failed += Number(own);
      around += Number(!own && isFailure(table.get("outcome", row)));
      tools += Number(table.text("kind", row) === "tool");
      prompt += Math.max(0, table.get("prompt", row));
      cached += Math.max(0, table.get("cached", row));
      completion += Math.max(0, table.get("completion", row));
    }
    const [first, last] = table.range();
    const state = more ? "reading" : info?.state === "finished" ? info.reason || "finished" : (info?.state ?? "");
    const items = info?.failures ?? [];
    const bad = failed > 0 || !!info?.error || !!info?.damage;
    const spent = this.known?.spent, reused = this.known?.reused;
    const cost = spent ? total(spent.cost ?? -1, spent.unknown["cost"] ?? 0) : "…";
    const saved = reused?.calls ? `${many(reused.calls, "call")} reused` : "";
    const cache = cached ? `${share(cached, prompt)} from a cache` : "";
    const used = tools ? many(tools, "tool call") : "";
    fill(
      this.totals,
      tile("Run", visible(state), brief(info?.error || info?.damage || items.join("; ")), bad && !!info?.error),
      tile("Calls", count(table.size - tools), used),
      tile("Failed", count(failed), [failed ? share(failed, table.size) : "", around ? `${count(around)} more in failed items` : ""].filter(Boolean).join(", "), failed > 0),
      tile("Time", table.size ? duration(last - first) : "–", ""),
      tile("Tokens", `${count(prompt)} → ${count(completion)}`, cache),
      tile("Cost", spent?.calls || !this.known ? cost : "$0", saved),
    );
  }

  // -- what was asked and answered

  private async drawTalk(): Promise<void> {
    const { table, a } = this.app;
    let first = -1, last = -1;
    for (let row = 0; row < table.size; row++) {
      if (table.text("kind", row) === "tool") continue;
      if (first < 0 || table.get("started", row) < table.get("started", first)) first = row;
      if (!table.answered(row)) continue;
      if (last < 0 || table.get("ended", row) >= table.get("ended", last)) last = row;
    }
    if (first < 0) {
      if (!a.more) fill(this.talk, h("p", { class: "note" }, "The run has asked no model."));
      return;
    }
    if (a.more && this.ends[1] >= 0) last = this.ends[1]; // of a long run, each piece has a later one
    const [before, after] = this.ends;
    if (before === first && after === last) return;
    this.ends = [first, last];
    try {
      // Both are asked for at once: a request may wait until a piece of the run was read.
      const [question, answer] = await Promise.all([
        before === first ? null : this.firstPrompt(first),
        last < 0 ? h("p", { class: "note" }, "There is no answer yet.") : this.lastAnswer(last),
      ]);
      if (question) fill(this.asked, question);
      if (this.ends[1] === last) fill(this.answered, answer);
      if (!this.asked.isConnected) fill(this.talk, this.asked, this.answered);
    } catch (error) {
      this.ends = [-1, -1];
      fill(this.talk, h("p", { role: "alert" }, String(error)));
    }
  }

  private async firstPrompt(row: number): Promise<HTMLElement> {
    const call = await this.app.a.call(row);
    const messages = await this.app.a.messages(call);
    return panel("First prompt", row, call.address, question(messages), "user");
  }

  private async lastAnswer(row: number): Promise<HTMLElement> {
    const call = await this.app.a.call(row);
    return panel("Last answer", row, call.address, said(call), "assistant");
  }

  // -- failures, each kind once

  private drawFailures(): void {
    const { table } = this.app;
    const kinds = new Map<string, number[]>();
    for (let row = 0; row < table.size; row++) {
      const outcome = table.get("outcome", row);
      if (!isOwnFailure(outcome)) continue;
      const words = outcome === 4 ? "refused" : (table.said[row] ?? "").slice(0, 160).replace(/\d+/g, "#");
      const known = kinds.get(words);
      if (known) known.push(row);
      else kinds.set(words, [row]);
    }
    if (!kinds.size) return fill(this.failures);
    const order = [...kinds.values()].sort((one, other) => other.length - one.length);
    const entries = order.slice(0, MOST_FAILURES).map((rows) => {
      const row = rows[0] ?? 0;
      const words = brief(table.said[row] ?? "") || "no answer";
      const refused = table.get("outcome", row) === 4 ? "answers were refused, such as " : "";
      return h(
        "li",
        {},
        h("span", { class: "failure" }, `${count(rows.length)} × `),
        refused,
        h("a", { href: `#/overview/${row}` }, words),
      );
    });
    const rest = order.length - entries.length;
    fill(
      this.failures,
      h("h2", {}, "What failed"),
      h("ul", { class: "failures" }, ...entries, rest > 0 && h("li", {}, `and ${count(rest)} other kinds`)),
    );
  }

  // -- functions

  private drawFunctions(): void {
    const { table } = this.app;
    const few = table.size <= FEW && table.scopeAt.size <= MOST_SCOPES;
    if (few !== this.few) this.open.clear();
    this.few = few;
    const root = grouped(table, few);
    if (!root.below.size) return fill(this.functions);
    this.openSome(root, few ? MOST_ROWS : OPEN_AT_FIRST);
    const rows: HTMLElement[] = [];
    for (const group of root.below.values()) this.rowsOf(group, group.name, rows);
    const shown = rows.slice(0, MOST_ROWS);
    const times = few ? ["Time"] : ["Runs", "Median time", "95%"];
    const head = ["Function", "Arguments", ...times, "Failed", "Prompt tokens", "Generated", "Cost", few ? "Result" : "Last result"];
    fill(
      this.functions,
      h("h2", {}, "Functions and calls"),
      h(
        "table",
        { class: "functions" },
        h("thead", {}, h("tr", {}, ...head.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, ...shown),
      ),
      rows.length > MOST_ROWS && h("p", { class: "note" }, `The first ${MOST_ROWS} of ${count(rows.length)} rows; close some, or see Calls.`),
    );
    this.mark();
  }

  /** Opens functions from the top, as long as what is shown stays short. */
  private openSome(root: Group, most: number): void {
    let shown = root.below.size;
    const queue: [string, Group][] = [...root.below.values()].map((group) => [group.name, group]);
    for (let next = queue.shift(); next; next = queue.shift()) {
      const [path, group] = next;
      if (!group.below.size) continue;
      shown += group.below.size;
      if (shown > most) return;
      if (!this.open.has(path)) this.open.set(path, true);
      for (const below of group.below.values()) queue.push([`${path}/${below.name}`, below]);
    }
  }

  private rowsOf(group: Group, path: string, rows: HTMLElement[]): void {
    if (rows.length > MOST_ROWS) {
      rows.push(h("tr", {})); // counted, not shown
      return;
    }
    rows.push(this.row(group, path));
    if (!this.open.get(path)) return;
    for (const below of group.below.values()) this.rowsOf(below, `${path}/${below.name}`, rows);
    if (group.rows.length < 2) return;
    for (const row of group.rows.slice(0, MOST_CALLS)) rows.push(this.call(row, group.depth + 1));
    const rest = group.rows.length - MOST_CALLS;
    if (rest > 0) rows.push(h("tr", {}, h("td", { colspan: 10, class: "note" }, `and ${count(rest)} more: see Calls`)));
  }

  private row(group: Group, path: string): HTMLElement {
    const { table } = this.app;
    const times = durations(group);
    const runs = group.activations.size;
    const opens = group.below.size > 0 || group.rows.length > 1;
    const only = group.calls === 1 ? (group.rows[0] ?? -1) : -1;
    const name = visible(group.name);
    const open = this.open.get(path) ?? false;
    const label: Child = opens
      ? h(
          "button",
          { type: "button", class: "opens", "aria-expanded": String(open), onclick: () => this.toggle(path) },
          h("span", { class: "twist", "aria-hidden": "true" }, open ? "▾" : "▸"),
          name,
        )
      : only >= 0
        ? h("a", { href: `#/overview/${only}` }, name)
        : name;
    const [at = ""] = runs === 1 ? group.activations.keys() : [];
    const given = table.given.get(at) ?? "";
    const answer = runs === 1 || only >= 0 ? (table.result(at) ?? table.said[group.last] ?? "") : "";
    const typical = duration(percentile(times, 0.5));
    return this.line(
      only, group.depth, [only >= 0 && outcomeSign(table.get("outcome", only)), label],
      given,
      [
        ...(this.few ? [typical] : [count(runs), typical, runs > 1 ? duration(percentile(times, 0.95)) : ""]),
        failures(group), count(group.prompt), count(group.completion), total(group.cost, group.unknown),
        brief(answer),
      ],
      group.failed > 0 || this.app.table.raised(at),
    );
  }

  private call(row: number, depth: number): HTMLElement {
    const { table } = this.app;
    const failed = isFailure(table.get("outcome", row));
    const address = visible(table.address[row] ?? "");
    return this.line(
      row, depth, [outcomeSign(table.get("outcome", row)), h("a", { href: `#/overview/${row}`, class: "address", title: address }, middle(address))],
      table.given.get(address.slice(0, address.lastIndexOf("/"))) ?? "",
      [
        "", duration(table.took(row)), "", failed ? "1" : "", count(table.get("prompt", row)),
        count(table.get("completion", row)),
        total(table.get("cost", row), Number(table.get("cost", row) < 0 && table.answered(row))),
        brief(table.said[row] ?? ""),
      ],
      failed,
    );
  }

  private line(
    row: number, depth: number, label: Child[], given: string, cells: string[], failed: boolean,
  ): HTMLElement {
    const name = h("th", { scope: "row" }, ...label);
    name.style.paddingInlineStart = `${0.4 + 1.1 * Math.min(depth, 20)}rem`;
    const last = cells.length - 1;
    const made = h(
      "tr",
      {},
      name,
      h("td", { class: "given", title: given && visible(given) }, brief(given)),
      ...cells.map((cell, i) =>
        h("td", { class: i === last ? (failed ? "said failure" : "said") : i === last - 4 && failed ? "number failure" : "number" }, cell),
      ),
    );
    if (row >= 0) made.dataset["row"] = String(row);
    return made;
  }

  private toggle(path: string): void {
    this.open.set(path, !this.open.get(path));
    const at = [...this.functions.querySelectorAll("button.opens")].indexOf(document.activeElement as Element);
    this.drawFunctions();
    if (at >= 0) (this.functions.querySelectorAll("button.opens")[at] as HTMLElement).focus();
  }

  private mark(): void {
    for (const each of this.functions.querySelectorAll<HTMLElement>("tr[data-row]")) {
      each.classList.toggle("chosen", each.dataset["row"] === String(this.app.chosen));
    }
  }
}

function failures(group: Group): string {
  if (!group.failed) return "";
  return group.calls > 1 ? `${count(group.failed)} (${share(group.failed, group.calls)})` : "1";
}

function tile(name: string, value: string, note: string, bad = false): HTMLElement {
  return h(
    "div",
    { class: bad ? "tile bad" : "tile" },
    h("dt", {}, name),
    h("dd", {}, h("strong", {}, value), note && h("span", { class: "note" }, note)),
  );
}

function panel(title: string, row: number, address: string, text: string, role: string): HTMLElement {
  const body = h("div", { class: "text", dir: "auto", tabindex: 0, role: "group", "aria-label": title });
  fill(body, visible(text.slice(0, LONG)), text.length > LONG && "…");
  return h(
    "section",
    { class: `message role-${role}`, "aria-label": title },
    h("h2", {}, title, " ", h("a", { href: `#/overview/${row}`, class: "address", title: address }, middle(visible(address)))),
    body,
  );
}

/** The last that a user said in a prompt, or the last message of any. */
function question(messages: MessageDoc[]): string {
  const asked = messages.filter((each) => each.role === "user").pop() ?? messages[messages.length - 1];
  return asked?.text ?? "";
}

function said(call: CallDoc): string {
  const sample = call.samples?.[0];
  if (!sample) return call.begun?.join("") ?? "";
  const calls = sample.calls.map(([, name, args]) => `${name}(${args})`);
  return [sample.text, ...calls].filter(Boolean).join("\n");
}

const WIDE = 44;

/** A long address, cut in its middle: the functions at both ends are seen. */
export function middle(address: string): string {
  if (address.length <= WIDE) return address;
  const tail = address.slice(address.length - Math.ceil(WIDE * 0.6));
  const cut = tail.indexOf("/");
  const end = cut >= 0 && cut < tail.length - 12 ? tail.slice(cut) : tail;
  return `${address.slice(0, WIDE - end.length - 1)}…${end}`;
}
