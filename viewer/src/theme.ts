/** Light or dark: as the system says, or as was chosen. */

const KEY = "appl-theme";
const NAMES = ["system", "light", "dark"] as const;
export type Theme = (typeof NAMES)[number];

function stored(): Theme {
  try {
    const found = localStorage.getItem(KEY);
    return NAMES.find((name) => name === found) ?? "system";
  } catch {
    return "system";
  }
}

let theme = stored();

/** Shows the page in the chosen theme. */
export function apply(): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}

export function current(): Theme {
  return theme;
}

/** Goes on to the next theme, which is remembered. */
export function next(): Theme {
  theme = NAMES[(NAMES.indexOf(theme) + 1) % NAMES.length] ?? "system";
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // a page without storage forgets it
  }
  apply();
  return theme;
}
