/** The page over many runs: search, filters, order, cost by day, and scores of evaluations. */

import type { ListedRun, RunListDoc } from "./data";
import { brief, fill, h, visible, type Child } from "./dom";
import { count, duration, many, money, total } from "./format";
import * as theme from "./theme";

const OFTEN_MS = 1_000;
const SELDOM_MS = 3_000;
const TYPING_MS = 150;
const PAGE = 200;
const DAYS = 31;
const EVALUATIONS = 6;
const EVALUATED_RUNS = 12;

type Order = "began" | "program" | "state" | "seconds" | "calls" | "failed" | "tokens" | "cost";
const COLUMNS: [Order, string][] = [
  ["began", "Started"], ["program", "Program"], ["state", "State"], ["seconds", "Duration"],
  ["calls", "Calls"], ["failed", "Failed"], ["tokens", "Tokens"], ["cost", "Cost"],
];
const BAD = new Set(["failed", "crashed", "unreadable"]);

/** What is looked for; it stands in the page's address, so that the way back keeps it. */
interface Wanted {
  text: string;
  state: string;
  program: string;
  order: Order;
  rising: boolean;
}

export class Runs {
  private runs: ListedRun[] = [];
  private version = "";
  private home = "";
  private failure = "";
  private shown = PAGE;
  private wanted: Wanted = wantedIn(location.hash);
  /** The runs whose prompts or answers hold the text. */
  private found = new Set<string>();
  private typing = 0;
  private readonly state = h("p", { class: "state", role: "status" });
  private readonly progress = h("p", { class: "note" });
  private readonly search = h("input", {
    type: "search", id: "search", autocomplete: "off", spellcheck: "false", oninput: () => this.later(),
  });
  private readonly states = h("select", { id: "states", onchange: () => this.choose() });
  private readonly programs = h("select", { id: "programs", onchange: () => this.choose() });
  private readonly sums = h("dl", { class: "totals" });
  private readonly days = h("section", { class: "days", "aria-label": "Cost by day" });
  private readonly scores = h("section", { class: "scores", "aria-label": "Scores of evaluations" });
  private readonly table = h("div", {});
  private readonly themes = h("button", { type: "button", onclick: () => this.nextTheme() });

  start(): void {
    theme.apply();
    this.themes.textContent = `Theme: ${theme.current()}`;
    document.title = "runs · appl trace";
    document.body.append(
      h("a", { class: "skip", href: "#main", onclick: (event) => this.skip(event) }, "Skip to the runs"),
      h("header", {}, h("h1", {}, "Runs"), this.state, this.themes),
      h(
        "nav",
        { "aria-label": "Search and filters", class: "filters" },
        h("label", { for: "search" }, "Search"), this.search,
        h("label", { for: "states" }, "State"), this.states,
        h("label", { for: "programs" }, "Program"), this.programs,
        this.progress,
      ),
      h(
        "main",
        { id: "main", tabindex: -1 },
        h(
          "div",
          { class: "scroll overview", tabindex: 0, role: "group", "aria-label": "List of runs" },
          this.sums,
          h("div", { class: "charts" }, this.days, this.scores),
          this.table,
        ),
      ),
    );
    this.search.value = this.wanted.text;
    window.addEventListener("keydown", (event) => this.onKey(event));
    window.addEventListener("hashchange", () => this.go());
    void this.read();
  }

  // -- data

  private async read(): Promise<void> {
    let pause = SELDOM_MS;
    try {
      const found = await ask<RunListDoc>(`list?version=${encodeURIComponent(this.version)}`);
      const changed = found.version !== this.version || this.failure !== "";
      this.failure = "";
      if (found.runs) {
        this.runs = found.runs;
        this.home = found.home ?? "";
        const read = found.read ?? 0, of = found.of ?? 0;
        this.progress.textContent = read < of ? `texts of ${count(read)} of ${many(of, "run")} are read` : "";
        if (read < of) pause = OFTEN_MS;
      }
      this.version = found.version;
      if (changed) await this.look();
    } catch (error) {
      this.failure = `The server does not answer: ${String(error)}`;
      this.draw();
    }
    if (this.runs.some((run) => run.state === "running")) pause = OFTEN_MS;
    setTimeout(() => void this.read(), document.visibilityState === "hidden" ? 4 * SELDOM_MS : pause);
  }

