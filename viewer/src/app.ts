/** The state that the views share: the runs, the chosen call, and what is said to a reader. */

import type { CallDoc, MessageDoc, RunInfo, RunKey } from "./data";
import type { Source } from "./source";
import { visible } from "./dom";
import { Table } from "./table";

const SOON_MS = 50;
const OFTEN_MS = 400;
const SELDOM_MS = 3_000;

/** One run as far as it was read. */
export class Run {
  readonly table = new Table();
  info: RunInfo | null = null;
  more = true;
  private next = 0;
  private scopes = 0;

  constructor(
    readonly key: RunKey,
    private readonly source: Source,
  ) {}

  /** Reads on; whether anything has changed. */
  async read(): Promise<boolean> {
    const changes = await this.source.rows(this.key, this.next);
    const scopes = await this.source.scopes(this.key, this.scopes);
    const changed = changes.rows.length > 0;
    this.next = changes.next;
    this.more = changes.more;
    this.scopes = scopes.next;
    if (changed) this.table.apply(changes);
    this.table.applyScopes(scopes);
    const state = this.info?.state;
    if (!this.info || !this.more) this.info = await this.source.run(this.key);
    return changed || state !== this.info.state;
  }

  call(row: number): Promise<CallDoc> {
    return this.source.call(this.key, row);
  }

  messages(call: CallDoc): Promise<MessageDoc[]> {
    return this.source.messages(this.key, call.messages ?? []);
  }
}

export type Listener = () => void;

export class App {
  readonly a: Run;
  b: Run | null = null;
  /** The chosen row of run `a`, -1 for none. */
  chosen = -1;
  failure = "";
  private readonly listeners = new Map<"data" | "choice", Listener[]>();

  constructor(readonly source: Source) {
    this.a = new Run("a", source);
  }

  get table(): Table {
    return this.a.table;
  }

  on(what: "data" | "choice", listener: Listener): void {
    this.listeners.set(what, [...(this.listeners.get(what) ?? []), listener]);
  }

  tell(what: "data" | "choice"): void {
    for (const listener of this.listeners.get(what) ?? []) listener();
  }

  choose(row: number): void {
    if (row === this.chosen || row >= this.table.size) return;
    this.chosen = row;
    this.tell("choice");
  }

  /** Says something to those who listen to the page instead of looking at it. */
  announce(text: string): void {
    const region = document.getElementById("status");
    if (region) region.textContent = visible(text);
  }

  /** Reads all there is, and goes on as long as there may be more. */
  async follow(): Promise<void> {
    const keys = await this.source.runs();
    if (keys.includes("b")) this.b = new Run("b", this.source);
    await this.step();
  }

  private async step(): Promise<void> {
    const runs = [this.a, ...(this.b ? [this.b] : [])];
    let changed = false;
    try {
      for (const run of runs) changed = (await run.read()) || changed;
      if (this.failure) changed = true;
      this.failure = "";
    } catch (error) {
      changed = this.failure === "";
      this.failure = `The server does not answer: ${String(error)}`;
    }
    if (changed) this.tell("data");
    const more = runs.some((run) => run.more);
    if (!more && !this.source.live) return;
    const running = runs.some((run) => run.info?.state === "running");
    const hidden = document.visibilityState === "hidden";
    const pause = more && !this.failure ? SOON_MS : running && !hidden ? OFTEN_MS : SELDOM_MS;
    setTimeout(() => void this.step(), pause);
  }
}

/** A view: what stands in the main part of the page when its name is chosen. */
export interface View {
  readonly name: string;
  readonly title: string;
  readonly element: HTMLElement;
  /** It has become visible, or the data have changed while it is. */
  update(): void;
  /** Where the keyboard goes when the view is chosen. */
  focus?(): void;
}
