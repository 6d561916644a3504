// The fleet as the master draws it (picture.py), and conditions on labels as Kubernetes means them. No DOM here.

export const OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
const NAME = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
const PREFIX = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const LOWEST = -(2n ** 63n), HIGHEST = 2n ** 63n - 1n;

/** Calls `each` with the number of every node in `runs`: [gap, length, gap, length, …]. */
export function walk(runs, each) {
  let at = 0;
  for (let index = 0; index < runs.length; index += 2) {
    at += runs[index];
    for (const end = at + runs[index + 1]; at < end; at += 1) each(at);
  }
}

export class Fleet {
  constructor(data) {
    this.nodes = data.nodes;
    this.cluster = data.cluster;
    this.dra = data.dra;
    this.size = data.nodes.length;
    this.keys = new Map(Object.entries(data.keys));
    this.labels = new Map(data.labels.map(([key, values]) => [key, new Map(values)]));
    this.facts = new Map(Object.entries(data.facts).map(([name, values]) => [name, new Map(values)]));
    this.models = data.models;
    this.usage = new Map([...this.labels].map(([key, values]) => [key, this.use(values)]));
  }

  /** How useful a label is for a selector: 0 tells nodes apart, 1 is the same on all, 2 another one on each; and on how many it is. */
  use(values) {
    let nodes = 0;
    for (const runs of values.values()) for (let index = 1; index < runs.length; index += 2) nodes += runs[index];
    return { nodes, rank: values.size > 2 && values.size > 0.9 * this.size ? 2 : values.size === 1 && nodes === this.size ? 1 : 0 };
  }

  /** Labels whose key contains a text, the most used first: those whose name begins so, then by what they tell, then by nodes. */
  keysLike(text) {
    const word = text.toLowerCase();
    const begins = (key) => (key.toLowerCase().startsWith(word) || key.slice(key.indexOf("/") + 1).toLowerCase().startsWith(word) ? 0 : 1);
    const about = (key) => [begins(key), this.usage.get(key).rank, -this.usage.get(key).nodes];
    const found = [...this.labels.keys()].filter((key) => key.toLowerCase().includes(word)).map((key) => [key, about(key)]);
    found.sort(([, one], [, other]) => one[0] - other[0] || one[1] - other[1] || one[2] - other[2]);
    return found.map(([key]) => key);
  }

  /** Values of a label, the most frequent first: [value, nodes]. */
  valuesOf(key) {
    const all = this.none().fill(1);
    return [...(this.labels.get(key) ?? [])].map(([value, runs]) => [value, this.count(runs, all)]).sort(byCount);
  }

  /** The label whose key is most like this one; "" if none is. */
  nearest(key) {
    let found = "", least = Math.max(2, Math.floor(key.length / 4)) + 1;
    for (const one of this.labels.keys()) {
      const apart = Math.abs(one.length - key.length) < least ? distance(one, key) : least;
      if (apart < least) [found, least] = [one, apart];
    }
    return found;
  }

  /** One byte for each node. */
  none() {
    return new Uint8Array(this.size);
  }

  members(runs) {
    const found = this.none();
    walk(runs, (node) => { found[node] = 1; });
    return found;
  }

  /** Which nodes fulfil the conditions but for lists of these keys: what one could choose as well. */
  without(conditions, keys) {
    return this.select(conditions.filter((one) => one.operator !== "In" || !keys.includes(one.key)));
  }

  /** How many of `runs` are in `chosen`. */
  count(runs, chosen) {
    let found = 0;
    walk(runs, (node) => { found += chosen[node]; });
    return found;
  }

  /** Which nodes fulfil one condition; a missing label is in no list. */
  fulfil({ key, operator, values }) {
    const negative = operator === "NotIn" || operator === "DoesNotExist";
    const found = this.none().fill(negative ? 1 : 0);
    const wanted = new Set(values);
    for (const [value, runs] of this.labels.get(key) ?? []) {
      const listed = operator === "Exists" || operator === "DoesNotExist" || (
        operator === "Gt" || operator === "Lt" ? compare(value, operator, values[0]) : wanted.has(value));
      if (listed) walk(runs, (node) => { found[node] = negative ? 0 : 1; });
    }
    return found;
  }