  /** Asks in which runs the text stands, and draws. */
  private async look(): Promise<void> {
    const { text } = this.wanted;
    if (text.length > 1) {
      const found = await ask<string[]>(`found?${new URLSearchParams({ text }).toString()}`);
      if (text !== this.wanted.text) return;
      this.found = new Set(found);
    } else this.found.clear();
    this.draw();
  }

  // -- what is wanted

  private later(): void {
    clearTimeout(this.typing);
    this.typing = window.setTimeout(() => {
      this.wanted.text = this.search.value.trim();
      this.remember();
      void this.look().catch(() => this.draw());
    }, TYPING_MS);
  }

  private choose(): void {
    this.wanted.state = this.states.value;
    this.wanted.program = this.programs.value;
    this.remember();
    this.draw();
  }

  private sort(order: Order): void {
    const same = this.wanted.order === order;
    this.wanted.rising = same ? !this.wanted.rising : order === "program" || order === "state";
    this.wanted.order = order;
    this.remember();
    this.draw();
    this.table.querySelector<HTMLElement>(`button[data-order="${order}"]`)?.focus();
  }

  private remember(): void {
    this.shown = PAGE;
    const { text, state, program, order, rising } = this.wanted;
    const told = new URLSearchParams();
    if (text) told.set("text", text);
    if (state) told.set("state", state);
    if (program) told.set("program", program);
    if (order !== "began" || rising) told.set("order", (rising ? "+" : "-") + order);
    history.replaceState(null, "", `#${told.toString()}`);
  }

  private go(): void {
    this.wanted = wantedIn(location.hash);
    this.search.value = this.wanted.text;
    void this.look().catch(() => this.draw());
  }

  private chosen(): ListedRun[] {
    const { text, state, program, order, rising } = this.wanted;
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (run: ListedRun): boolean => {
      if (!words.length || this.found.has(run.name)) return true;
      const texts = [run.question, run.answer, run.error].join("\n").toLowerCase();
      const names = [run.name, run.program, run.state, ...run.models].join("\n").toLowerCase();
      return texts.includes(text.toLowerCase()) || words.every((word) => names.includes(word));
    };
    const kept = this.runs.filter(
      (run) => (!state || run.state === state) && (!program || run.program === program) && has(run),
    );
    const value = (run: ListedRun): string | number => (order === "cost" ? (run.cost ?? -1) : run[order]);
    const sign = rising ? 1 : -1;
    return kept.sort((one, other) => {
      const a = value(one), b = value(other);
      return a === b ? (one.name < other.name ? 1 : -1) : a < b ? -sign : sign;
    });
  }

  // -- drawing

  private draw(): void {
    const focused = this.nameOf(document.activeElement);
    const chosen = this.chosen();
    const of = chosen.length < this.runs.length ? ` of ${count(this.runs.length)}` : "";
    const where = this.home ? ` in ${visible(this.home)}` : "";
    this.state.textContent = [`${count(chosen.length)}${of} runs${where}`, this.failure].filter(Boolean).join("; ");
    this.state.dataset["state"] = "finished";
    this.drawChoices();
    this.drawSums(chosen);
    this.drawDays(chosen);
    this.drawScores(chosen);
    this.drawTable(chosen);
    if (focused) [...this.table.querySelectorAll<HTMLElement>("a, button")].find((each) => this.nameOf(each) === focused)?.focus();
  }

  /** What tells a link or a button of the table from the others, also when it is drawn anew. */
  private nameOf(element: Element | null): string {
    if (!(element instanceof HTMLElement) || !this.table.contains(element)) return "";
    return element.dataset["order"] ?? element.title;
  }

  private drawChoices(): void {
    choices(this.states, this.wanted.state, counted(this.runs.map((run) => run.state)));
    choices(this.programs, this.wanted.program, counted(this.runs.map((run) => run.program)));
  }

  private drawSums(runs: ListedRun[]): void {
    let calls = 0, failed = 0, tokens = 0, cost = 0, unknown = 0, bad = 0, open = 0;
    for (const run of runs) {
      calls += run.calls;
      failed += run.failed;
      tokens += run.tokens;
      cost += run.cost ?? 0;
      unknown += run.unpriced;
      bad += Number(BAD.has(run.state));
      open += Number(run.state === "waiting" || run.state === "running");
    }
    fill(
      this.sums,
      tile("Runs", count(runs.length), open ? `${count(open)} running or waiting` : ""),
      tile("Failed runs", count(bad), "", bad > 0),
      tile("Calls", count(calls), failed ? `${count(failed)} failed` : ""),
      tile("Tokens", count(tokens), ""),
      tile("Cost", total(cost, unknown), ""),
    );
  }

