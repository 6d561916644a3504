// The page: asks the master for the fleet, keeps what is chosen, and shows it.

import { Builder } from "./builder.js";
import { Devices, Fleet } from "./fleet.js";
import { STEP, ageText, bars, element, fitting, gpuTexts, headings, labels, plural, replace, sorted, table, takenBars, takenText } from "./bars_and_tables.js";
import { COLOURS, Picture, colours } from "./picture.js";

const EVERY = 30_000;
const FACTS = { driver: "accelerator drivers", kernel: "kernels", os: "systems", cpu: "processors", problem: "problems" };
const NOUNS = { nodes: "node", gpus: "accelerator", products: "accelerator product", kernels: "kernel",
  drivers: "accelerator driver" };
const COLUMNS = [["name", "Node"], ["gpus", "Accelerators"], ["driver", "Driver"], ["kernel", "Kernel"], ["os", "System"], ["cpu", "Processor"],
  ["report", "Last report"], ["problems", "Problems"]];
const NUMBERS = ["gpus", "problems"];
const THEMES = ["auto", "light", "dark"];
const $ = (id) => document.getElementById(id);
const words = (input) => input.value.toLowerCase().split(/\s+/).filter(Boolean);
const state = { fleet: null, tag: "", token: "", limit: STEP, open: new Set(), all: new Set(), chosen: null, busy: false,
  sort: { by: "name", down: false }, reports: { ages: {} }, node: "", dra: null, draTag: "", devices: null };

const builder = new Builder({
  rows: $("conditions"), keys: $("keys"), values: $("values"), output: $("output"), note: $("note"), copied: $("copied"), changed: () => { state.limit = STEP; choose(); },
});
const picture = new Picture($("picture"), $("tip"), (node) => showNode(node));

/** An answer of the master about the fleet, its reports or a node. */
function get(query = "", headers = {}) {
  if (state.token) headers.Authorization = `Bearer ${state.token}`;
  return fetch(`fleet.json${query}`, { headers, cache: "no-store" });
}

/** Ask again; what has not changed comes without a body. */
async function load() {
  if (state.busy) return;
  state.busy = true;
  try {
    const answer = await get("", state.tag ? { "If-None-Match": state.tag } : {});
    if (answer.status === 403) return ask((await answer.text()).trim());
    if (answer.status === 200) {
      const data = await answer.json();
      state.tag = answer.headers.get("ETag") ?? "";
      take(new Fleet(data));
    } else if (answer.status !== 304) throw new Error((await answer.text()).trim().slice(0, 200) || `status ${answer.status}`);
    tell(`as of ${new Date().toLocaleTimeString()}`);
    loadReports();
    if (state.fleet.dra) loadDevices();
  } catch (error) {
    tell(`The master does not respond${state.fleet ? ", the data is old" : ""} (${error.message})`, true);
  } finally {
    state.busy = false;
  }
}

/** When workers last reported changes all the time, so it is an answer of its own. */
async function loadReports() {
  try {
    const answer = await get("?reports");
    if (!answer.ok) return;
    state.reports = await answer.json();
    nodes();
  } catch { /* the next look says that the master does not respond */ }
}

/** What DRA has takes a while to read, so it is an answer of its own. It may also tell more about problems of nodes. */
async function loadDevices() {
  const first = !state.dra;
  try {
    const answer = await get("?dra", state.draTag ? { "If-None-Match": state.draTag } : {});
    if (!answer.ok) return;
    state.dra = await answer.json();
    state.draTag = answer.headers.get("ETag") ?? "";
    place();
    devices();
    if ($("node").open) about(state.fleet.nodes.indexOf(state.node));
    if (first) load();
  } catch { /* the next look says that the master does not respond */ }
}

/** Find the nodes of DRA devices in the fleet. */
function place() {
  state.devices = state.dra && new Devices(state.dra, state.fleet);
}

/** Devices of DRA drivers on the chosen nodes. */
function devices() {
  const found = state.devices;
  $("dra").hidden = !found;
  if (!found) return;
  const rows = found.sums(state.chosen), none = rows.length || found.note || found.pools ? "" : "No devices on the selected nodes.";
  takenBars($("devices"), rows);
  const pools = found.pools ? `${plural(found.pools, "pool")} cannot be counted: nfd nodes --problems says why` : "";
  $("dra-note").textContent = [found.note, pools, none].filter(Boolean).join(" · ");
}