  /** Which nodes fulfil all of them. */
  select(conditions) {
    const found = this.none().fill(1);
    for (const condition of conditions) {
      const one = this.fulfil(condition);
      for (let node = 0; node < this.size; node += 1) found[node] &= one[node];
    }
    return found;
  }

  /** For each node its value of a fact, of the first one where it has several; null where it has none. */
  column(name) {
    const found = new Array(this.size).fill(null);
    for (const [value, runs] of this.facts.get(name)) walk(runs, (node) => { found[node] ??= value; });
    return found;
  }

  /** For each node a list, of the values of a fact. */
  lists(name) {
    const found = Array.from({ length: this.size }, () => []);
    for (const [value, runs] of this.facts.get(name)) walk(runs, (node) => found[node].push(value));
    return found;
  }

  /** Sum of a fact that is a number, over the chosen nodes. */
  sum(name, chosen) {
    let found = 0;
    for (const [value, runs] of this.facts.get(name)) found += value * this.count(runs, chosen);
    return found;
  }

  /** Devices by product, whole ones before MIG devices, the most numerous first: [product, devices, whether these are MIG devices]. */
  products(chosen) {
    const found = new Map();
    for (const [product, count, , runs, mig] of this.models) {
      const nodes = this.count(runs, chosen);
      if (nodes) found.set(product, [(found.get(product)?.[0] ?? 0) + count * nodes, mig]);
    }
    return [...found].map(([product, [devices, mig]]) => [product, devices, mig]).sort((one, other) => one[2] - other[2] || byCount(one, other));
  }

  /** Values of a fact, the most numerous first: [value, nodes]. */
  values(name, chosen) {
    const counted = [...this.facts.get(name)].map(([value, runs]) => [value, this.count(runs, chosen)]);
    return counted.filter(([, nodes]) => nodes).sort(byCount);
  }

  /** The labels of one node: [key, value]. */
  labelsOf(node) {
    const found = [];
    for (const [key, values] of this.labels) {
      for (const [value, runs] of values) if (includes(runs, node)) found.push([key, value]);
    }
    return found;
  }

  /** Conditions that select nodes with these values of a fact, by its labels; none where a label is missing. */
  conditionsFor(name, values) {
    const facts = this.facts.get(name);
    const nodes = this.none();
    for (const value of values) walk(facts.get(value) ?? [], (node) => { nodes[node] = 1; });
    return (this.keys.get(name) ?? []).map((key) => {
      const found = [...(this.labels.get(key) ?? [])].filter(([, runs]) => this.count(runs, nodes));
      return { key, operator: "In", values: found.map(([value]) => value) };
    }).filter((one) => one.values.length);
  }
}

/** Devices of DRA drivers (`dra_data` of picture.py); `nodes` numbers those of `fleet`. */
export class Devices {
  constructor(data, fleet) {
    const numbers = new Map(fleet.nodes.map((name, node) => [name, node]));
    const places = data.nodes.map((name) => numbers.get(name));
    Object.assign(this, { note: data.note, pools: data.pools });
    this.resources = data.resources.map(([name, unit, groups]) => [name, unit, groups.map(([all, offered, taken, runs]) => {
      const nodes = [];
      walk(runs, (place) => { if (places[place] !== undefined) nodes.push(places[place]); });
      return [all, offered, taken, nodes];
    })]);
  }

  /** Over the chosen nodes: [resource, unit, all, offered, taken]; without resources of which there are none. */
  sums(chosen) {
    return this.resources.map(([name, unit, groups]) => {
      const sums = [0, 0, 0];
      let nodes = 0;
      for (const [all, offered, taken, places] of groups) {
        const count = places.reduce((sum, node) => sum + chosen[node], 0);
        nodes += count;
        [all, offered, taken].forEach((amount, index) => { sums[index] += amount * count; });
      }
      return [name, unit, ...sums, nodes];
    }).filter((row) => row.pop());
  }
}

