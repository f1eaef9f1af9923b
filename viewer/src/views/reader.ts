/** One call in full: its prompt with where each piece is from, its answers, what it took. */

import type { App, Run } from "../app";
import type { AttemptDoc, CallDoc, MessageDoc, SampleDoc, SpanDoc, ToolCallDoc } from "../data";
import { fill, h, visible, type Child } from "../dom";
import { count, duration, money, share } from "../format";
import { phase } from "../outcome";

const LONG = 20_000;
const EDGES = 50;

export class Reader {
  readonly element: HTMLElement;
  private shown = -1;
  private version = -1;
  private asked = 0;

  constructor(private readonly app: App) {
    this.element = h("aside", { id: "reader", "aria-label": "The chosen call", tabindex: -1 });
    app.on("choice", () => void this.show());
    app.on("data", () => {
      if (this.app.table.version !== this.version && this.changed()) void this.show();
    });
    this.empty();
  }

  private empty(): void {
    fill(this.element, h("p", { class: "note" }, "Choose a call to read its prompt and answer."));
  }

  /** Whether the shown call was in flight when it was drawn. */
  private changed(): boolean {
    return this.shown >= 0 && this.element.dataset["outcome"] === "in flight";
  }

  private async show(): Promise<void> {
    const row = this.app.chosen;
    const ticket = ++this.asked;
    if (row < 0) return this.empty();
    this.version = this.app.table.version;
    try {
      const call = await this.app.a.call(row);
      const messages = await this.app.a.messages(call);
      if (ticket !== this.asked) return;
      const same = this.shown === row;
      this.shown = row;
      this.element.dataset["outcome"] = call.outcome;
      this.element.dataset["row"] = String(row);
      fill(this.element, ...callParts(this.app.a, call, messages));
      if (!same) {
        this.element.scrollTop = 0;
        this.app.announce(`${call.address}, ${call.outcome}`);
      }
    } catch (error) {
      if (ticket === this.asked) fill(this.element, h("p", { role: "alert" }, String(error)));
    }
  }
}

/** All there is to show of a call. */
export function callParts(run: Run, call: CallDoc, messages: MessageDoc[]): Child[] {
  const parts: Child[] = [
    h("h2", { class: "address" }, visible(call.address)),
    facts(run, call),
  ];
  if (call.kind === "tool") {
    parts.push(h("h3", {}, "Arguments"), text(call.arguments ?? ""));
    if (call.result) parts.push(h("h3", {}, "Result"), message(run, call.result, []));
  } else {
    parts.push(h("h3", {}, "Prompt"));
    messages.forEach((each, number) => {
      const spans = (call.spans ?? []).filter((span) => span[0] === number);
      parts.push(message(run, each, spans));
    });
    if (!messages.length) parts.push(h("p", { class: "note" }, "There is no prompt in the record."));
    parts.push(...answers(call));
  }
  if (call.error) {
    const [kind, said] = call.error;
    parts.push(h("h3", {}, "Error"), h("p", { class: "failure" }, visible(kind)), text(said));
  }
  parts.push(edges(run, "Holds the answers of", run.table.uses(call.row)));
  parts.push(edges(run, "Its answer stands in", run.table.usedBy(call.row)));
  return parts;
}

function facts(run: Run, call: CallDoc): HTMLElement {
  const { table } = run;
  const { row } = call;
  const known: [string, string | undefined][] = [
    ["outcome", call.outcome],
    ["kind", call.kind === "tool" ? `tool ${call.name ?? ""} (${call.effect ?? ""})` : call.kind],
    ["model", call.model],
    ["answered by", call.answered_by === call.model ? "" : call.answered_by],
    ["source", run.place(call.where)],
    ["took", timing(run, call)],
    ["tokens", tokens(run, row)],
    ["cost", table.get("cost", row) < 0 && !table.answered(row) ? "" : money(table.get("cost", row))],
    ["settings", settings(call.settings)],
    ["samples", call.n !== undefined && call.n > 1 ? String(call.n) : ""],
    ["stream", call.chunks ? `in ${call.chunks} pieces` : ""],
    ["answer from", call.source ? `${call.source}${call.of ? ` ${call.of}` : ""}` : ""],
    ["masked", call.masked.join(", ")],
    ["digest", call.content],
  ];
  const list = h("dl", { class: "facts" });
  for (const [name, value] of known) {
    if (value) list.append(h("dt", {}, name), h("dd", {}, visible(value)));
  }
  for (const attempt of call.attempts ?? []) {
    if (attempt.error) list.append(h("dt", {}, `attempt ${attempt.number}`), failed(attempt));
  }
  return list;
}

