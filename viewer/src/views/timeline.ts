/** When each call was in flight: lanes by backend or by program, drawn as far as it can be seen. */

import type { App, View } from "../app";
import { brief, h, visible } from "../dom";
import { duration, many } from "../format";
import { isFailure, outcomeWord } from "../outcome";

interface Lane {
  name: string;
  /** Rows that do not overlap, by start; as many lists as calls were in flight at once. */
  tracks: number[][];
  top: number;
}

const LABEL = 18;
const TALL = 18;
/** Bars as tall and wide as this carry their name, in pixels. */
const NAMED = 12, NAMED_WIDE = 50;
const SHORT = 3;
const AXIS = 22;

export class Timeline implements View {
  readonly name = "timeline";
  readonly title = "Timeline";
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly frame: HTMLElement;
  private readonly space = h("div", { class: "space" });
  private readonly tip = h("div", { class: "tip", "aria-hidden": "true" });
  private readonly probe = h("span", { hidden: true });
  private readonly by: HTMLSelectElement;
  private lanes: Lane[] = [];
  private order: number[] = [];
  private version = -1;
  private from = 0;
  private to = 1;
  private all: [number, number] = [0, 1];
  private track = TALL;
  private waiting = false;
  private drag: { x: number; from: number; to: number; moved: boolean } | null = null;

