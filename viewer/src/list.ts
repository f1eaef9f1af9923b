/** A list of any length, of which only what can be seen is in the document. */

import { h } from "./dom";

const MOST_PIXELS = 2_000_000;
const SPARE = 6;
let lists = 0;

export interface ListOptions {
  label: string;
  role: "listbox" | "tree";
  className?: string;
  count(): number;
  /** The content of an entry; `entry` is its element, to be given classes and attributes. */
  render(index: number, entry: HTMLElement): void;
  /** The entry became the active one. */
  chosen?(index: number): void;
  /** Enter, or a double click. */
  opened?(index: number): void;
  /** A further key; true when it was taken. */
  key?(index: number, event: KeyboardEvent): boolean;
}

/** The heads of a list's columns; a name that begins with a bar stands over numbers. */
export function heads(className: string, names: string[]): HTMLElement {
  const head = (name: string): HTMLElement =>
    name.startsWith("|") ? h("span", { class: "number" }, name.slice(1)) : h("span", {}, name);
  return h("div", { class: `entry head ${className}`, "aria-hidden": "true" }, ...names.map(head));
}

export class List {
  readonly element: HTMLElement;
  active = -1;
  private readonly space: HTMLElement;
  private readonly id = `list-${lists++}`;
  private drawn = false;
  private height = 26;

  constructor(private readonly options: ListOptions) {
    this.space = h("div", { class: "space", role: "presentation" });
    this.element = h(
      "div",
      {
        class: `list ${options.className ?? ""}`,
        role: options.role,
        tabindex: 0,
        "aria-label": options.label,
        onscroll: () => this.later(),
        onkeydown: (event) => this.onKey(event as KeyboardEvent),
        onclick: (event) => this.onClick(event as MouseEvent),
        ondblclick: () => this.open(),
        onfocus: () => {
          if (this.active < 0 && options.count() > 0) this.choose(0, false);
        },
      },
      this.space,
    );
    new ResizeObserver(() => this.later()).observe(this.element);
  }

  /** Draw again, after what the entries show has changed. */
  update(): void {
    if (this.active >= this.options.count()) this.active = this.options.count() - 1;
    this.later();
  }

  /** Make an entry the active one, and bring it into view. */
  choose(index: number, tell = true): void {
    const count = this.options.count();
    if (!count) return;
    this.active = Math.max(0, Math.min(index, count - 1));
    this.reveal(this.active);
    this.draw();
    if (tell) this.options.chosen?.(this.active);
  }

  private total(): number {
    return this.options.count() * this.height;
  }

  /** How many pixels of the whole lie above the first one that is shown. */
  private above(): number {
    const view = this.element.clientHeight;
    const real = this.total();
    const shown = Math.min(real, MOST_PIXELS);
    const room = shown - view;
    return room <= 0 ? 0 : (this.element.scrollTop / room) * (real - view);
  }

  private reveal(index: number): void {
    const view = this.element.clientHeight;
    const above = this.above();
    const top = index * this.height;
    let wanted = above;
    if (top < above) wanted = top;
    else if (top + this.height > above + view) wanted = top + this.height - view;
    if (wanted === above) return;
    const real = this.total();
    const shown = Math.min(real, MOST_PIXELS);
    this.space.style.height = `${shown}px`;
    this.element.scrollTop = real > view ? (wanted / (real - view)) * (shown - view) : 0;
  }

  private later(): void {
    if (this.drawn) return;
    this.drawn = true;
    requestAnimationFrame(() => {
      this.drawn = false;
      this.draw();
    });
  }

  private draw(): void {
    const { count, render, role } = this.options;
    const size = count();
    const above = this.above();
    const view = this.element.clientHeight;
    this.space.style.height = `${Math.min(this.total(), MOST_PIXELS)}px`;
    const first = Math.max(0, Math.floor(above / this.height) - SPARE);
    const last = Math.min(size, Math.ceil((above + view) / this.height) + SPARE);
    const offset = this.element.scrollTop - above;
    const entries: HTMLElement[] = [];
    const add = (index: number): void => {
      const entry = h("div", {
        class: "entry",
        id: `${this.id}-${index}`,
        role: role === "tree" ? "treeitem" : "option",
        "aria-posinset": index + 1,
        "aria-setsize": size,
        "aria-selected": index === this.active ? "true" : "false",
      });
      entry.dataset["index"] = String(index);
      entry.style.transform = `translateY(${index * this.height + offset}px)`;
      render(index, entry);
      entries.push(entry);
    };
    for (let index = first; index < last; index++) add(index);
    const active = this.active;
    if (active >= first && active < last) {
      this.element.setAttribute("aria-activedescendant", `${this.id}-${active}`);
    } else this.element.removeAttribute("aria-activedescendant");
    this.space.replaceChildren(...entries);
  }

  private open(): void {
    if (this.active >= 0) this.options.opened?.(this.active);
  }

  private onClick(event: MouseEvent): void {
    const entry = (event.target as Element).closest<HTMLElement>(".entry");
    if (entry) this.choose(Number(entry.dataset["index"]));
  }

  private onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.height) - 1);
    const steps: Record<string, number> = {
      ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
    };
    const step = steps[event.key];
    if (step !== undefined) this.choose(this.active + step);
    else if (event.key === "Home") this.choose(0);
    else if (event.key === "End") this.choose(this.options.count() - 1);
    else if (event.key === "Enter") this.open();
    else if (!this.options.key?.(this.active, event)) return;
    event.preventDefault();
    event.stopPropagation();
  }
}