  private drawDays(runs: ListedRun[]): void {
    const days = new Map<string, number>();
    for (const run of runs) {
      const day = run.began && new Date(run.began).toLocaleDateString("sv-SE");
      if (day) days.set(day, (days.get(day) ?? 0) + (run.cost ?? 0));
    }
    const shown = [...days].sort().slice(-DAYS);
    const most = Math.max(...shown.map(([, cost]) => cost), 1);
    if (!shown.some(([, cost]) => cost > 0)) return fill(this.days);
    const bars = shown.map(([day, cost]) => {
      const bar = h("span", { class: "bar-of-day", "aria-hidden": "true" });
      bar.style.blockSize = `${cost > 0 ? Math.max(2, Math.round((54 * cost) / most)) : 0}px`;
      return h(
        "li",
        { title: `${day}: ${money(cost)}` },
        bar,
        h("span", { class: "day", "aria-hidden": "true" }, String(Number(day.slice(8)))),
        h("span", { class: "unseen" }, `${day}: ${money(cost)}`),
      );
    });
    fill(this.days, h("h2", {}, "Cost by day ", h("span", { class: "note" }, `at most ${money(most)}`)), h("ol", {}, ...bars));
  }

  private drawScores(runs: ListedRun[]): void {
    const series = new Map<string, [ListedRun, number][]>();
    for (const run of [...runs].sort((one, other) => (one.began < other.began ? -1 : 1))) {
      for (const each of run.evaluations) {
        for (const [name, mean] of Object.entries(each.scores)) {
          const key = `${each.program}: ${name}`;
          const known = series.get(key);
          if (known) known.push([run, mean]);
          else series.set(key, [[run, mean]]);
        }
      }
    }
    if (!series.size) return fill(this.scores);
    const shown = [...series].slice(0, EVALUATIONS);
    const left = series.size - shown.length;
    fill(
      this.scores,
      h("h2", {}, "Scores of evaluations"),
      ...shown.map(([name, points]) =>
        h(
          "div",
          { class: "series" },
          h("h3", {}, brief(name)),
          h("ol", {}, ...points.slice(-EVALUATED_RUNS).map(([run, mean]) => point(run, mean))),
        ),
      ),
      left > 0 && h("p", { class: "note" }, `and ${count(left)} more`),
    );
  }

  private drawTable(runs: ListedRun[]): void {
    if (!runs.length) {
      return fill(this.table, h("p", { class: "note" }, this.runs.length ? "No run is like that." : "No run is recorded here."));
    }
    const { order, rising } = this.wanted;
    const head = COLUMNS.map(([key, title]) =>
      h(
        "th",
        { scope: "col", "aria-sort": key === order ? (rising ? "ascending" : "descending") : undefined },
        h(
          "button",
          { type: "button", class: "opens", "data-order": key, onclick: () => this.sort(key) },
          title, h("span", { "aria-hidden": "true" }, key === order ? (rising ? " ▴" : " ▾") : ""),
        ),
      ),
    );
    const rest = runs.length - this.shown;
    fill(
      this.table,
      h(
        "table",
        { class: "functions all-runs" },
        h("thead", {}, h("tr", {}, ...head, h("th", { scope: "col" }, "First question and last answer"))),
        h("tbody", {}, ...runs.slice(0, this.shown).map(row)),
      ),
      rest > 0 && h("p", {}, h("button", { type: "button", onclick: () => this.more() }, `Show ${count(Math.min(PAGE, rest))} more of ${count(rest)}`)),
    );
  }

  private more(): void {
    const at = this.shown;
    this.shown += PAGE;
    this.draw();
    this.table.querySelectorAll<HTMLElement>("tbody a")[at]?.focus();
  }

  // -- keys

  private nextTheme(): void {
    this.themes.textContent = `Theme: ${theme.next()}`;
  }

  private skip(event: Event): void {
    event.preventDefault();
    (this.table.querySelector<HTMLElement>("tbody a") ?? document.getElementById("main"))?.focus();
  }

