/** How outcomes and phases of calls are called, and what sign an outcome has besides its colour. */

import { h, visible } from "./dom";

const SIGNS = ["…", "✓", "✗", "⊘"];
const WORDS = ["in flight", "answered", "failed", "cancelled"];

const PHASES: Record<string, string> = {
  queue: "waits for its turn",
  rate: "waits for the rate",
  budget: "waits for the budget",
  circuit: "waits for the circuit",
  retry: "failed attempts",
  prefill: "until the first piece",
  decode: "is answered",
  answer: "is answered",
  tool: "tool runs",
  delivery: "answer waits for the program",
  program: "program",
};

/** What a part of the time went to, in words. */
export function phase(kind: string): string {
  return PHASES[kind] ?? visible(kind);
}

/** The word for an outcome's number. */
export function outcomeWord(outcome: number): string {
  return WORDS[outcome] ?? "?";
}

/** A sign for an outcome, with its word for those who do not see it. */
export function outcomeSign(outcome: number): HTMLElement {
  return h(
    "span",
    { class: `outcome outcome-${outcome}`, title: outcomeWord(outcome) },
    h("span", { "aria-hidden": "true" }, SIGNS[outcome] ?? "?"),
    h("span", { class: "unseen" }, outcomeWord(outcome)),
  );
}
