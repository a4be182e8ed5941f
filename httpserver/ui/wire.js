// The frames between the host and its extensions, while this view is open.

import { el, put, setAttr, setText, Rows } from "./dom.js";
import { clock, count, json } from "./format.js";
import { empty, matches, select } from "./parts.js";
import { refresh } from "./store.js";
import { listen } from "./api.js";

const KEPT = 300;

export function wire(nav) {
  const list = el("ol.log.wire");
  const rows = new Rows(list, row);
  const by = select("Extension", [["", "choose an extension"]], (v) => nav("#/wire" + (v ? `/${encodeURIComponent(v)}` : "")));
  const pause = el("button", { type: "button", "aria-pressed": "false", onclick: () => { setPaused(!paused); } }, "Pause");
  const state = el("span.total");
  const none = empty("No frame since this view was opened.", "Choose an extension. Its messages appear here, with secrets masked, while this view is open.");
  let frames = [], paused = false, tapped = null, stream = null, sequence = 0, lost = 0;

  function setPaused(is) {
    paused = is;
    setAttr(pause, "aria-pressed", String(is));
    setText(pause, is ? "Resume" : "Pause");
  }

  /** tap follows the frames of an extension, or with "" ends. */
  async function tap(id) {
    stream?.abort();
    tapped = id;
    frames = [];
    lost = 0;
    if (!id) return;
    const mine = (stream = new AbortController());
    try {
      await listen(`/tap?extension=${encodeURIComponent(id)}`, (_, frame) => {
        if (mine !== stream || paused) return;
        lost += frame.lost ?? 0;
        frames.unshift({ ...frame, key: ++sequence });
        if (frames.length > KEPT) frames.length = KEPT;
        refresh();
      }, mine.signal);
    } catch { /* the view is left, or the connection is lost */ }
    if (mine === stream) tapped = null; // followed again with the next update
  }

  addEventListener("hashchange", () => { if (!location.hash.startsWith("#/wire/")) tap(""); });
  return {
    node: el("div", {}, el("div.bar", {}, by.node, pause, state), list, none),
    search: "Find words in the frames",
    update(s, { query, rest }) {
      by.fill([["", "choose an extension"], ...(s.status?.runs ?? []).filter((x) => !["skipped", "untrusted", "disabled", "not_ready"].includes(x.state)).map((x) => [x.id, x.id])]);
      if (by.node.value !== rest) by.node.value = rest;
      if (s.phase === "live" && tapped !== rest) tap(rest);
      const shown = frames.filter((f) => matches(query, f.text));
      rows.update(shown, (f) => f.key);
      none.hidden = shown.length > 0;
      setText(state, lost ? `${count(lost)} frames were lost, because this page was too slow` : "");
    },
  };
}

function row(f) {
  const text = el("pre", { tabindex: "0" }), open = el("details", {}, el("summary", {}, f.text.slice(0, 300)), text);
  open.addEventListener("toggle", () => { if (open.open) put(text, json(f.text, { lines: true }), f.cut ? `\n… ${count(f.cut)} bytes more` : ""); });
  return {
    node: el("li", { "data-tone": f.sent ? "busy" : "good" }, el("time", { datetime: f.time }, clock(f.time)), el("span.level", {}, f.sent ? "sent" : "got"),
      el("span.who", {}, f.pid ? `pid ${f.pid}` : f.extension), el("div.said", {}, open)),
  };
}
