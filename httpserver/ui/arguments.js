// The arguments of a tool: a field for each property of its input schema, or JSON.

import { el, setAttr, setText } from "./dom.js";
import { toast } from "./parts.js";

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const MOST = 60; // fields; a tool with more has JSON only

/**
 * argumentsOf returns {node, change, text(), toggle()}. text returns the arguments as JSON text, with numbers as they were
 * typed, and throws an error that names the field which is wrong. toggle, and the button change, change between fields
 * and JSON.
 */
export function argumentsOf(schema) {
  const required = new Set(schema?.required ?? []);
  const properties = Object.entries(schema?.properties ?? {}).sort(([a], [b]) => required.has(b) - required.has(a));
  const fields = properties.length <= MOST ? properties.map(([name, of]) => field(name, of ?? {}, required.has(name))) : [];
  const raw = el("textarea", { "aria-label": "Arguments", spellcheck: "false", rows: "6" });
  const form = el("div.arguments", {}, ...fields.map((f) => f.node));
  const change = el("button", { type: "button", title: "r", onclick: toggle }, "As JSON");
  const node = el("div", {}, form, raw);
  let asJSON = !fields.length;
  raw.value = asJSON ? JSON.stringify(Object.fromEntries([...required].map((name) => [name, null])), null, 2) : "";
  show();

  function text() {
    if (!asJSON) return written(fields);
    JSON.parse(raw.value); // reports the place of a syntax error
    return raw.value;
  }
  function toggle() {
    if (!fields.length) return;
    try {
      if (asJSON) fill(fields, raw.value);
      else raw.value = written(fields);
    } catch (e) {
      toast(e.message, "bad");
      return;
    }
    asJSON = !asJSON;
    show();
  }
  function show() {
    form.hidden = asJSON;
    raw.hidden = !asJSON;
    setText(change, asJSON ? "As fields" : "As JSON");
  }
  return { node, change: fields.length ? change : null, text, toggle };
}

/** written returns the fields that are sent as a JSON object. */
function written(fields) {
  const sent = fields.map((f) => [f.name, f.json()]).filter(([, json]) => json !== null);
  return sent.length ? `{\n${sent.map(([name, json]) => `  ${JSON.stringify(name)}: ${json}`).join(",\n")}\n}` : "{}";
}

/** fill sets the fields from JSON text. It throws an error if they cannot show all of it. */
function fill(fields, text) {
  const source = new Map(); // numbers as written, which parsing may round
  const all = JSON.parse(text, function (key, value, context) {
    if (typeof value === "number") source.set(key, { holder: this, text: context?.source ?? String(value) });
    return value;
  });
  if (all === null || typeof all !== "object" || Array.isArray(all)) throw new Error("arguments are a JSON object");
  const more = Object.keys(all).find((name) => !fields.some((f) => f.name === name));
  if (more !== undefined) throw new Error(`${more}: the schema has no such argument; it can be sent as JSON`);
  const texts = fields.map((f) => {
    if (!Object.hasOwn(all, f.name)) return null;
    const written = source.get(f.name);
    return written?.holder === all ? written.text : JSON.stringify(all[f.name], null, 2);
  });
  fields.forEach((f, i) => { if (texts[i] !== null && !f.fits(texts[i])) throw new Error(`${f.name}: no field shows ${texts[i].slice(0, 80)}; it can be sent as JSON`); });
  fields.forEach((f, i) => f.set(texts[i]));
}

/**
 * field returns {name, node, json(), fits(text), set(text)} for one property. json returns null for an argument that is
 * not sent: an optional one whose field is empty. set(null) empties the field.
 */
function field(name, of, needed) {
  const { input, read, fits, show } = control(of);
  const about = typeof of.description === "string" ? of.description.slice(0, 400) : "";
  setAttr(input, "aria-required", needed ? "true" : null);
  const json = () => {
    setAttr(input, "aria-invalid", null);
    try {
      const value = read(needed);
      if (value === null && needed) throw new Error("is required");
      return value;
    } catch (e) {
      setAttr(input, "aria-invalid", "true");
      input.focus();
      throw new Error(`${name}: ${e.message}`);
    }
  };
  if (of.default !== undefined && fits(of.default)) show(JSON.stringify(of.default));
  return {
    name,
    json,
    fits: (text) => fits(JSON.parse(text)),
    set: show,
    node: el("label.field", {}, el("span", {}, el("b.mono", {}, name), needed ? " required " : " ", el("small", {}, typeName(of))), input, about ? el("small", {}, about) : null),
  };
}

/** typeName names the type of a property. */
export const typeName = (of) => [of.type ?? []].flat().join(" or ") + (of.format ? `, ${of.format}` : "");

/**
 * control returns the input of a property. read returns its value as JSON text, null if it is empty; fits reports whether
 * it can show a value; show shows one of JSON text, or with null none.
 */
export function control(of) {
  const types = [of.type ?? []].flat().filter((t) => t !== "null");
  const type = types.length === 1 ? types[0] : "";
  const choices = Array.isArray(of.enum) ? of.enum : type === "boolean" ? [true, false] : [];
  if (choices.length && choices.length <= 200) return choice(choices.map((v) => JSON.stringify(v)));
  if (type === "string") return line();
  return type === "number" || type === "integer" ? number(type) : anything();
}

/** choice is the control of a value out of a list; each choice is JSON text. */
function choice(choices) {
  const input = el("select", {}, el("option", { value: "" }, "–"), ...choices.map((c) => el("option", { value: c }, c[0] === '"' ? JSON.parse(c) : c)));
  return {
    input,
    read: () => input.value || null,
    fits: (value) => choices.includes(JSON.stringify(value)),
    show: (text) => { input.value = text ?? ""; },
  };
}

/** line is the control of a text. An empty one is sent if the argument is required. */
function line() {
  const input = el("textarea", { rows: "1", spellcheck: "false" });
  return {
    input,
    read: (needed) => (input.value || needed ? JSON.stringify(input.value) : null),
    fits: (value) => typeof value === "string" && value !== "" && !value.includes("\r"), // a text area makes CR a line feed
    show: (text) => { input.value = text === null ? "" : JSON.parse(text); },
  };
}

/** number is the control of a number, which is sent as it is typed. */
function number(type) {
  const input = el("input", { inputmode: "decimal", autocomplete: "off" });
  return {
    input,
    read() {
      const text = input.value.trim();
      if (text && !NUMBER.test(text)) throw new Error(`${text} is not a number`);
      if (type === "integer" && text && !Number.isInteger(Number(text))) throw new Error(`${text} is not a whole number`);
      return text || null;
    },
    fits: (value) => typeof value === "number",
    show: (text) => { input.value = text ?? ""; },
  };
}

/** anything is the control of a list, an object or a value of several types, which is typed as JSON. */
export function anything() {
  const input = el("textarea", { rows: "2", spellcheck: "false", placeholder: "JSON" });
  return {
    input,
    read() {
      const text = input.value.trim();
      if (text) JSON.parse(text); // reports the place of a syntax error
      return text || null;
    },
    fits: () => true,
    show: (text) => { input.value = text ?? ""; },
  };
}
