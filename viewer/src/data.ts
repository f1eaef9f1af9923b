/** What the viewer's data looks like, as `appl/tracing/viewer` makes it. */

export type RunKey = "a" | "b";

export interface RunInfo {
  name: string;
  state: string;
  reason: string;
  error: string;
  began: string;
  header: Record<string, unknown>;
  warnings: [string, string][];
  processes: { pid: number; host: string; reason: string; wall: number }[];
  observations: number;
  records: number;
  masked: number;
  torn: number;
  damage: string;
  /** What failed besides calls, in words. */
  failures?: string[];
  outcomes: string[];
  questions?: QuestionDoc[];
  /** What it waits for besides people, in words. */
  waits?: string[];
  /** Whether the page may answer questions. */
  answers?: boolean;
}

/** A question to a person; `due` is in seconds since 1970. */
export interface QuestionDoc {
  address: string;
  text: string;
  tool: string;
  arguments: string;
  open: boolean;
  verdict: string;
  by: string;
  value: string;
  choices: string[];
  json: boolean;
  due: number | null;
}

/** A run of a list: `cost` in millionths, `null` if it is not known; texts are cut. */
export interface ListedRun {
  name: string;
  program: string;
  state: string;
  began: string;
  seconds: number;
  calls: number;
  failed: number;
  failures: string[];
  tokens: number;
  cost: number | null;
  unpriced: number;
  models: string[];
  error: string;
  question: string;
  answer: string;
  evaluations: { program: string; samples: number; scores: Record<string, number> }[];
}

/** All runs of a folder; only the version where that is known. */
export interface RunListDoc {
  version: string;
  home?: string;
  runs?: ListedRun[];
  /** Of how many runs the texts were read, of so many. */
  read?: number;
  of?: number;
}

/** Sums over calls; `null` is what no call says, `unknown` counts those that do not. */
export interface Amount {
  calls: number;
  prompt_tokens: number | null;
  completion_tokens: number | null;
  cached_tokens: number | null;
  written_tokens: number | null;
  written_1h_tokens: number | null;
  reasoning_tokens: number | null;
  cost: number | null;
  unknown: Record<string, number>;
}

/** The four kinds, which are never added up. */
export interface Costs {
  spent: Amount;
  reused: Amount;
  in_doubt: Amount;
  estimated: Amount;
  cached_samples: number;
  models?: Record<string, Costs>;
}

export const NUMBERS = [
  "kind", "model", "file", "line", "outcome", "started", "asked", "ended", "attempts", "failed",
  "prompt", "completion", "cached", "written", "reasoning", "cost", "samples", "reused", "ordinal",
  "source",
] as const;
export type Column = (typeof NUMBERS)[number];

export type Changes = Record<Column, number[]> & {
  next: number;
  more: boolean;
  size: number;
  rows: number[];
  address: string[];
  said: string[];
  uses: number[][];
  strings: string[];
};

export interface Scopes {
  address: string[];
  where: string[];
  arguments: (string | null)[];
  next: number;
  /** `[function, call whose answer it returned, another result, error]`; empty where there is none. */
  ends: [string, string, string, string][];
  left: number;
}

export type ToolCallDoc = [id: string, name: string, args: string];

export interface MessageDoc {
  role: string;
  text: string;
  media?: [number, string][];
  calls?: ToolCallDoc[];
  of?: string;
  name?: string;
  error?: boolean;
}

export interface SampleDoc {
  text: string;
  finish: string;
  reasoning: string | null;
  calls: ToolCallDoc[];
  tokens: number;
}

export interface AttemptDoc {
  number: number;
  at: number | null;
  error: [string, string] | null;
  wait: number | null;
}

/** `[message, start, end, row or -1, where]`; offsets count units of UTF-16. */
export type SpanDoc = [number, number, number, number, string];

export interface CallDoc {
  row: number;
  address: string;
  where: string;
  kind: string;
  outcome: string;
  error: [string, string] | null;
  masked: string[];
  model?: string;
  answered_by?: string;
  settings?: Record<string, unknown>;
  n?: number;
  sample?: number;
  timeout?: number | null;
  content?: string;
  messages?: number[];
  spans?: SpanDoc[];
  samples?: SampleDoc[];
  scores?: number[] | null;
  chunks?: number;
  /** What it did, in order, with microseconds. */
  phases?: [string, number][];
  begun?: string[];
  attempts?: AttemptDoc[];
  source?: string | null;
  of?: string | null;
  name?: string;
  arguments?: string;
  effect?: string;
  result?: MessageDoc | null;
}

export interface PrefixTree {
  left_out: number;
  parent: number[];
  chars: number[];
  text: string[];
  calls: number[];
  prompt: number[];
  cached: number[];
  first: number[];
  node: number[];
}

/** `[kind, start, length, row]`; times in microseconds, row -1 for none. */
export type Segment = [string, number, number, number];

export interface CriticalPath {
  duration: number;
  kinds: Record<string, number>;
  segments: Segment[];
  /** `[row, row of the call that it waited for without need, gain in microseconds]` */
  waits: [number, number, number][];
}

/** A sample of an evaluation; texts are cut. */
export interface SampleRow {
  id: string;
  number: number;
  target: string;
  answer: string;
  scores: Record<string, number | null>;
  error: string | null;
  errors: Record<string, string>;
  address: string;
}

/** An evaluation: its table as text, the names of its scores, and its samples. */
export interface EvaluationDoc {
  title: string;
  head: string[];
  rows: string[][];
  names: string[];
  samples: SampleRow[];
}

export interface Found {
  rows: number[];
  where: number[];
  next: number;
}

export interface Comparison {
  names: string[];
  status: number[];
  a: number[];
  b: number[];
  cause: number[];
  /** `[kind, name, in a, in b]` */
  others: [string, string, string, string][];
}
