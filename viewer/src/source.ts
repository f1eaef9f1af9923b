/** Where the data comes from: the server of `appl trace view`, or the page itself. */

import type {
  CallDoc, Changes, Comparison, Costs, CriticalPath, EvaluationDoc, Found, MessageDoc, PrefixTree, RunInfo,
  RunKey, Scopes,
} from "./data";

export interface Source {
  /** Whether there may be more later. */
  readonly live: boolean;
  runs(): Promise<RunKey[]>;
  run(key: RunKey): Promise<RunInfo>;
  rows(key: RunKey, since: number): Promise<Changes>;
  scopes(key: RunKey, since: number, left: number): Promise<Scopes>;
  call(key: RunKey, row: number): Promise<CallDoc>;
  messages(key: RunKey, numbers: number[]): Promise<MessageDoc[]>;
  prefixes(key: RunKey): Promise<PrefixTree>;
  critical(key: RunKey): Promise<CriticalPath>;
  costs(key: RunKey): Promise<Costs>;
  evaluations(key: RunKey): Promise<EvaluationDoc[]>;
  search(key: RunKey, text: string, from: number): Promise<Found>;
  diff(): Promise<Comparison>;
  /** Answers a question of the run; what came of it, in words. */
  answer(address: string, answer: string): Promise<string>;
}

/** The server that sent the page. */
export class Server implements Source {
  readonly live = true;
  runs = (): Promise<RunKey[]> => this.ask("runs");
  run = (key: RunKey): Promise<RunInfo> => this.ask(`${key}/run`);
  rows = (key: RunKey, since: number): Promise<Changes> => this.ask(`${key}/rows?since=${since}`);
  scopes = (key: RunKey, since: number, left: number): Promise<Scopes> =>
    this.ask(`${key}/scopes?since=${since}&left=${left}`);
  call = (key: RunKey, row: number): Promise<CallDoc> => this.ask(`${key}/call?row=${row}`);
  prefixes = (key: RunKey): Promise<PrefixTree> => this.ask(`${key}/prefixes`);
  critical = (key: RunKey): Promise<CriticalPath> => this.ask(`${key}/critical`);
  costs = (key: RunKey): Promise<Costs> => this.ask(`${key}/costs`);
  evaluations = (key: RunKey): Promise<EvaluationDoc[]> => this.ask(`${key}/evaluations`);
  diff = (): Promise<Comparison> => this.ask("diff");
  search = (key: RunKey, text: string, from: number): Promise<Found> =>
    this.ask(`${key}/search?${new URLSearchParams({ text, from: String(from) }).toString()}`);

  async messages(key: RunKey, numbers: number[]): Promise<MessageDoc[]> {
    const found: MessageDoc[] = [];
    for (let i = 0; i < numbers.length; i += 200) {
      const ids = numbers.slice(i, i + 200).join(",");
      found.push(...(await this.ask<MessageDoc[]>(`${key}/messages?ids=${ids}`)));
    }
    return found;
  }