function tell(text, bad = false) {
  $("state").textContent = text;
  $("state").classList.toggle("bad", bad);
  $("state").setAttribute("aria-live", bad ? "assertive" : "off");
}

function ask(reason) {
  $("door").hidden = false;
  $("main").hidden = true;
  $("door-reason").textContent = `The master says: ${reason}`;
  tell("");
  $("token").focus();
}

function take(fleet) {
  const first = !state.fleet;
  state.fleet = builder.fleet = fleet;
  const [present, usable, slices] = ["present", "usable", "slices"].map((name) => fleet.column(name).map((count) => count ?? 0));
  state.columns = { present, usable, slices, gpus: gpuTexts(fleet, present, usable), problems: fleet.lists("problem") };
  for (const name of ["driver", "kernel", "os", "cpu"]) state.columns[name] = fleet.column(name);
  $("door").hidden = true;
  $("main").hidden = false;
  $("cluster").textContent = fleet.cluster;
  document.title = ["Fleet", fleet.cluster, "Node Feature Discovery"].filter(Boolean).join(" · ");
  place();
  builder.suggest("");
  if (first) builder.render();
  choose();
  const wanted = fleet.nodes.indexOf(state.node);
  if (wanted >= 0 && !$("node").open) showNode(wanted);
  if (first) performance.mark("shown");
}

/** What follows from the conditions. */
function choose() {
  const fleet = state.fleet;
  if (!fleet) return;
  const broken = builder.broken;
  state.chosen = broken ? fleet.none() : fleet.select(builder.whole);
  const count = state.chosen.reduce((sum, one) => sum + one, 0);
  $("matches").textContent = broken ? "–" : count.toLocaleString("en");
  $("of").textContent = broken || `of ${plural(fleet.size, "node")}`;
  $("count").classList.toggle("bad", Boolean(broken));
  builder.write();
  remember();
  numbers(count);
  facts();
  devices();
  paint();
  search();
  nodes();
}

function numbers(count) {
  const { fleet, chosen } = state;
  const [present, usable] = [fleet.sum("present", chosen), fleet.sum("usable", chosen)];
  const set = (name, value, text) => {
    $(`n-${name}`).textContent = value.toLocaleString("en");
    $(`t-${name}`).textContent = text ?? plural(value, NOUNS[name]).replace(/^\S+ /, "");
  };
  set("nodes", count);
  set("gpus", usable, usable === present ? undefined : `of ${plural(present, "accelerator")} usable`);
  const slices = fleet.sum("slices", chosen);
  $("t-slices").textContent = slices ? ` and ${plural(slices, "MIG device")}` : "";
  set("products", fleet.products(chosen).length);
  set("kernels", fleet.values("kernel", chosen).length);
  set("drivers", fleet.values("driver", chosen).length);
  const odd = state.columns.problems.filter((found, node) => chosen[node] && found.length).length;
  set("problems", odd, odd === 1 ? "needs attention" : "need attention");
}

/** Bars count what there is to choose from: the conditions on their own labels are left out. */
function facts() {
  const { fleet, all } = state;
  const free = (name) => fleet.without(builder.whole, fleet.keys.get(name) ?? []);
  const palette = paletteOf("product");
  const colour = (value) => `c${palette.get(value)}`;
  const products = fleet.products(free("product")).map(([product, devices]) => [product, devices, devices.toLocaleString("en")]);
  const options = (name, noun) => ({ all, noun, pressed: (value) => pressed(name, value), chosen: (value) => flip(name, value) });
  bars($("product"), products, { ...options("product", "accelerators"), colour });
  for (const [name, noun] of Object.entries(FACTS)) {
    const rows = fleet.values(name, free(name)).map(([value, count]) => [value, count, count.toLocaleString("en")]);
    bars($(name), rows, options(name, noun));
  }
}

/** Which values of a fact the conditions ask for. */
function asked(name) {
  const all = [...state.fleet.facts.get(name).keys()];
  const wanted = (value) => {
    const conditions = state.fleet.conditionsFor(name, [value]);
    return conditions.length > 0 && conditions.every((one) => one.values.every((text) => builder.has(one.key, text)));
  };
  return all.filter(wanted);
}

function pressed(name, value) {
  return state.fleet.keys.has(name) ? asked(name).includes(value) : $("names").value === value;
}

