/** Two runs side by side: which calls differ, which of these came first, and in what. */

import type { App, Run, View } from "../app";
import type { CallDoc, Comparison, MessageDoc } from "../data";
import { differing } from "../differing";
import { brief, fill, h, visible, type Child } from "../dom";
import { count } from "../format";
import { List } from "../list";

export class Diff implements View {
  readonly name = "diff";
  readonly title = "Compare";
  readonly element: HTMLElement;
  private readonly list: List;
  private readonly sums = h("div", { class: "bar", role: "group", "aria-label": "Which calls are shown" });
  private readonly detail = h("div", {
    class: "scroll diff-detail", tabindex: 0, role: "region", "aria-label": "What differs",
  });
  private found: Comparison | null = null;
  private shown: number[] = [];
  private hidden = new Set<number>([0]);
  private version = "";
  private ticket = 0;

  constructor(private readonly app: App) {
    this.list = new List({
      label: "Compared calls, first causes first",
      role: "listbox",
      className: "diffs",
      count: () => this.shown.length,
      render: (index, entry) => this.render(this.shown[index] ?? 0, entry),
      chosen: (index) => void this.choose(this.shown[index] ?? 0),
    });
    this.element = h("section", { class: "view", "aria-label": "Comparison of two runs" });
  }

  update(): void {
    const { a, b } = this.app;
    if (!b) {
      const how = h("code", {}, `appl trace view ${visible(a.info?.name ?? "RUN")} --diff OTHER`);
      fill(this.element, h("p", { class: "note" }, "To compare this run with another, start the viewer with both: ", how));
      return;
    }
    if (!this.element.contains(this.list.element)) {
      fill(this.element, this.sums, h("div", { class: "halves" }, this.list.element, this.detail));
    }
    const version = `${a.table.version} ${b.table.version}`;
    if (version !== this.version && !a.more && !b.more) {
      this.version = version;
      void this.load();
    } else this.list.update();
  }

  focus(): void {
    this.list.element.focus();
  }

  private async load(): Promise<void> {
    try {
      this.found = await this.app.source.diff();
      this.narrow();
    } catch (error) {
      fill(this.sums, h("p", { role: "alert" }, String(error)));
    }
  }

  private narrow(): void {
    const found = this.found;
    if (!found) return;
    const counts = found.names.map(() => 0);
    for (const status of found.status) counts[status] = (counts[status] ?? 0) + 1;
    const boxes = found.names.map((name, status) => {
      const box = h("input", {
        type: "checkbox",
        checked: !this.hidden.has(status),
        onchange: () => {
          if (!this.hidden.delete(status)) this.hidden.add(status);
          this.list.active = -1;
          this.select();
        },
      });
      return h("label", {}, box, ` ${name} ${count(counts[status] ?? 0)}`);
    });
    const b = this.app.b?.info?.name ?? "";
    const title = `A: ${visible(this.app.a.info?.name ?? "")}, B: ${visible(b)}`;
    fill(this.sums, h("span", { class: "note" }, title), ...boxes);
    this.select();
  }

  /** First causes before what follows from others, each in the order of the run. */
  private select(): void {
    const found = this.found;
    if (!found) return;
    const shown = found.status.flatMap((status, i) => (this.hidden.has(status) ? [] : [i]));
    this.shown = [
      ...shown.filter((i) => (found.cause[i] ?? -1) < 0),
      ...shown.filter((i) => (found.cause[i] ?? -1) >= 0),
    ];
    this.list.update();
    if (this.list.active >= 0) return;
    const note = this.shown.length ? "Choose a call to see what differs." : "No call differs.";
    fill(
      this.detail,
      h("p", { class: "note" }, note),
      ...found.others.map(([kind, name, one, other]) => part(`${kind}: ${name}`, one, other)),
    );
  }

  private address(entry: number): string {
    const { a, b } = this.app;
    const row = this.found?.a[entry] ?? -1;
    const other = this.found?.b[entry] ?? -1;
    return brief((row >= 0 ? a.table.address[row] : b?.table.address[other]) ?? "");
  }

  private render(index: number, entry: HTMLElement): void {
    const status = this.found?.status[index] ?? 0;
    const cause = this.found?.cause[index] ?? -1;
    entry.classList.add("diffs");
    entry.append(
      h("span", { class: `status status-${status}` }, this.found?.names[status] ?? ""),
      h("span", { class: "address" }, this.address(index)),
      h("span", { class: "note" }, cause >= 0 ? `follows from ${this.address(cause)}` : ""),
    );
  }

  private async choose(index: number): Promise<void> {
    const { a, b } = this.app;
    const ticket = ++this.ticket;
    if (!b || !this.found) return;
    this.app.choose(this.found.a[index] ?? -1);
    const head = h("h2", { class: "address" }, this.address(index));
    try {
      const one = await whole(a, this.found.a[index] ?? -1);
      const other = await whole(b, this.found.b[index] ?? -1);
      if (ticket !== this.ticket) return;
      fill(this.detail, head, ...compared(one, other));
      this.detail.scrollTop = 0;
    } catch (error) {
      fill(this.detail, head, h("p", { role: "alert" }, String(error)));
    }
  }
}

interface Whole {
  call: CallDoc;
  messages: MessageDoc[];
}

async function whole(run: Run, row: number): Promise<Whole | null> {
  if (row < 0) return null;
  const call = await run.call(row);
  return { call, messages: await run.messages(call) };
}

function compared(one: Whole | null, other: Whole | null): Child[] {
  const parts: Child[] = [];
  const size = Math.max(one?.messages.length ?? 0, other?.messages.length ?? 0);
  for (let i = 0; i < size; i++) {
    const a = one?.messages[i];
    const b = other?.messages[i];
    const role = [...new Set([a?.role ?? "–", b?.role ?? "–"])].join(" / ");
    parts.push(part(`Prompt, message ${i + 1}: ${role}`, a?.text ?? "", b?.text ?? ""));
  }
  parts.push(part("Arguments", one?.call.arguments ?? "", other?.call.arguments ?? ""));
  const set = (each: Whole | null): string => (each ? JSON.stringify(each.call.settings ?? {}) : "");
  parts.push(part("Model", one?.call.model ?? "", other?.call.model ?? ""));
  parts.push(part("Settings", set(one), set(other)));
  parts.push(part("Answer", answered(one), answered(other)));
  return parts.filter(Boolean);
}

function answered(each: Whole | null): string {
  if (!each) return "";
  const { call } = each;
  const samples = (call.samples ?? []).map((sample) => {
    const calls = sample.calls.map(([, name, args]) => `${name}(${args})`);
    return [sample.text, ...calls].filter(Boolean).join("\n");
  });
  return [...samples, call.result?.text ?? "", ...(call.error ?? [])].filter(Boolean).join("\n\n");
}

function part(title: string, one: string, other: string): Child {
  if (!one && !other) return null;
  if (one === other) return h("p", { class: "note" }, `${visible(title)}: the same`);
  const body = h("div", { class: "text", dir: "auto" });
  for (const [kind, text] of differing(one, other)) {
    if (kind === "same") body.append(visible(text));
    else {
      const word = kind === "out" ? "only in A: " : "only in B: ";
      body.append(
        h(kind === "out" ? "del" : "ins", {}, h("span", { class: "unseen" }, word), visible(text)),
      );
    }
  }
  return h("section", { "aria-label": title }, h("h3", {}, visible(title)), body);
}