function failed(attempt: AttemptDoc): HTMLElement {
  const [kind, said] = attempt.error ?? ["", ""];
  const wait = attempt.wait ? `; again after ${duration(attempt.wait)}` : "";
  return h("dd", { class: "failure" }, visible(`${kind}: ${said}${wait}`));
}

function timing(run: Run, call: CallDoc): string {
  const took = run.table.took(call.row);
  if (took < 0) return "";
  const parts = (call.phases ?? []).map(([kind, each]) => `${phase(kind)} ${duration(each)}`);
  return [duration(took), parts.join(", ")].filter(Boolean).join(": ");
}

function tokens(run: Run, row: number): string {
  const { table } = run;
  const prompt = table.get("prompt", row);
  if (prompt < 0 && table.get("completion", row) < 0) return "";
  const cached = table.get("cached", row);
  const hit = cached < 0 ? "not said" : `${count(cached)} (${share(cached, prompt)})`;
  const written = table.get("written", row), reasoning = table.get("reasoning", row);
  const wrote = written > 0 ? `, written to the cache ${count(written)}` : "";
  const thought = reasoning > 0 ? ` (${count(reasoning)} of reasoning)` : "";
  const generated = count(table.get("completion", row));
  return `${count(prompt)} prompt, cached ${hit}${wrote}, ${generated} generated${thought}`;
}

function settings(given: Record<string, unknown> | undefined): string {
  const pairs = Object.entries(given ?? {});
  return pairs.map(([name, value]) => `${name}=${setting(name, value)}`).join(", ");
}

/** A setting in little room: of tools, which are schemas as JSON text, the names. */
function setting(name: string, value: unknown): string {
  if (name !== "tools" || !Array.isArray(value)) return JSON.stringify(value);
  const names = value.map((each) => /^\{"name":"([^"\\]+)"/.exec(String(each))?.[1]);
  return names.includes(undefined) ? JSON.stringify(value) : `[${names.join(", ")}]`;
}

/** A message: who says it, and its text, in which the pieces that calls gave are links to them. */
export function message(run: Run, said: MessageDoc, spans: SpanDoc[]): HTMLElement {
  const about = [said.name, said.of ? `answers ${said.of}` : "", said.error ? "failed" : ""];
  const title = [said.role, ...about.filter(Boolean)].join(", ");
  const body = h("div", { class: "text", dir: "auto" });
  pieces(body, run, said, spans, LONG);
  return h(
    "article",
    { class: `message role-${ROLES.includes(said.role) ? said.role : "other"}` },
    h("h4", {}, visible(title)),
    body,
    sources(run, said, spans),
    ...(said.calls ?? []).map(toolCall),
  );
}

/** The lines of the program that said the message, for those who cannot point at its pieces. */
function sources(run: Run, said: MessageDoc, spans: SpanDoc[]): Child {
  const known = spans.filter(([, , , , where]) => where);
  if (!known.length) return null;
  const list = h("ol", { class: "sources" });
  for (const [, start, stop, , where] of known.slice(0, EDGES)) {
    const begin = said.text.slice(start, Math.min(stop, start + 60)).replace(/\s+/g, " ");
    list.append(h("li", {}, h("code", {}, visible(run.place(where))), ` ${visible(begin)}`));
  }
  if (known.length > EDGES) list.append(h("li", {}, `and ${count(known.length - EDGES)} more`));
  return h("details", {}, h("summary", {}, "Where its text is from"), list);
}

const ROLES = ["system", "user", "assistant", "tool"];