/** A bar adds its value to the selector or removes it. A problem is not a label: its bar searches the list of nodes. */
function flip(name, value) {
  if (!state.fleet.keys.has(name)) {
    $("names").value = pressed(name, value) ? "" : value;
    nodes();
    facts();
    $("h-nodes").scrollIntoView({ block: "start" });
    return;
  }
  const before = asked(name);
  const values = before.includes(value) ? before.filter((one) => one !== value) : [...before, value];
  builder.put(state.fleet.keys.get(name), values.length ? state.fleet.conditionsFor(name, values) : []);
}

/** One colour for a value whatever is chosen; several products together are a value of their own. */
function paletteOf(name) {
  const { fleet } = state;
  const all = fleet.none().fill(1);
  const first = name === "product" ? fleet.products(all) : [];
  return colours([...new Set([...first, ...fleet.values(name, all)].map(([value]) => value))]);
}

function paint() {
  const { fleet, chosen, columns } = state;
  const name = $("colour").value;
  const column = fleet.column(name);
  const palette = paletteOf(name);
  const gpus = (node) => [columns.present[node], columns.usable[node], columns.slices[node]];
  const about = (node) => [columns.gpus[node], columns.kernel[node], columns.os[node], ...columns.problems[node]].filter(Boolean).join(" · ");
  picture.show(fleet, { chosen, column, palette, about, gpus });
  $("picture").setAttribute("aria-label", `One cell for each of ${plural(fleet.size, "node")}; arrow keys select a node`);
  const counts = new Map(fleet.values(name, chosen));
  const shown = fleet.values(name, fleet.none().fill(1)).map(([value]) => value).sort((one, other) => palette.get(one) - palette.get(other));
  const entry = (swatch, text, count) => element("li", { className: count ? "" : "none" },
    element("span", { className: `swatch ${swatch}` }), `${text} `, element("span", { className: "number" }, count.toLocaleString("en")));
  const items = shown.slice(0, COLOURS + 2).map((value) => entry(`c${palette.get(value)}`, value, counts.get(value) ?? 0));
  if (shown.length > items.length) items.push(element("li", { className: "quiet" }, `and ${shown.length - items.length} more`));
  if (column.includes(null)) items.push(entry("blank", "none", column.reduce((sum, value, node) => sum + (value === null ? chosen[node] : 0), 0)));
  replace($("legend"), ...items);
}

function search() {
  const { fleet, open } = state;
  const has = (key, value) => builder.has(key, value), toggle = (key, value) => builder.toggle(key, value);
  const count = labels($("labels"), fleet, { words: words($("search")), conditions: builder.whole, open, has, toggle, refresh: search });
  $("found").textContent = plural(count, "label");
}

function nodes() {
  const { fleet, chosen, columns, limit } = state;
  if (!fleet) return;
  const matching = fitting(fleet, chosen, words($("names")), (node) => [fleet.nodes[node], ...columns.problems[node]].join(" "));
  const { by, down } = state.sort;
  const found = by === "name" && !down ? matching : sorted(matching, ORDERS[by] ?? ((node) => columns[by][node]), down);
  const text = (name, node) => columns[name][node] ?? "";
  const cells = (node) => [fleet.nodes[node], columns.gpus[node], ...["driver", "kernel", "os", "cpu"].map((name) => text(name, node)),
    ageText(state.reports.ages[fleet.nodes[node]]), columns.problems[node].join(", ")];
  headings($("columns"), COLUMNS, state.sort, sortBy);
  table($("rows"), found, { limit, cells, open: showNode });
  $("listed").textContent = plural(found.length, "node");
  $("more").hidden = found.length <= limit;
  $("more").textContent = `Show more (${Math.max(0, found.length - limit).toLocaleString("en")} not shown)`;
}

/** By what a column is sorted, where that is not its text. */
const ORDERS = {
  name: (node) => state.fleet.nodes[node],
  gpus: (node) => state.columns.present[node] + state.columns.slices[node] || null,
  report: (node) => state.reports.ages[state.fleet.nodes[node]],
  problems: (node) => state.columns.problems[node].length || null,
};

function sortBy(name) {
  state.sort = { by: name, down: state.sort.by === name ? !state.sort.down : NUMBERS.includes(name) };
  nodes();
}

