/** How outcomes look: a sign besides the colour. */

import { h } from "./dom";

const SIGNS = ["…", "✓", "✗", "⊘"];
const WORDS = ["in flight", "answered", "failed", "cancelled"];

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
