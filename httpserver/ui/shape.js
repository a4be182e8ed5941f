// How a toolset shows single tools: one is edited at a time, with its definition before and after.

import { el, put, setAttr, setText } from "./dom.js";
import { count, percent } from "./format.js";
import { block, choose, labelled } from "./parts.js";
import { anything, control, typeName } from "./arguments.js";
import { get, parse } from "./api.js";

/**
 * shapes returns the field of a form that edits how tools are shown. stated are the shapes that the toolset states;
 * changed() is called after each change. value() returns the shapes that differ, and throws an error about the field if
 * one cannot be read; tool() returns the registered name of the open tool, and open(name) opens one.
 */
export function shapes(stated, changed) {
  const now = { ...stated }, touched = new Set();
  const errors = el("div.wrong", { role: "alert" }), place = el("div");
  const hint = el("p.hint", {}, "Clients see each tool as its extension states it, unless it is changed here: press shape beside a tool below.");
  let editor = null;

  function open(name) {
    if (editor?.name === name) return editor.focus();
    editor = shapeEditor(name, now[name] ?? {}, (shape) => {
      now[name] = shape;
      touched.add(name);
      changed();
    }, () => {
      editor = null;
      put(place);
      hint.hidden = false;
    });
    hint.hidden = true;
    put(place, editor.node);
    editor.focus();
    changed();
  }

  return {
    open,
    node: el("section.shapes", { "aria-label": "Tools in another shape" }, el("h3", {}, "Tools in another shape"), hint, place, errors),
    tool: () => editor?.name ?? "",
    shaped: (name) => Object.keys(now[name] ?? {}).length > 0,
    names: () => Object.keys(now).filter((name) => Object.keys(now[name]).length > 0),
    value() {
      if (editor?.fault()) throw Object.assign(new Error(editor.fault()), { data: { misfits: [{ field: "tools", message: editor.fault() }] } });
      return Object.fromEntries([...touched].map((name) => [name, now[name]]));
    },
    wrong(misfits) {
      const shown = JSON.stringify(misfits);
      if (shown === errors.dataset.shown) return; // a repeated alert would be read again
      errors.dataset.shown = shown;
      put(errors, misfits.map((m) => {
        const [, tool = ""] = m.field.split(".");
        return el("p", {}, m.message.includes(tool) ? m.message : `${m.field.slice("tools.".length)}: ${m.message}`, m.suggestion ? `; did you mean ${m.suggestion}?` : null);
      }));
    },
    /** preview shows the open tool as the toolset would show it; undefined: it would not. */
    preview: (shown) => editor?.preview(shown),
  };
}

const ways = [["", "as it is"], ["fix", "always"], ["default", "by default"], ["hide", "never sent"]];