  constructor(private readonly app: App) {
    this.by = h(
      "select",
      { onchange: () => this.arrange() },
      h("option", { value: "backend" }, "backend and model"),
      h("option", { value: "program" }, "program"),
    );
    this.canvas = h("canvas", { role: "img", "aria-label": "Timeline" });
    this.frame = h(
      "div",
      {
        class: "timeline",
        tabindex: 0,
        role: "group",
        "aria-label":
          "Timeline. Left and right go from call to call, plus and minus zoom, A and D move, 0 shows all.",
        onscroll: () => this.later(),
        onkeydown: (event) => this.onKey(event as KeyboardEvent),
      },
      this.canvas,
      this.space,
    );
    this.frame.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => this.onDown(event));
    this.canvas.addEventListener("pointermove", (event) => this.onMove(event));
    this.canvas.addEventListener("pointerup", (event) => this.onUp(event));
    this.canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    const zoom = (factor: number): void => this.zoom(factor, 0.5);
    this.element = h(
      "section",
      { class: "view", "aria-label": "Timeline" },
      h(
        "div",
        { class: "bar" },
        h("label", {}, "Lanes by ", this.by),
        h("button", { type: "button", onclick: () => zoom(0.5) }, "Zoom in"),
        h("button", { type: "button", onclick: () => zoom(2) }, "Zoom out"),
        h("button", { type: "button", onclick: () => this.showAll() }, "Show all"),
        h("span", { class: "legend" }, h("i", { class: "key waits" }), "waiting ", h("i", { class: "key runs" }), "being answered ", h("i", { class: "key fails" }), "failed"),
      ),
      this.frame,
      this.tip,
      this.probe,
    );
    this.tip.hidden = true;
    new ResizeObserver(() => this.later()).observe(this.frame);
    app.on("choice", () => this.later());
  }

  update(): void {
    if (this.version !== this.app.table.version) this.arrange();
    this.later();
  }

  focus(): void {
    this.frame.focus();
  }

  /** Draw again, when colours have changed. */
  later(): void {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      if (this.element.isConnected) this.draw();
    });
  }

  /** Puts the calls into lanes, and those of a lane into as few tracks as do not overlap. */
  private arrange(): void {
    const { table } = this.app;
    const whole = this.from <= this.all[0] && this.to >= this.all[1];
    this.version = table.version;
    this.all = table.range();
    if (whole || this.to <= this.from) [this.from, this.to] = this.all;
    const starts = new Float64Array(table.size);
    const rows: number[] = [];
    for (let row = 0; row < table.size; row++) {
      const start = table.get("started", row);
      if (start < 0) continue;
      starts[row] = start;
      rows.push(row);
    }
    rows.sort((one, other) => (starts[one] ?? 0) - (starts[other] ?? 0) || one - other);
    this.order = rows;
    const lanes = new Map<string, { lane: Lane; free: number[] }>();
    for (const row of rows) {
      const name = this.by.value === "program" ? table.program(row) : table.text("model", row);
      let found = lanes.get(name);
      if (!found) {
        found = { lane: { name, tracks: [], top: 0 }, free: [] };
        lanes.set(name, found);
      }
      const start = starts[row] ?? 0;
      const ended = table.get("ended", row);
      const { lane, free } = found;
      let track = free.findIndex((until) => until <= start);
      if (track < 0) track = lane.tracks.push([]) - 1;
      free[track] = ended < 0 ? Infinity : ended;
      lane.tracks[track]?.push(row);
    }
    this.lanes = [...lanes.values()].map(({ lane }) => lane);
    this.later();
  }

  private showAll(): void {
    [this.from, this.to] = this.all;
    this.later();
  }

  private zoom(factor: number, at: number): void {
    const span = this.to - this.from;
    const next = Math.max(50, Math.min(span * factor, this.all[1] - this.all[0]));
    const centre = this.from + span * at;
    this.move(centre - next * at, next);
  }

  private move(from: number, span: number): void {
    this.from = Math.max(this.all[0], Math.min(from, this.all[1] - span));
    this.to = this.from + span;
    this.later();
  }

  private layout(): number {
    const tracks = this.lanes.reduce((sum, lane) => sum + lane.tracks.length, 0);
    const room = this.frame.clientHeight - AXIS - this.lanes.length * LABEL;
    this.track = Math.max(SHORT, Math.min(TALL, Math.floor(room / Math.max(tracks, 1))));
    let top = AXIS;
    for (const lane of this.lanes) {
      lane.top = top;
      top += LABEL + lane.tracks.length * this.track;
    }
    return top;
  }

  private draw(): void {
    const height = this.layout();
    const view = this.frame.clientHeight;
    const width = this.frame.clientWidth;
    this.space.style.height = `${Math.max(0, height - view)}px`;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(width * scale));
    this.canvas.height = Math.max(1, Math.round(view * scale));
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${view}px`;
    const context = this.canvas.getContext("2d");
    if (!context || width <= 0) return;
    const colour = (name: string): string => this.colour(name);
    context.scale(scale, scale);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.drawAxis(context, width, view, colour);
    const shift = this.frame.scrollTop;
    const colours = {
      wait: colour("--wait"), run: colour("--run"), fail: colour("--fail"), chosen: colour("--mark"), onRun: colour("--page"), onWait: colour("--text"),
    };
    context.save();
    context.beginPath();
    context.rect(0, AXIS, width, view - AXIS);
    context.clip();
    for (const lane of this.lanes) {
      const top = lane.top - shift;
      const tall = LABEL + lane.tracks.length * this.track;
      if (top > view || top + tall < 0) continue;
      lane.tracks.forEach((rows, i) => {
        const y = top + LABEL + i * this.track;
        if (y + this.track >= AXIS && y <= view) this.drawTrack(context, rows, y, width, colours);
      });
      context.fillStyle = colour("--text");
      context.fillText(brief(lane.name) || "(no model)", 6, top + LABEL / 2, width - 12);
    }
    context.restore();
    const [first, last] = this.all;
    this.canvas.setAttribute(
      "aria-label",
      `${many(this.order.length, "call")} in ${many(this.lanes.length, "lane")} over ` +
        `${duration(last - first)}; shown: ${duration(this.from - first)} to ${duration(this.to - first)}`,
    );
  }

  /** What a colour of the style sheet is in the present theme, as a canvas takes it. */
  private colour(name: string): string {
    this.probe.style.color = `var(${name})`;
    return getComputedStyle(this.probe).color;
  }

  private drawAxis(
    context: CanvasRenderingContext2D, width: number, view: number, colour: (name: string) => string,
  ): void {
    const span = this.to - this.from;
    const rough = (span / width) * 110;
    const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) ?? power * 10;
    const origin = this.all[0];
    for (let at = Math.ceil((this.from - origin) / step) * step; at + origin <= this.to; at += step) {
      const x = ((at + origin - this.from) / span) * width;
      context.fillStyle = colour("--line");
      context.fillRect(x, AXIS, 1, view);
      context.fillStyle = colour("--faint");
      context.fillText(duration(at), x + 3, AXIS / 2);
    }
  }

  private drawTrack(
    context: CanvasRenderingContext2D,
    rows: number[],
    y: number,
    width: number,
    colours: { wait: string; run: string; fail: string; chosen: string; onRun: string; onWait: string },
  ): void {
    const { table, chosen } = this.app;
    const per = width / (this.to - this.from);
    const tall = Math.max(this.track - (this.track > 5 ? 2 : 1), 1);
    let drawn = -1;
    for (let i = this.firstEndingAfter(rows, this.from); i < rows.length; i++) {
      const row = rows[i] ?? 0;
      const start = table.get("started", row);
      if (start > this.to) break;
      const ended = table.get("ended", row);
      const x0 = (start - this.from) * per;
      const x1 = ((ended < 0 ? this.all[1] : ended) - this.from) * per;
      if (x1 < drawn && row !== chosen) continue;
      const asked = table.get("asked", row);
      const middle = Math.max(x0, Math.min(((asked < 0 ? start : asked) - this.from) * per, x1));
      context.fillStyle = colours.wait;
      if (middle > x0) context.fillRect(x0, y, middle - x0, tall);
      context.fillStyle = isFailure(table.get("outcome", row)) ? colours.fail : colours.run;
      context.fillRect(middle, y, Math.max(x1 - middle - (x1 - middle > 3 ? 1 : 0), 1), tall);
      if (tall >= NAMED && x1 - x0 > NAMED_WIDE) {
        const waits = middle - x0 > x1 - middle;
        const left = Math.max(waits ? x0 : middle, 0);
        const room = Math.min(waits ? middle : x1, width) - left - 8;
        context.fillStyle = waits ? colours.onWait : colours.onRun;
        const name = `${ending(table.address[row] ?? "")}  ${duration(table.took(row))}`;
        context.fillText(fitting(context, visible(name), room), left + 4, y + tall / 2 + 1);
      }
      if (row === chosen) {
        context.strokeStyle = colours.chosen;
        context.lineWidth = 2;
        context.strokeRect(x0 - 1, y - 1, Math.max(x1 - x0, 3) + 2, tall + 2);
      }
      drawn = Math.floor(x1) + 1;
    }
  }

  private firstEndingAfter(rows: number[], time: number): number {
    const { table } = this.app;
    let low = 0;
    let high = rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const ended = table.get("ended", rows[middle] ?? 0);
      if (ended >= 0 && ended < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private at(event: PointerEvent): number {
    const box = this.canvas.getBoundingClientRect();
    const y = event.clientY - box.top + this.frame.scrollTop;
    const per = (this.to - this.from) / Math.max(this.frame.clientWidth, 1);
    const time = this.from + (event.clientX - box.left) * per;
    const lane = this.lanes.find(
      (each) => y >= each.top && y < each.top + LABEL + each.tracks.length * this.track,
    );
    const rows = lane?.tracks[Math.floor((y - lane.top - LABEL) / this.track)];
    if (!rows) return -1;
    const row = rows[this.firstEndingAfter(rows, time - 2 * per)] ?? -1;
    return row >= 0 && this.app.table.get("started", row) <= time + 2 * per ? row : -1;
  }

  private onDown(event: PointerEvent): void {
    this.drag = { x: event.clientX, from: this.from, to: this.to, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  private onMove(event: PointerEvent): void {
    if (this.drag) {
      const by = event.clientX - this.drag.x;
      if (Math.abs(by) > 3) this.drag.moved = true;
      const span = this.drag.to - this.drag.from;
      if (this.drag.moved) this.move(this.drag.from - (by / this.frame.clientWidth) * span, span);
      return;
    }
    const row = this.at(event);
    this.tip.hidden = row < 0;
    if (row < 0) return;
    const { table } = this.app;
    this.tip.textContent = `${brief(table.address[row] ?? "")} · ${duration(table.took(row))} · ${outcomeWord(table.get("outcome", row))}`;
    const box = this.element.getBoundingClientRect();
    this.tip.style.insetInlineStart = `${Math.min(event.clientX - box.left + 12, box.width - 320)}px`;
    this.tip.style.top = `${event.clientY - box.top + 14}px`;
  }

  private onUp(event: PointerEvent): void {
    const moved = this.drag?.moved ?? false;
    this.drag = null;
    const row = moved ? -1 : this.at(event);
    if (row >= 0) this.app.choose(row);
  }

  private onWheel(event: WheelEvent): void {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const box = this.frame.getBoundingClientRect();
    const delta = event.deltaY || event.deltaX;
    this.zoom(delta > 0 ? 1.25 : 0.8, (event.clientX - box.left) / Math.max(box.width, 1));
  }

  private onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const span = this.to - this.from;
    const actions: Record<string, () => void> = {
      "+": () => this.zoom(0.5, 0.5),
      "=": () => this.zoom(0.5, 0.5),
      "-": () => this.zoom(2, 0.5),
      "0": () => this.showAll(),
      a: () => this.move(this.from - span / 4, span),
      d: () => this.move(this.from + span / 4, span),
      ArrowRight: () => this.step(1),
      ArrowLeft: () => this.step(-1),
    };
    const action = actions[event.key];
    if (!action) return;
    action();
    event.preventDefault();
    event.stopPropagation();
  }

  /** The next call by start, brought into view. */
  private step(by: number): void {
    const at = this.order.indexOf(this.app.chosen);
    const row = this.order[Math.max(0, Math.min(at + by, this.order.length - 1))];
    if (row === undefined) return;
    this.app.choose(row);
    const start = this.app.table.get("started", row);
    const span = this.to - this.from;
    if (start < this.from || start > this.to) this.move(start - span / 2, span);
    const lane = this.lanes.find((each) => each.tracks.some((track) => track.includes(row)));
    if (lane) {
      const y = lane.top + LABEL + lane.tracks.findIndex((t) => t.includes(row)) * this.track;
      const { scrollTop, clientHeight } = this.frame;
      if (y < scrollTop + AXIS || y + this.track > scrollTop + clientHeight) {
        this.frame.scrollTop = y - clientHeight / 2;
      }
    }
  }
}

/** The last two parts of an address: the function, and what it asked for. */
function ending(address: string): string {
  return address.split("/").slice(-2).join("/");
}

/** As much of a name as has room in so many pixels. */
function fitting(context: CanvasRenderingContext2D, name: string, room: number): string {
  if (context.measureText(name).width <= room) return name;
  const each = context.measureText("n").width;
  const most = Math.floor(room / each) - 1;
  return most > 3 ? `${name.slice(0, most)}…` : "";
}