/** Its accelerators, what is taken of its DRA devices, problems and taints. */
function about(node) {
  const { fleet, columns } = state;
  if (node < 0) return;
  const only = fleet.none();
  only[node] = 1;
  const held = state.devices?.sums(only).map((row) => `${row[0]} ${takenText(row)}`) ?? [];
  const taints = [...fleet.facts.get("taint")].filter(([, runs]) => fleet.members(runs)[node]).map(([taint]) => `taint ${taint}`);
  $("node-about").textContent = [columns.gpus[node], ...held, ...columns.problems[node], ...taints].filter(Boolean).join(" · ");
}

function showNode(node) {
  const { fleet } = state;
  state.node = fleet.nodes[node];
  remember();
  const why = {};
  $("node-name").textContent = fleet.nodes[node];
  about(node);
  const found = fleet.labelsOf(node), field = $("node-search");
  const list = () => replace($("node-labels"), ...found.filter(([key, value]) =>
    words(field).every((word) => `${key}=${value} ${why[key] ?? ""}`.toLowerCase().includes(word)))
    .map(([key, value]) => element("tr", {}, element("th", { scope: "row" }, key), element("td", {}, value), element("td", { className: "quiet" }, why[key] ?? ""))));
  field.value = "";
  field.oninput = list;
  list();
  $("node-why").textContent = `kubectl nfd explain ${fleet.nodes[node]} LABEL`;
  $("node").showModal();
  reasons(fleet.nodes[node], (found) => { Object.assign(why, found); list(); });
}

/** Who set the labels of a node, unless another one is shown by then. */
async function reasons(name, shown) {
  try {
    const answer = await get(`?node=${encodeURIComponent(name)}`);
    const found = answer.ok ? await answer.json() : {};
    if (state.node === name) shown(found);
  } catch { /* the next look says that the master does not respond */ }
}

/** The address says what is chosen, so that it can be sent to somebody. */
function remember() {
  const found = { c: $("colour").value, s: builder.conditions, ...(state.node ? { n: state.node } : {}) };
  const text = builder.conditions.length || state.node || found.c !== "product" ? `#${encodeURIComponent(JSON.stringify(found))}` : location.pathname;
  history.replaceState(null, "", text);
}

function recall() {
  try {
    const found = JSON.parse(decodeURIComponent(location.hash.slice(1)) || "{}");
    if ([...$("colour").options].some((one) => one.value === found?.c)) $("colour").value = found.c;
    state.node = typeof found?.n === "string" ? found.n : "";
    builder.restore(found?.s);
  } catch {
    builder.restore([]);
  }
}

function theme(next) {
  const name = THEMES.includes(next) ? next : "auto";
  document.documentElement.dataset.theme = name;
  $("theme").textContent = `Theme: ${name}`;
  try { localStorage.setItem("theme", name); } catch { /* a browser may forbid it */ }
  if (state.fleet) picture.draw();
}

function nextTheme() {
  theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]);
}

const SHORTCUTS = {
  "/": () => $("search").focus(), n: () => builder.add(), c: () => builder.copy(), x: () => builder.clear(),
  p: () => $("picture").focus(), t: nextTheme, "?": () => $("help").showModal(),
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea, dialog");
  if (event.key === "Escape" && event.target.matches("input:not(dialog *)")) event.target.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !state.fleet || !Object.hasOwn(SHORTCUTS, event.key)) return;
  event.preventDefault();
  SHORTCUTS[event.key]();
});
$("door").addEventListener("submit", (event) => {
  event.preventDefault();
  state.token = $("token").value.trim();
  $("token").value = "";
  load();
});
for (const [id, act] of Object.entries({
  theme: nextTheme, add: () => builder.add(), clear: () => builder.clear(), copy: () => builder.copy(),
  "help-button": () => $("help").showModal(), more: () => { state.limit += STEP; nodes(); },
})) $(id).addEventListener("click", act);
$("node").addEventListener("close", () => { state.node = ""; remember(); });
$("search").addEventListener("input", search);
$("names").addEventListener("input", () => { state.limit = STEP; nodes(); });
$("colour").addEventListener("change", () => { paint(); remember(); });
for (const one of document.querySelectorAll("input[name=form]")) {
  one.addEventListener("change", () => { builder.form = one.value; builder.write(); });
}
addEventListener("hashchange", recall);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => picture.draw());
document.addEventListener("visibilitychange", () => { if (!document.hidden) load(); });
setInterval(() => { if (!document.hidden && $("door").hidden) load(); }, EVERY);
let remembered = "auto";
try { remembered = localStorage.getItem("theme") ?? "auto"; } catch { /* a browser may forbid it */ }
theme(remembered);
recall();
load();
