// The selector builder: conditions on labels as rows, how many nodes fulfil them, and the YAML that says so.

import { OPERATORS, asAffinity, asNodeSelector, asText, problem } from "./fleet.js";
import { element, plural, replace } from "./bars_and_tables.js";

const WORDS = {
  In: "is one of", NotIn: "is none of", Exists: "exists", DoesNotExist: "does not exist", Gt: "is greater than", Lt: "is less than",
};
const OFFERED = 200, VALUELESS = ["Exists", "DoesNotExist"];

export class Builder {
  /** `changed()` is told of every change; `rows` is the list of conditions in the document. */
  constructor({ rows, keys, values, output, note, copied, changed }) {
    Object.assign(this, { rows, keys, values, output, note, copied, changed });
    this.conditions = [];
    this.form = "nodeSelector";
  }

  /** Those that are whole: the rest selects nothing yet. */
  get whole() {
    return this.conditions.filter((one) => !problem(one));
  }

  /** The first condition that the API server would refuse, as text; "" if there is none. One with nothing in it yet is no condition. */
  get broken() {
    const index = this.conditions.findIndex((one) => (one.key || one.values.length) && problem(one));
    return index < 0 ? "" : `Condition ${index + 1}: ${problem(this.conditions[index])}`;
  }

  add(condition = { key: "", operator: "In", values: [] }) {
    this.conditions.push(condition);
    this.tell();
    const inputs = this.rows.querySelectorAll(".key-input");
    inputs[inputs.length - 1]?.focus();
  }

  clear() {
    this.conditions = [];
    this.tell();
  }

  has(key, value) {
    return this.conditions.some((one) => one.key === key && one.operator === "In" && one.values.includes(value));
  }

  /** Ask for one more value of a label, or no longer for it. */
  toggle(key, value) {
    const found = this.conditions.find((one) => one.key === key && one.operator === "In");
    if (!found) this.conditions.push({ key, operator: "In", values: [value] });
    else {
      found.values = found.values.includes(value) ? found.values.filter((one) => one !== value) : [...found.values, value];
      if (!found.values.length) this.conditions = this.conditions.filter((one) => one !== found);
    }
    this.tell();
  }

  /** Ask for exactly these values of these labels; without any, for none of the labels. */
  put(keys, conditions) {
    this.conditions = [...this.conditions.filter((one) => one.operator !== "In" || !keys.includes(one.key)), ...conditions];
    this.tell();
  }

  tell() {
    this.render();
    this.changed();
  }

  /** From the address of the page: whatever is no condition is left out. */
  restore(found) {
    const strings = (list) => Array.isArray(list) && list.every((one) => typeof one === "string");
    const good = (Array.isArray(found) ? found : []).slice(0, 50).filter((one) => one && strings([one.key]) &&
      OPERATORS.includes(one.operator) && strings(one.values));
    this.conditions = good.map(({ key, operator, values }) => ({ key, operator, values: [...values] }));
    this.tell();
  }

  render() {
    replace(this.rows, ...this.conditions.map((one, index) => this.row(one, index)));
  }

  /** Typing changes the condition, never the row: the focus and what is half typed stay. */
  row(condition, index) {
    const name = `Condition ${index + 1}`, hint = element("span", { className: "hint" });
    const field = (options) => element("input", { spellcheck: false, autocomplete: "off", ...options });
    const key = field({
      className: "key-input", value: condition.key, placeholder: "label", list: "keys", "aria-label": `${name}: label`,
      oninput: () => { condition.key = key.value.trim(); this.suggest(key.value); told(); },
    });
    const operator = element("select", { "aria-label": `${name}: operator`, onchange: () => { condition.operator = operator.value; told(); } },
      ...OPERATORS.map((one) => element("option", { value: one, selected: one === condition.operator }, WORDS[one])));
    const values = field({
      className: "value-input", value: condition.values.join(", "), placeholder: "values, separated by commas", list: "values",
      "aria-label": `${name}: values`, onfocus: () => this.suggestValues(condition.key, values.value),
      oninput: () => { condition.values = split(values.value); this.suggestValues(condition.key, values.value); told(); },
    });
    const remove = element("button", {
      type: "button", className: "icon", title: "Remove", "aria-label": `${name}: remove`,
      onclick: () => { this.conditions.splice(index, 1); this.tell(); this.rows.querySelector(".key-input")?.focus(); },
    }, "×");
    const check = () => {
      values.hidden = VALUELESS.includes(condition.operator);
      if (values.hidden) condition.values = [];
      else if (!condition.values.length) condition.values = split(values.value);
      const wrong = problem(condition);
      hint.textContent = wrong || this.unknown(condition.key);
      for (const one of [key, values]) one.setAttribute("aria-invalid", String(Boolean(wrong)));
    };
    const told = () => { check(); this.changed(); };
    check();
    for (const [part, one] of Object.entries({ key, operator, values, remove })) one.dataset.focus = `${part} ${index}`;
    return element("li", { className: "condition" }, key, operator, values, remove, hint);
  }

  /** That no node has a label, and which one may be meant. */
  unknown(key) {
    if (!this.fleet || !key || this.fleet.labels.has(key)) return "";
    const near = this.fleet.nearest(key);
    return `no node has this label${near ? `; did you mean ${near}?` : ""}`;
  }

  /** Labels that contain what is being typed, the most used first. */
  suggest(text) {
    const found = this.fleet.keysLike(text).slice(0, OFFERED);
    this.keys.replaceChildren(...found.map((key) => element("option", { value: key }, plural(this.fleet.usage.get(key).nodes, "node"))));
  }

  /** Values of a label, the most frequent first; after a comma, one more for those already there. */
  suggestValues(key, text) {
    const before = text.slice(0, text.lastIndexOf(",") + 1);
    const found = (this.fleet?.valuesOf(key) ?? []).slice(0, OFFERED);
    this.values.replaceChildren(...found.map(([value, nodes]) => element("option", { value: before ? `${before} ${value}` : value }, plural(nodes, "node"))));
  }

  /** The text for a manifest, in the form that is chosen. */
  write() {
    const conditions = this.whole;
    const simple = asNodeSelector(conditions);
    const forms = { nodeSelector: simple, nodeAffinity: asAffinity(conditions), kubectl: `kubectl get nodes -l '${asText(conditions)}'` };
    if (this.broken) {
      this.output.textContent = "";
      this.note.textContent = "The selector appears here once all conditions are valid.";
    } else if (!conditions.length) {
      this.output.textContent = "";
      this.note.textContent = "Click a bar or a label below, or add a condition. The selector for these nodes appears here.";
    } else {
      this.output.textContent = forms[this.form] ?? forms.nodeAffinity;
      this.note.textContent = this.form === "nodeSelector" && simple === null
        ? "A nodeSelector allows one value per label, so this is the equivalent nodeAffinity." : "";
    }
    this.output.parentElement.hidden = !this.output.textContent;
  }

  async copy() {
    const text = this.output.textContent;
    if (!text) return;
    try {
      await navigator.clipboard.writeText(text);
      this.copied.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(this.output);
      this.copied.textContent = "Text selected. Copy it with the keyboard.";
    }
    setTimeout(() => { this.copied.textContent = ""; }, 4000);
  }
}

function split(text) {
  return text.trim() ? text.split(",").map((one) => one.trim()) : [];
}
