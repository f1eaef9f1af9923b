/** The questions of a run to people: what was answered by whom, and forms for those that are open. */

import type { App } from "../app";
import type { QuestionDoc } from "../data";
import { brief, fill, h, visible, type Child } from "../dom";

export class Questions {
  readonly element = h("div", {});
  private told = "";

  constructor(private readonly app: App) {}

  update(): void {
    const { info } = this.app.a;
    const questions = info?.questions ?? [], waits = info?.waits ?? [];
    const told = JSON.stringify([questions, waits, info?.answers]);
    if (told === this.told || this.element.contains(document.activeElement)) return;
    this.told = told;
    if (!questions.length && !waits.length) return fill(this.element);
    const first = [...questions].sort((one, other) => Number(other.open) - Number(one.open));
    fill(
      this.element,
      h("h2", {}, "Questions and waits"),
      ...waits.map((each) => h("p", {}, `Waits for ${visible(each)}`)),
      ...first.map((each) => this.question(each, info?.answers ?? false)),
    );
  }

  private question(each: QuestionDoc, answers: boolean): HTMLElement {
    const due = each.due === null ? "" : `, until ${new Date(each.due * 1000).toISOString().slice(0, 16).replace("T", " ")} UTC`;
    const by = each.by ? ` by ${each.by}` : "";
    const value = each.value && !each.tool ? `: ${each.value}` : "";
    return h(
      "article",
      { class: "message role-user question" },
      h("h3", {}, brief(each.text)),
      each.tool && h("p", { class: "address" }, visible(`${each.tool}(${each.arguments})`)),
      h("p", { class: "note" }, visible(`${each.verdict}${by}${value}${each.open ? due : ""}; ${each.address}`)),
      each.open && answers && this.form(each),
    );
  }

  private form(each: QuestionDoc): HTMLElement {
    const said = h("p", { class: "note", role: "status" });
    const text = h("input", { type: "text", "aria-label": `Answer to ${visible(each.address)}` });
    const send = async (answer: string): Promise<void> => {
      try {
        fill(said, visible(await this.app.source.answer(each.address, answer)));
      } catch (error) {
        fill(said, h("span", { class: "failure" }, visible(error instanceof Error ? error.message : String(error))));
      }
    };
    const button = (name: string, answer: () => string): HTMLElement =>
      h("button", { type: "button", onclick: () => void send(answer()) }, visible(name));
    const parts: Child[] = each.tool
      ? [
          button("Approve", () => "yes"),
          button("Refuse", () => (text.value ? `no: ${text.value}` : "no")),
          h("label", {}, " reason ", text),
        ]
      : each.choices.length
        ? each.choices.map((choice) => button(choice, () => choice))
        : [h("label", {}, each.json ? "JSON " : "", text), button("Answer", () => text.value)];
    return h("div", {}, h("div", { class: "answers" }, ...parts), said);
  }
}