/** How many letters are to be added, removed or replaced (Levenshtein). */
function distance(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let line = 1; line <= one.length; line += 1) {
    const next = [line];
    for (let index = 1; index <= other.length; index += 1) {
      next.push(Math.min(row[index] + 1, next[index - 1] + 1, row[index - 1] + (one[line - 1] === other[index - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[other.length];
}

function byCount(one, other) {
  return other[1] - one[1] || (one[0] < other[0] ? -1 : 1);
}

function includes(runs, node) {
  let at = 0;
  for (let index = 0; index < runs.length; index += 2) {
    at += runs[index];
    if (node < at) return false;
    at += runs[index + 1];
    if (node < at) return true;
  }
  return false;
}

function integer(text) {
  if (!/^[+-]?[0-9]{1,40}$/.test(text)) return null;
  const number = BigInt(text.replace("+", ""));
  return number < LOWEST || number > HIGHEST ? null : number;
}

function compare(value, operator, bound) {
  const [one, other] = [integer(value), integer(bound)];
  if (one === null || other === null) return false;
  return operator === "Gt" ? one > other : one < other;
}

/** Why the API server would refuse a condition, or what it lacks; "" if it is whole. */
export function problem({ key, operator, values }) {
  const [name, prefix, ...rest] = key.split("/").reverse();
  if (!key) return "choose a label";
  if (!NAME.test(name) || rest.length || (prefix !== undefined && (!PREFIX.test(prefix) || prefix.length > 253))) {
    return "not a valid label key";
  }
  if (!OPERATORS.includes(operator)) return "not a valid operator";
  if (operator === "Exists" || operator === "DoesNotExist") return "";
  if (!values.length) return "choose a value";
  if (operator === "Gt" || operator === "Lt") {
    return values.length === 1 && /^[0-9]+$/.test(values[0]) && integer(values[0]) !== null ? "" : "enter a whole number";
  }
  const odd = values.find((value) => value !== "" && !NAME.test(value));
  return odd === undefined ? "" : `“${odd}” is not a valid label value`;
}

/** As `kubectl get nodes -l` takes it. */
export function asText(conditions) {
  return conditions.map(({ key, operator, values }) => {
    if (operator === "Exists") return key;
    if (operator === "DoesNotExist") return `!${key}`;
    if (operator === "Gt" || operator === "Lt") return `${key}${operator === "Gt" ? ">" : "<"}${values[0]}`;
    if (values.length === 1 && values[0]) return `${key}${operator === "In" ? "=" : "!="}${values[0]}`;
    return `${key} ${operator === "In" ? "in" : "notin"} (${values.join(",")})`;
  }).join(",");
}

/** The field `nodeSelector` of a pod; null where it cannot say it: one value for each label, and nothing else. */
export function asNodeSelector(conditions) {
  const keys = new Set(conditions.map((one) => one.key));
  if (keys.size !== conditions.length) return null;
  if (!conditions.every((one) => one.operator === "In" && one.values.length === 1)) return null;
  return ["nodeSelector:", ...conditions.map((one) => `  ${quoted(one.key)}: ${quoted(one.values[0])}`)].join("\n");
}

/** The field `affinity` of a pod. */
export function asAffinity(conditions) {
  const lines = ["affinity:", "  nodeAffinity:", "    requiredDuringSchedulingIgnoredDuringExecution:"];
  lines.push("      nodeSelectorTerms:");
  conditions.forEach(({ key, operator, values }, index) => {
    if (!index) lines.push("      - matchExpressions:");
    lines.push(`        - key: ${quoted(key)}`, `          operator: ${operator}`);
    if (values.length) lines.push("          values:", ...values.map((value) => `          - ${quoted(value)}`));
  });
  return lines.join("\n");
}

/** A YAML scalar that is text whatever it looks like; keys with a namespace need no quotes. */
function quoted(text) {
  return /^[a-z][-a-z0-9.]*\/[-A-Za-z0-9_.]+$/.test(text) ? text : JSON.stringify(text);
}