/** shapeEditor edits how one tool is shown. */
function shapeEditor(name, stated, changed, closed) {
  const title = labelled("Name", el("input", { autocomplete: "off", spellcheck: "false", maxlength: "64", placeholder: name, oninput: later }, ""), "Shown and called so. Policies, the audit log and metrics keep the registered name.");
  const about = labelled("Description", el("textarea", { rows: "2", oninput: later }, stated.describe ?? ""), "What a model reads; empty: the tool's own.");
  const keep = labelled("Kept of results", el("textarea", { rows: "2", spellcheck: "false", placeholder: "number\nuser/login\nitems/*/id", oninput: later }, (stated.result?.keep ?? []).join("\n")), "One JSON Pointer on each line; empty: all.");
  const most = labelled("Tokens of a result", el("input", { inputmode: "numeric", autocomplete: "off", placeholder: "no bound", oninput: later }), "After which it is cut.");
  title.input.value = stated.name ?? "";
  most.input.value = stated.result?.max_tokens ?? "";
  const list = el("div.args"), none = el("p.hint", {}, "…");
  const before = block("Before"), after = block("After"), was = el("h4", {}, "Before"), is = el("h4", { "aria-live": "polite" }, "After");
  const reset = el("button", { type: "button", onclick: clear }, "As it is");
  const close = el("button", { type: "button", onclick: closed }, "Close");
  let args = [], own = null, last = null, fault = "";

  get(`/tools/${encodeURIComponent(name)}`).then((t) => {
    own = t;
    setAttr(about.input, "placeholder", t.description);
    before.set(definition(t.descriptor));
    setText(was, `Before, ~${count(t.tokens)} tokens`);
    fill(stated.args ?? {});
    compare();
  }, (e) => setText(none, e.message));

  /** compare shows the tool as the toolset would show it. */
  function compare() {
    after.set(last ? definition(last.descriptor) : "No client of this toolset sees it.");
    const saved = own && last ? own.tokens - last.tokens : 0;
    setText(is, last ? `After, ~${count(last.tokens)} tokens${saved > 0 ? `, ${percent(saved, own.tokens)} less` : ""}` : "After");
  }
  /** fill shows the arguments of the tool, and those that only the toolset states. */
  function fill(shown) {
    const schema = own?.descriptor?.inputSchema ?? {};
    const names = new Set([...Object.keys(schema.properties ?? {}), ...(Array.isArray(schema.required) ? schema.required : []), ...Object.keys(shown)]);
    args = [...names].map((n) => argument(n, schema.properties?.[n] ?? {}, shown[n] ?? {}, later));
    setText(none, args.length ? "" : "It has no arguments.");
    none.hidden = args.length > 0;
    put(list, args.map((a) => a.node));
  }
  function clear() {
    for (const field of [title, about, keep, most]) field.input.value = "";
    fill({});
    stated = {};
    later();
  }
  function later() {
    try {
      fault = "";
      changed(read());
    } catch (e) {
      fault = `${name}: ${e.message}`;
      changed(stated);
    }
  }
  /** read returns the shape that the fields state. */
  function read() {
    const shape = {}, result = {}, texts = keep.input.value.split("\n").map((p) => p.trim()).filter(Boolean);
    if (title.input.value.trim()) shape.name = title.input.value.trim();
    if (about.input.value.trim()) shape.describe = about.input.value;
    const all = Object.fromEntries(args.map((a) => [a.name, a.value()]).filter(([, value]) => value));
    if (Object.keys(all).length) shape.args = all;
    else if (!own && stated.args) shape.args = stated.args; // nobody knows which there are
    if (stated.annotations) shape.annotations = stated.annotations;
    if (texts.length) result.keep = [...new Set(texts)];
    if (most.input.value.trim()) {
      if (!/^[1-9]\d{0,8}$/.test(most.input.value.trim())) throw new Error("the tokens of a result are a whole number");
      result.max_tokens = Number(most.input.value);
    }
    if (Object.keys(result).length) shape.result = result;
    return shape;
  }
  return {
    name,
    fault: () => fault,
    focus() {
      title.input.focus();
      title.node.scrollIntoView({ block: "nearest" });
    },
    node: el("div.shape", {}, el("p.mono", {}, name), title.node, about.node, el("h4", {}, "Arguments"), none, list, el("div.fields", {}, keep.node, most.node),
      el("div.actions", {}, reset, close), el("div.compared", {}, el("div", {}, was, before.node), el("div", {}, is, after.node))),
    preview(shown) {
      last = shown ?? null;
      compare();
    },
  };
}

/** definition returns what a model sees of a tool. */
const definition = (d) => JSON.stringify({ name: d.name, description: d.description, inputSchema: d.inputSchema }, null, 2);

/** argument edits how one argument is shown. value() returns undefined for one that is shown as it is. */
function argument(name, of, stated, changed) {
  const way = choose(ways, stated.hide ? "hide" : ["fix", "default"].find((w) => Object.hasOwn(stated, w)) ?? "");
  const value = stated.fix ?? stated.default;
  let typed = control(of);
  if (value !== undefined && !typed.fits(value)) typed = anything();
  if (value !== undefined) typed.show(JSON.stringify(value));
  const text = el("input", { autocomplete: "off", placeholder: typeof of.description === "string" ? of.description : "no description", "aria-label": `description of ${name}` });
  text.value = stated.describe ?? "";
  setAttr(way, "aria-label", `how ${name} is sent`);
  setAttr(typed.input, "aria-label", `value of ${name}`);
  const show = () => {
    typed.input.hidden = !["fix", "default"].includes(way.value);
    text.hidden = ["fix", "hide"].includes(way.value);
  };
  way.addEventListener("change", () => { show(); changed(); });
  for (const input of [typed.input, text]) input.addEventListener("input", changed);
  show();
  return {
    name,
    node: el("div.arg", {}, el("span", {}, el("b.mono", {}, name), " ", el("small", {}, typeName(of))), way, typed.input, text),
    value() {
      const shape = {};
      setAttr(typed.input, "aria-invalid", null);
      if (way.value === "hide") return { hide: true };
      if (way.value) {
        try {
          const json = typed.read(true);
          if (json === null) throw new Error("a value is needed");
          shape[way.value] = parse(json);
        } catch (e) {
          setAttr(typed.input, "aria-invalid", "true");
          throw new Error(`${name}: ${e.message}`);
        }
      }
      if (way.value !== "fix" && text.value.trim()) shape.describe = text.value;
      return Object.keys(shape).length ? shape : undefined;
    },
  };
}
