/** The run itself: what was started, where, by whom it was answered, warnings. */

import type { App, View } from "../app";
import { fill, h, visible } from "../dom";
import { count, duration } from "../format";

export class About implements View {
  readonly name = "run";
  readonly title = "Run";
  readonly element: HTMLElement;
  private readonly body = h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "About the run" });

  constructor(private readonly app: App) {
    this.element = h("section", { class: "view", "aria-label": "About the run" }, this.body);
  }

  update(): void {
    const runs = [this.app.a, ...(this.app.b ? [this.app.b] : [])];
    const parts: HTMLElement[] = [];
    for (const { info, table } of runs) {
      if (!info) continue;
      const list = h("dl", { class: "facts" });
      const [first, last] = table.range();
      const facts: [string, string][] = [
        ["state", [...new Set([info.state, info.reason])].filter(Boolean).join(", ")],
        ["error", info.error],
        ["damage", info.damage],
        ["began", info.began.replace("T", " ").replace(/\.\d+/, "").replace("+00:00", " UTC")],
        ["calls", count(table.size)],
        ["calls took", table.size ? `${duration(last - first)}, from the first start to the last end` : ""],
        ["records", count(info.records)],
        ["observations", info.observations ? `${count(info.observations)} of clock, chance and files` : ""],
        ["masked records", info.masked ? count(info.masked) : ""],
        ["torn bytes", info.torn ? count(info.torn) : ""],
        ...info.processes.map(
          (each): [string, string] => ["process", `${each.pid} on ${each.host}: ${each.reason}`],
        ),
        ...info.warnings.map(([address, said]): [string, string] => ["warning", `${address} ${said}`]),
      ];
      for (const [name, value] of facts) {
        if (value) list.append(h("dt", {}, name), h("dd", {}, visible(value)));
      }
      const header = visible(JSON.stringify(info.header, null, 2));
      parts.push(
        h("h2", {}, visible(info.name)),
        list,
        h("h3", {}, "Header"),
        h("div", { class: "text" }, header),
      );
    }
    fill(this.body, ...parts);
  }

  focus(): void {
    this.body.focus();
  }
}
