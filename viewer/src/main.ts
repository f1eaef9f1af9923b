/** The viewer: the frame of the page, its views, addresses and keys. */

import "./style.css";
import { App, type View } from "./app";
import { brief, fill, h, visible } from "./dom";
import { many } from "./format";
import { source } from "./source";
import * as theme from "./theme";
import { Runs } from "./runs";
import { About } from "./views/about";
import { Calls } from "./views/calls";
import { Cost } from "./views/cost";
import { Critical } from "./views/critical";
import { Diff } from "./views/diff";
import { Graph } from "./views/graph";
import { Overview } from "./views/overview";
import { Prefixes } from "./views/prefixes";
import { Reader } from "./views/reader";
import { Search } from "./views/search";
import { Timeline } from "./views/timeline";

const KEYS: [string, string][] = [
  ["1 … 9", "choose a view"],
  ["/", "search"],
  ["j, k", "next call, call before"],
  ["arrows, Page Up, Page Down, Home, End", "move in a list; left and right close and open a tree's branches"],
  ["Enter", "open or close a branch"],
  ["r", "read the chosen call"],
  ["Escape", "back to the list"],
  ["t", "light, dark, or as the system has it"],
  ["in the timeline: left, right, +, −, A, D, 0", "next call, zoom, move, show all"],
  ["?", "this help"],
];

class Page {
  private readonly app = new App(source());
  /** Whether the run is one of a list, which stands two folders above. */
  private readonly listed = /\/run\/[^/]+\/$/.test(location.pathname);
  private readonly calls = new Calls(this.app);
  private readonly timeline = new Timeline(this.app);
  private readonly reader = new Reader(this.app);
  private readonly overview = new Overview(this.app);
  private readonly views: View[] = [
    this.overview,
    this.calls,
    this.timeline,
    new Graph(this.app),
    new Prefixes(this.app),
    new Critical(this.app),
    new Cost(this.app),
    new Search(this.app),
    new Diff(this.app),
    new About(this.app),
  ];
  private view: View = this.overview;
  private keys = true;
  private readonly title = h("h1", {}, "appl trace");
  private readonly state = h("p", { class: "state", role: "status" });
  private readonly main = h("main", { id: "main", tabindex: -1 });
  private readonly links = this.views.map((view, i) =>
    h("a", { href: `#/${view.name}`, "aria-keyshortcuts": i < 9 ? String(i + 1) : undefined }, view.title),
  );
  private readonly themes = h("button", { type: "button", onclick: () => this.nextTheme() });
  private readonly help = this.helpDialog();

  start(): void {
    theme.apply();
    this.themes.textContent = `Theme: ${theme.current()}`;
    document.body.append(
      h("a", { class: "skip", href: "#main", onclick: (event) => this.skip(event) }, "Skip to the view"),
      h(
        "header",
        {},
        this.listed && h("a", { href: "../../", class: "back" }, "All runs"),
        this.title,
        this.state,
        this.themes,
        h("button", { type: "button", onclick: () => this.help.showModal() }, "Keys"),
      ),
      h("nav", { "aria-label": "Views" }, h("ul", {}, ...this.links.map((link) => h("li", {}, link)))),
      this.main,
      this.reader.element,
      h("div", { id: "status", class: "unseen", role: "status" }),
      this.help,
    );
    this.app.on("data", () => this.update());
    this.app.on("choice", () => {
      document.body.classList.toggle("reading", this.app.chosen >= 0);
      this.remember();
    });
    window.addEventListener("hashchange", () => this.go());
    window.addEventListener("keydown", (event) => this.onKey(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.timeline.later());
    this.go(false);
    void this.app.follow().catch((error: unknown) => fill(this.state, String(error)));
  }

  /** Shows the view, and chooses the call, that the address names. */
  private go(focus = true): void {
    const [, name, row] = location.hash.split("/");
    const view = this.views.find((each) => each.name === name) ?? this.overview;
    if (view !== this.view || !this.main.contains(view.element)) {
      this.view = view;
      fill(this.main, view.element);
      this.views.forEach((each, i) => {
        if (each === view) this.links[i]?.setAttribute("aria-current", "page");
        else this.links[i]?.removeAttribute("aria-current");
      });
      view.update();
      if (focus) view.focus?.();
    }
    if (row !== undefined && /^\d+$/.test(row)) this.app.choose(Number(row));
  }

  private remember(): void {
    const address = `#/${this.view.name}/${this.app.chosen}`;
    if (location.hash !== address) history.replaceState(null, "", address);
  }

  private update(): void {
    const { info, table, more } = this.app.a;
    if (info) {
      const name = visible(info.name);
      this.title.textContent = name;
      document.title = `${name} · appl trace`;
      const state = info.state === "finished" ? info.reason || "finished" : info.state;
      const calls = more ? `${many(table.size, "call")} so far` : many(table.size, "call");
      const notes = [info.error, info.damage, ...(info.failures ?? []), this.app.failure].map(brief);
      this.state.textContent = [brief(state), calls, ...notes].filter(Boolean).join("; ");
      this.state.dataset["state"] = more ? "reading" : info.state;
    }
    this.view.update();
    const [, , row] = location.hash.split("/");
    if (this.app.chosen < 0 && row !== undefined && /^\d+$/.test(row)) this.app.choose(Number(row));
  }

  private nextTheme(): void {
    this.themes.textContent = `Theme: ${theme.next()}`;
    this.timeline.later();
  }

  private skip(event: Event): void {
    event.preventDefault();
    this.view.focus?.();
  }

  private onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
    const target = event.target as Element;
    if (event.key === "Escape") {
      this.view.focus?.();
      return;
    }
    if (!this.keys || target.closest("input, select, textarea")) return;
    const number = Number(event.key);
    const view = event.key === "/" ? "search" : this.views[number - 1]?.name;
    const actions: Record<string, () => void> = {
      "?": () => this.help.showModal(),
      t: () => this.nextTheme(),
      j: () => this.calls.step(1),
      k: () => this.calls.step(-1),
      r: () => this.reader.element.focus(),
    };
    const action = actions[event.key];
    if (view) location.hash = `#/${view}`;
    else if (action) action();
    else return;
    event.preventDefault();
  }

  private helpDialog(): HTMLDialogElement {
    const list = h("dl", { class: "facts" });
    for (const [keys, what] of KEYS) list.append(h("dt", {}, keys), h("dd", {}, what));
    const single = h("input", {
      type: "checkbox",
      checked: true,
      onchange: (event) => (this.keys = (event.target as HTMLInputElement).checked),
    });
    const dialog = h(
      "dialog",
      { "aria-labelledby": "help-title" },
      h("h2", { id: "help-title" }, "Keys"),
      list,
      h("p", {}, h("label", {}, single, " keys of a single character")),
      h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
    );
    return dialog;
  }
}

if (document.body.dataset["page"] === "runs") new Runs().start();
else new Page().start();
