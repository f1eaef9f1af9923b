/** How outcomes, and what takes the time of calls, are called; the sign of an outcome besides its colour. */

import { h, visible } from "./dom";

const SIGNS = ["…", "✓", "✗", "⊘", "✗", "✗"];
const WORDS = ["in flight", "answered", "failed", "cancelled", "refused", "in a failed item"];
/** Outcomes that are failures: of a call, of its answer, of the item around it. */
const FAILURES = [2, 4, 5];

/** Whether an outcome's number is that of a failure. */
export function isFailure(outcome: number): boolean {
  return FAILURES.includes(outcome);
}

/** Whether it is a failure of the call itself, or of its answer. */
export function isOwnFailure(outcome: number): boolean {
  return outcome === 2 || outcome === 4;
}

const PHASES: Record<string, string> = {
  queue: "waiting for its turn",
  rate: "waiting for the rate",
  budget: "waiting for the budget",
  circuit: "waiting for the circuit",
  retry: "failed attempts",
  prefill: "until the first piece",
  decode: "being answered",
  answer: "being answered",
  tool: "running a tool",
  delivery: "waiting to be read",
  program: "running the program",
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