  private onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target as HTMLElement;
    if (event.key === "Escape" && target === this.search) {
      this.search.value = "";
      this.later();
      return;
    }
    if (target.closest("input, select, textarea")) return;
    if (event.key === "/") this.search.focus();
    else if (event.key === "t") this.nextTheme();
    else if (event.key === "j" || event.key === "k") this.step(event.key === "j" ? 1 : -1);
    else return;
    event.preventDefault();
  }

  /** Goes to the link of the next run, or of the one before. */
  private step(by: number): void {
    const links = [...this.table.querySelectorAll<HTMLElement>("tbody a")];
    const at = links.indexOf(document.activeElement as HTMLElement);
    links[at < 0 ? 0 : Math.min(Math.max(at + by, 0), links.length - 1)]?.focus();
  }
}

function row(run: ListedRun): HTMLElement {
  const bad = BAD.has(run.state);
  const texts = [run.error && brief(run.error), brief(run.question), brief(run.answer)].filter(Boolean).join(" → ");
  const note = run.failures.join("; ");
  return h(
    "tr",
    {},
    h("td", { class: "number" }, started(run.began)),
    h("th", { scope: "row" }, h("a", { href: `run/${encodeURIComponent(run.name)}/`, title: run.name }, visible(run.program || run.name))),
    h("td", { class: bad ? "state-of failure" : `state-of state-${run.state}`, title: note || undefined }, visible(run.state)),
    h("td", { class: "number" }, duration(Math.round(run.seconds * 1e6))),
    h("td", { class: "number" }, count(run.calls)),
    h("td", { class: run.failed ? "number failure" : "number" }, run.failed ? count(run.failed) : ""),
    h("td", { class: "number" }, count(run.tokens)),
    h("td", { class: "number" }, run.cost === null ? "unknown" : total(run.cost, run.unpriced)),
    h("td", { class: "said", title: texts || undefined }, texts),
  );
}

function point(run: ListedRun, mean: number): HTMLElement {
  const bar = h("span", { class: "bar-of-score", "aria-hidden": "true" });
  bar.style.inlineSize = `${Math.round(100 * Math.min(Math.max(mean, 0), 1))}px`;
  return h(
    "li",
    {},
    h("a", { href: `run/${encodeURIComponent(run.name)}/` }, started(run.began)),
    " ", h("span", { class: "number" }, mean.toFixed(3)), bar,
  );
}

function started(began: string): string {
  const at = new Date(began);
  return Number.isNaN(at.getTime()) ? "–" : at.toLocaleString("sv-SE").slice(0, 16);
}

function tile(name: string, value: string, note: string, bad = false): HTMLElement {
  return h(
    "div",
    { class: bad ? "tile bad" : "tile" },
    h("dt", {}, name),
    h("dd", {}, h("strong", {}, value), note && h("span", { class: "note" }, note)),
  );
}

/** How often each value occurs, the most frequent first. */
function counted(values: string[]): [string, number][] {
  const found = new Map<string, number>();
  for (const value of values) found.set(value, (found.get(value) ?? 0) + 1);
  return [...found].sort((one, other) => other[1] - one[1]);
}

function choices(select: HTMLSelectElement, chosen: string, values: [string, number][]): void {
  const options: [string, Child][] = [["", "all"], ...values.filter(([value]) => value).map(([value, n]): [string, Child] => [value, `${brief(value)} (${count(n)})`])];
  if (chosen && !values.some(([value]) => value === chosen)) options.push([chosen, brief(chosen)]);
  const told = options.map(([value, text]) => `${value}\n${String(text)}`).join("\n");
  if (select.dataset["told"] !== told) {
    fill(select, ...options.map(([value, text]) => h("option", { value }, text)));
    select.dataset["told"] = told;
  }
  select.value = chosen;
}

function wantedIn(hash: string): Wanted {
  const told = new URLSearchParams(hash.slice(1));
  const order = told.get("order") ?? "-began";
  const key = COLUMNS.find(([each]) => each === order.slice(1))?.[0] ?? "began";
  return {
    text: told.get("text") ?? "", state: told.get("state") ?? "", program: told.get("program") ?? "",
    order: key, rising: order.startsWith("+"),
  };
}

async function ask<T>(name: string): Promise<T> {
  const answer = await fetch(`data/${name}`, { cache: "no-store", credentials: "omit" });
  if (!answer.ok) throw new Error(`${name}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as T;
}
