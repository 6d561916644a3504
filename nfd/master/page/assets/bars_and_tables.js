// What is shown as lists: bars of facts, labels that a search finds, nodes. Never more than a screenful or two at once.

import { walk } from "./fleet.js";

const BARS = 6, KEYS = 40, VALUES = 60, ROWS = 60;

/** An element; whatever comes from the fleet becomes text, never markup. */
export function element(tag, options = {}, ...children) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name.startsWith("on")) found.addEventListener(name.slice(2), value);
    else if (name in found && name !== "list") found[name] = value;
    else found.setAttribute(name, value);
  }
  found.append(...children);
  return found;
}

export function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** The old element with the focus has an equal in the new content: that one gets it. */
export function replace(place, ...children) {
  const key = place.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  place.replaceChildren(...children);
  if (key !== undefined) [...place.querySelectorAll("[data-focus]")].find((one) => one.dataset.focus === key)?.focus();
}

/** Bars that are buttons. `rows` are [value, amount, text]; `colour(value)` is a class. */
export function bars(place, rows, { all, pressed, chosen, colour, noun }) {
  const most = Math.max(1, ...rows.map(([, amount]) => amount));
  const shown = all.has(place.id) ? rows : rows.slice(0, BARS);
  const items = shown.map(([value, amount, text]) => {
    const bar = element("span", { className: `bar ${colour?.(value) ?? ""}` });
    bar.style.width = `${(100 * amount) / most}%`;
    const name = element("span", { className: "name", title: value }, value);
    const number = element("span", { className: "number" }, text);
    const button = element("button", { type: "button", className: "row", onclick: () => chosen(value) }, name, number, bar);
    button.dataset.focus = `bar ${value}`;
    button.setAttribute("aria-pressed", String(pressed(value)));
    return element("li", {}, button);
  });
  if (rows.length > shown.length) {
    const more = () => { all.add(place.id); bars(place, rows, { all, pressed, chosen, colour, noun }); };
    items.push(element("li", {}, element("button", { type: "button", className: "more", onclick: more },
      `${rows.length - shown.length} more`)));
  }
  if (!rows.length) items.push(element("li", { className: "empty" }, `No ${noun}.`));
  replace(place, ...items);
}

/** `12 taken · 52 free`, and what cannot be had: devices with a taint, or partitions that no longer fit. */
export function takenText([, unit, all, offered, taken]) {
  const number = (count) => count.toLocaleString("en");
  const rest = all > offered ? ` · ${number(all - offered)} not available` : "";
  return `${number(taken)} taken · ${number(Math.max(0, offered - taken))} free${rest}${unit ? ` (${unit})` : ""}`;
}

/** Resources with a bar of what is taken; `rows` are [name, unit, all, offered, taken]. */
export function takenBars(place, rows) {
  replace(place, ...rows.map((row) => {
    const [name, , , offered, taken] = row, bar = element("span", { className: "bar" });
    bar.style.width = `${offered ? Math.min(100, (100 * taken) / offered) : 0}%`;
    return element("li", {}, element("div", { className: "row" }, element("span", { className: "name", title: name }, name),
      element("span", { className: "number" }, takenText(row)), element("span", { className: "bar whole" }), bar));
  }));
}

/** Labels whose key or value has all words of the search; `open` are keys that show their values. */
export function labels(place, fleet, { words, conditions, open, has, toggle, refresh }) {
  const found = [], chosen = fleet.select(conditions);
  for (const [key, values] of fleet.labels) {
    const about = words.filter((word) => !key.toLowerCase().includes(word));
    const fitting = [...values].filter(([value]) => about.every((word) => value.toLowerCase().includes(word)));
    if (fitting.length) found.push([key, fitting, values.size]);
  }
  found.sort((one, other) => telling(fleet, one) - telling(fleet, other));
  const items = found.slice(0, KEYS).map(([key, fitting, size]) => {
    const opened = open.has(key) || (words.length > 0 && found.length <= 3);
    const flip = () => { open[open.has(key) ? "delete" : "add"](key); refresh(); };
    const nodes = fitting.reduce((sum, [, runs]) => sum + fleet.count(runs, chosen), 0);
    const [prefix, name] = key.includes("/") ? [key.slice(0, key.indexOf("/") + 1), key.slice(key.indexOf("/") + 1)] : ["", key];
    const head = element("button", { type: "button", className: "key", onclick: flip, title: key },
      element("span", { className: "prefix" }, prefix), element("span", { className: "name" }, name),
      element("span", { className: "number" }, `${plural(size, "value")} · ${plural(nodes, "node")}`));
    if (!nodes) head.classList.add("none");
    head.setAttribute("aria-expanded", String(opened));
    head.dataset.focus = `key ${key}`;
    return element("li", {}, head, ...(opened ? [valuesOf(fleet, key, fitting, { chosen: fleet.without(conditions, [key]), has, toggle })] : []));
  });
  if (found.length > KEYS) items.push(element("li", { className: "empty" }, `${found.length - KEYS} more. Type more to narrow the search.`));
  if (!found.length) items.push(element("li", { className: "empty" }, "No label contains all of these words."));
  replace(place, ...items);
  return found.length;
}