function pieces(body: HTMLElement, run: Run, said: MessageDoc, spans: SpanDoc[], most: number): void {
  const parts: Child[] = [];
  const media = [...(said.media ?? [])];
  const plain = (start: number, end: number): void => {
    let at = start;
    while (media.length && (media[0]?.[0] ?? 0) <= end) {
      const [offset, what] = media.shift() ?? [0, ""];
      parts.push(visible(said.text.slice(at, offset)));
      parts.push(h("span", { class: "medium" }, visible(what)));
      at = Math.max(at, offset);
    }
    parts.push(visible(said.text.slice(at, end)));
  };
  let at = 0;
  const end = Math.min(said.text.length, most);
  for (const [, start, stop, row, where] of spans) {
    if (start < at || start >= end) continue;
    plain(at, start);
    parts.push(origin(run, visible(said.text.slice(start, Math.min(stop, end))), row, where));
    at = Math.min(stop, end);
  }
  plain(at, end);
  fill(body, ...parts);
  if (end < said.text.length) {
    const more = h(
      "button",
      {
        type: "button",
        onclick: () => pieces(body, run, { ...said, media: said.media ?? [] }, spans, Infinity),
      },
      `Show all ${count(said.text.length)} characters`,
    );
    body.append(h("br"), more);
  }
}

/** A piece of a prompt that is a call's answer, or the text of a source line. */
function origin(run: Run, said: string, row: number, where: string): HTMLElement {
  const place = visible(run.place(where));
  const from = row < 0 ? place : visible(run.table.address[row] ?? "");
  const tip = where && row >= 0 ? `${from}, ${place}` : from;
  if (row < 0) return h("span", { class: "origin-line", title: tip }, said);
  return h(
    "a",
    { class: "origin", href: `#/calls/${row}`, title: `from ${tip}` },
    said,
    h("span", { class: "unseen" }, ` (from ${from})`),
  );
}

function answers(call: CallDoc): Child[] {
  const parts: Child[] = [];
  const samples = call.samples ?? [];
  samples.forEach((sample, i) => {
    const title = samples.length > 1 ? `Answer ${i + 1} of ${samples.length}` : "Answer";
    const score = call.scores?.[i];
    const more = `${sample.finish}${score === undefined ? "" : `, score ${score}`}`;
    parts.push(h("h3", {}, title, h("span", { class: "note" }, ` ${visible(more)}`)));
    parts.push(h("article", { class: "message role-assistant" }, ...answer(sample)));
  });
  if (!samples.length && call.begun?.length) {
    parts.push(h("h3", {}, "Had said"), ...call.begun.map((said) => text(said)));
  }
  return parts;
}

function answer(sample: SampleDoc): Child[] {
  const thought = sample.reasoning
    ? h("details", {}, h("summary", {}, "Reasoning"), text(sample.reasoning))
    : null;
  const said = sample.text || !sample.calls.length ? text(sample.text) : null;
  return [thought, said, ...sample.calls.map(toolCall)];
}

function toolCall([id, name, args]: ToolCallDoc): HTMLElement {
  return h(
    "div",
    { class: "tool-call" },
    h("h4", {}, visible(`calls ${name}`), h("span", { class: "note" }, ` ${visible(id)}`)),
    text(args),
  );
}

/** A block of recorded text; of a very long one the beginning, until more is wanted. */
export function text(said: string): HTMLElement {
  const body = h("div", { class: "text answer", dir: "auto" }, visible(said.slice(0, LONG)));
  if (said.length > LONG) {
    const more = h(
      "button",
      { type: "button", onclick: () => fill(body, visible(said)) },
      `Show all ${count(said.length)} characters`,
    );
    body.append(h("br"), more);
  }
  return body;
}

function edges(run: Run, title: string, rows: number[]): Child {
  if (!rows.length) return null;
  const list = h("ul", { class: "edge-list" });
  for (const row of rows.slice(0, EDGES)) {
    const name = visible(run.table.address[row] ?? "");
    list.append(h("li", {}, h("a", { href: `#/calls/${row}` }, name)));
  }
  if (rows.length > EDGES) list.append(h("li", {}, `and ${count(rows.length - EDGES)} more`));
  return h("section", { "aria-label": title }, h("h3", {}, title), list);
}
