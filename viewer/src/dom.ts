/** Making elements. All text goes in as text: nothing here, or elsewhere, parses markup. */

type Value = string | number | boolean | undefined | ((event: Event) => void);
export type Child = Node | string | null | undefined | false;

/** An element with properties (`class`, attributes, `on…` listeners) and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) put(made, name, value);
  append(made, children);
  return made;
}

/** An SVG element with attributes. */
export function svg(tag: "svg" | "path", attributes: Record<string, string>): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** Only attributes that are named in this code come here; their values may be recorded text. */
function put(element: HTMLElement, name: string, value: Value): void {
  if (value === undefined || value === false) return;
  if (typeof value === "function") element.addEventListener(name.slice(2), value);
  else element.setAttribute(name, value === true ? "" : String(value));
}

function append(element: Node, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.appendChild(typeof child === "string" ? document.createTextNode(child) : child);
  }
}

/** Replaces all children of an element. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  append(element, children);
}

const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]/gu;

/** Text as it can be looked at: control characters and changes of direction become visible signs. */
export function visible(text: string): string {
  return text.replace(CONTROL, (char) => {
    const code = char.codePointAt(0) ?? 0;
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return code === 0x7f ? "\u2421" : "\ufffd";
  });
}

/** An address in little room: a long one is cut in its middle, so that both ends are seen. */
export function addressed(text: string): HTMLElement {
  const cut = text.lastIndexOf("/", text.lastIndexOf("/") - 1);
  const [head, tail] = cut > 0 ? [text.slice(0, cut), text.slice(cut)] : ["", text];
  return h(
    "span",
    { class: "address short", title: text },
    head && h("bdi", { dir: "ltr", class: "head" }, head),
    h("bdi", { dir: "ltr", class: "tail" }, tail),
  );
}

const BRIEF = 300;

/** The beginning of a text, for where there is one line. */
export function brief(text: string): string {
  return visible(text.length > BRIEF ? `${text.slice(0, BRIEF)}…` : text);
}