  async answer(address: string, answer: string): Promise<string> {
    const found = await fetch("answer", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ address, answer }),
      credentials: "omit",
    });
    if (!found.ok) throw new Error((await found.text()).trim());
    return ((await found.json()) as { said: string }).said;
  }

  private async ask<T>(name: string): Promise<T> {
    const answer = await fetch(`data/${name}`, { cache: "no-store", credentials: "omit" });
    if (!answer.ok) throw new Error(`${name}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }
}

const PAGE = 500;
const ADDRESS = 1;
const PROMPT = 2;
const ANSWER = 4;

/** Blocks of compressed data in the page, each read when it is needed. */
export class Embedded implements Source {
  readonly live = false;
  private readonly blocks = new Map<string, HTMLScriptElement>();
  private readonly pages = new Map<string, unknown>();
  private readonly matches = new Map<number, boolean>();

  constructor(blocks: Iterable<HTMLScriptElement>) {
    for (const block of blocks) this.blocks.set(block.dataset["name"] ?? "", block);
  }

  runs = (): Promise<RunKey[]> => this.block("runs");
  run = (key: RunKey): Promise<RunInfo> => this.block(`${key}/run`);
  rows = (key: RunKey, since: number): Promise<Changes> => this.block(`${key}/rows/${since}`);
  prefixes = (key: RunKey): Promise<PrefixTree> => this.block(`${key}/prefixes`);
  critical = (key: RunKey): Promise<CriticalPath> => this.block(`${key}/critical`);
  costs = (key: RunKey): Promise<Costs> => this.block(`${key}/costs`);
  evaluations = (key: RunKey): Promise<EvaluationDoc[]> => this.block(`${key}/evaluations`);
  diff = (): Promise<Comparison> => this.block("diff");

  answer = (): Promise<string> => Promise.reject(new Error("this page has no server"));

  async scopes(key: RunKey, since: number, left: number): Promise<Scopes> {
    const all = await this.block<Scopes>(`${key}/scopes`);
    const { address, where, arguments: given, ends } = all;
    return {
      ...all, address: address.slice(since), where: where.slice(since), arguments: given.slice(since),
      ends: ends.slice(left),
    };
  }

  call = (key: RunKey, row: number): Promise<CallDoc> => this.item(`${key}/calls`, row);

  async messages(key: RunKey, numbers: number[]): Promise<MessageDoc[]> {
    const found: MessageDoc[] = [];
    for (const number of numbers) found.push(await this.item(`${key}/messages`, number));
    return found;
  }

  /** Looks through one page of calls; what was found in messages is remembered. */
  async search(key: RunKey, text: string, from: number): Promise<Found> {
    const wanted = text.toLowerCase();
    const page = Math.floor(from / PAGE);
    const found: Found = { rows: [], where: [], next: -1 };
    if (!this.blocks.has(`${key}/calls/${page}`)) return found;
    if (from === 0) this.matches.clear();
    const inside = (said: string | null | undefined): boolean =>
      !!said && said.toLowerCase().includes(wanted);
    for (const call of await this.block<CallDoc[]>(`${key}/calls/${page}`)) {
      for (const number of call.messages ?? []) {
        if (!this.matches.has(number)) await this.match(key, number, inside);
      }
      const asked = (call.messages ?? []).some((number) => this.matches.get(number));
      const answers = (call.samples ?? []).flatMap((s) => [s.text, s.reasoning, ...s.calls.flat()]);
      const where =
        ADDRESS * Number([call.address, call.where, call.model, call.name, call.kind].some(inside)) +
        PROMPT * Number(inside(call.arguments) || asked) +
        ANSWER * Number([...answers, call.result?.text, ...(call.error ?? [])].some(inside));
      if (where) {
        found.rows.push(call.row);
        found.where.push(where);
      }
    }
    if (this.blocks.has(`${key}/calls/${page + 1}`)) found.next = (page + 1) * PAGE;
    return found;
  }

  /** Notes which messages of the page of this one match. */
  private async match(key: RunKey, number: number, inside: (said: string) => boolean): Promise<void> {
    const first = number - (number % PAGE);
    const page = await this.block<MessageDoc[]>(`${key}/messages/${first / PAGE}`);
    page.forEach((each, i) => {
      const calls = (each.calls ?? []).flat();
      this.matches.set(first + i, [each.text, ...calls].some(inside));
    });
  }

  private async item<T>(name: string, number: number): Promise<T> {
    const page = await this.block<T[]>(`${name}/${Math.floor(number / PAGE)}`);
    const item = page[number % PAGE];
    if (item === undefined) throw new Error(`${name} has no ${number}`);
    return item;
  }

  private async block<T>(name: string): Promise<T> {
    const known = this.pages.get(name);
    if (known !== undefined) return known as T;
    const block = this.blocks.get(name);
    if (!block) throw new Error(`the page has no ${name}`);
    const packed = atob(block.text);
    const bytes = new Uint8Array(packed.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = packed.charCodeAt(i);
    const whole = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const read = (await new Response(whole).json()) as T;
    if (this.pages.size >= 64) this.pages.delete(this.pages.keys().next().value ?? "");
    this.pages.set(name, read);
    return read;
  }
}

/** The source that this page has. */
export function source(): Source {
  const blocks = document.querySelectorAll<HTMLScriptElement>("script[data-name]");
  return blocks.length ? new Embedded(blocks) : new Server();
}
