/** The state that the views share: the runs, the chosen call, and what is said to a reader. */

import type { CallDoc, Changes, MessageDoc, RunInfo, RunKey } from "./data";
import type { Source } from "./source";
import { visible } from "./dom";
import { Table } from "./table";

const SOON_MS = 10;
const OFTEN_MS = 400;
const SELDOM_MS = 3_000;

/** One run as far as it was read. */
export class Run {
  readonly table = new Table();
  info: RunInfo | null = null;
  more = true;
  private next = 0;
  private scopes = 0;
  private left = 0;
  private coming: Promise<Changes> | null = null;
  private facts: Promise<RunInfo> | null = null;

  constructor(
    readonly key: RunKey,
    private readonly source: Source,
  ) {}

  /** Asks for what is shown first, before anybody waits for it. */
  begin(): void {
    this.facts = this.source.run(this.key);
    this.coming = this.source.rows(this.key, 0);
    for (const each of [this.facts, this.coming]) each.catch(() => undefined); // who takes it learns of it
  }

  /** Reads on; whether anything has changed. */
  async read(): Promise<boolean> {
    const told = this.info?.state;
    const facts = this.facts;
    this.facts = null;
    this.info ??= await (facts ?? this.source.run(this.key));
    const changes = await this.changes();
    const changed = changes.rows.length > 0;
    if (changed) this.table.apply(changes);
    if (this.more) return changed || told === undefined;
    const scopes = await this.source.scopes(this.key, this.scopes, this.left);
    this.scopes = scopes.next;
    this.left = scopes.left;
    this.table.applyScopes(scopes);
    this.info = await this.source.run(this.key);
    return changed || scopes.ends.length > 0 || told !== this.info.state;
  }

  /** What has changed; what follows is asked for at once, so that neither side waits for the other. */
  private async changes(): Promise<Changes> {
    const coming = this.coming ?? this.source.rows(this.key, this.next);
    this.coming = null;
    const changes = await coming;
    this.next = changes.next;
    this.more = changes.more;
    if (this.more) {
      this.coming = this.source.rows(this.key, this.next);
      this.coming.catch(() => undefined); // who takes it learns of its failure
    }
    return changes;
  }

  /** A place in the source, from the folder in which the run was started if it lies in that. */
  place(where: string): string {
    const entry = this.info?.header["entry"] as { directory?: unknown } | undefined;
    const folder = `${String(entry?.directory ?? "")}/`;
    return folder.length > 1 && where.startsWith(folder) ? where.slice(folder.length) : where;
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
    this.a.begin(); // one way to the server and back less than one after the other
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

/** What a view needs of a whole run besides its calls: asked for once for each state of the run. */
export class Whole<T> {
  private version = -1;
  private busy = false;

  /** `take` is given what was found, or why there is nothing; then `view` is updated. */
  constructor(
    private readonly app: App,
    private readonly view: View,
    private readonly ask: (key: RunKey) => Promise<T>,
    private readonly take: (found: T | null, failure: string) => void,
  ) {}

  /** Asks, if the run was read to its end and has changed since; whether it has asked. */
  update(): boolean {
    const { table, more } = this.app.a;
    if (this.busy || more || this.version === table.version) return false;
    this.version = table.version;
    void this.load();
    return true;
  }

  private async load(): Promise<void> {
    this.busy = true;
    const asked = this.ask("a").then((found) => [found, ""] as const);
    const [found, failure] = await asked.catch((error: unknown) => [null, String(error)] as const);
    this.busy = false;
    this.take(found, failure);
    if (this.view.element.isConnected) this.view.update(); // the run may have grown meanwhile
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