/** First what tells nodes apart, last what has another value on each: 0, 1 or 2. */
function telling(fleet, [, , size]) {
  return size === 1 ? 1 : size > 2 && size > 0.9 * fleet.size ? 2 : 0;
}

/** Headings that sort: by another one, or the other way round. `columns` are [name, heading]. */
export function headings(place, columns, sort, changed) {
  replace(place, ...columns.map(([name, text]) => {
    const button = element("button", { type: "button", onclick: () => changed(name) }, text);
    button.dataset.focus = `column ${name}`;
    const heading = element("th", { scope: "col" }, button);
    if (sort.by === name) heading.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
    return heading;
  }));
}

const LETTERS = new Intl.Collator("en", { numeric: true });

/** Nodes by `value(node)`, a number or text; those without any come last, and equal ones by name. */
export function sorted(nodes, value, down) {
  const empty = (one) => one === "" || one === null || one === undefined;
  const order = (one, other) => (typeof one === "number" ? one - other : LETTERS.compare(one, other)) * (down ? -1 : 1);
  return nodes.map((node) => [node, value(node)]).sort(([one, first], [other, second]) =>
    empty(first) - empty(second) || (empty(first) ? 0 : order(first, second)) || one - other).map(([node]) => node);
}

function valuesOf(fleet, key, fitting, { chosen, has, toggle }) {
  const counted = fitting.map(([value, runs]) => [value, fleet.count(runs, chosen)]);
  counted.sort((one, other) => other[1] - one[1]);
  const chips = counted.slice(0, VALUES).map(([value, count]) => {
    const chip = element("button", { type: "button", className: "chip", onclick: () => toggle(key, value) },
      value || "(empty)", element("span", { className: "number" }, String(count)));
    chip.setAttribute("aria-pressed", String(has(key, value)));
    chip.dataset.focus = `chip ${key}=${value}`;
    return chip;
  });
  const rest = counted.length - chips.length;
  return element("div", { className: "chips" }, ...chips, ...(rest > 0 ? [`${rest} more`] : []));
}

/** The chosen nodes as rows of a table. */
export function table(place, nodes, { limit, cells, open }) {
  const rows = nodes.slice(0, limit).map((node) => {
    const [name, ...rest] = cells(node);
    const button = element("button", { type: "button", className: "link", onclick: () => open(node) }, name);
    button.dataset.focus = `node ${name}`;
    return element("tr", {}, element("th", { scope: "row" }, button), ...rest.map((text) => element("td", {}, text)));
  });
  replace(place, ...rows);
}

export const STEP = ROWS;

/** The numbers of the chosen nodes whose text has the words. */
export function fitting(fleet, chosen, words, text) {
  const found = [];
  for (let node = 0; node < fleet.size; node += 1) {
    if (chosen[node] && words.every((word) => text(node).toLowerCase().includes(word))) found.push(node);
  }
  return found;
}

/** `2 min` of seconds. */
export function ageText(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 60) return "now";
  return seconds < 7200 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h`;
}

/** `4×NVIDIA-A100` for each node, `3/4×…` where not all can be used, `14×…-MIG-1g.5gb` MIG devices. */
export function gpuTexts(fleet, present, usable) {
  const found = new Array(fleet.size).fill("");
  for (const [product, count, , runs, mig] of fleet.models) {
    walk(runs, (node) => {
      const one = !mig && usable[node] === count && present[node] > count ? `${count}/${present[node]}×${product}` : `${count}×${product}`;
      found[node] += found[node] ? ` + ${one}` : one;
    });
  }
  return found.map((text, node) => text || (present[node] ? `0/${present[node]}` : ""));
}
