// The frame around the views: routing, search and keys.

import { access } from "./access.js";
import { address, nav, setParam } from "./address.js";
import { dropToken, hasToken, onRejected, setToken, takeToken } from "./api.js";
import { approvals } from "./approvals.js";
import { calls } from "./calls.js";
import { el, setAttr, put, setText } from "./dom.js";
import { extensions } from "./extensions.js";
import { count, plural, since } from "./format.js";
import { governance } from "./governance.js";
import { host } from "./host.js";
import { logs } from "./logs.js";
import { overview } from "./overview.js";
import { recordings } from "./recordings.js";
import { loadHistory, refresh, run, store, subscribe, verdict } from "./store.js";
import { tools } from "./tools.js";
import { wire } from "./wire.js";

const views = [
  ["overview", "Overview", overview], ["extensions", "Extensions", extensions], ["tools", "Tools", tools], ["calls", "Calls", calls],
  ["wire", "Wire", wire], ["recordings", "Recordings", recordings], ["logs", "Logs", logs], ["governance", "Governance", governance], ["approvals", "Approvals", approvals], ["host", "Host", host], ["access", "Access", access],
].map(([name, title, make]) => ({ name, title, make, badge: el("b.count", { hidden: true }) }));

const links = views.map((v, i) => (v.link = el("a", { href: `#/${v.name}`, title: i < 10 ? `${v.title} (${(i + 1) % 10})` : v.title }, v.title, v.badge)));
const dot = el("span.dot"), phase = el("span.phase"), facts = el("span.facts");
const search = el("input", { type: "search", "aria-label": "Search", autocomplete: "off", spellcheck: "false", oninput: () => setParam("q", search.value) });
const theme = el("button.theme", { type: "button", onclick: () => setTheme({ auto: "light", light: "dark", dark: "auto" }[current]) });
const heading = el("h1.unseen"), content = el("div"), banner = el("p.verdict", { role: "alert", hidden: true });
const main = el("main", { tabindex: "-1", id: "main", onclick: follow }, heading, banner, content);
let current = "auto", at = null;

function frame() {
  put(document.body, el("a.skip", { href: "#main", onclick: (e) => { e.preventDefault(); main.focus(); } }, "To the content"),
    el("header.top", {}, el("a.brand", { href: "#/overview" }, el("img", { src: "icon.svg", alt: "", width: "22", height: "22" }), "exthost"), el("div.host", {}, dot, phase, facts),
      el("div.tools", {}, search, theme, el("button", { type: "button", title: "Keys", "aria-label": "Keys", onclick: help }, "?"))),
    el("nav", { "aria-label": "Views" }, ...links), main);
}

/** route parses the address: #/view/rest?params. */
function route() {
  const { path, params } = address();
  const [, name, ...rest] = path.split("/");
  return { view: views.find((v) => v.name === name) ?? views[0], rest: decoded(rest.join("/")), params };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // not valid percent-encoding
  }
}

function show() {
  const { view, rest, params } = route();
  const q = params.get("q") ?? "";
  view.made ??= view.make(nav);
  if (search.value !== q) search.value = q;
  if (at !== view) {
    at = view;
    view.made.shown?.();
    put(content, view.made.node);
    setText(heading, view.title);
    search.hidden = !view.made.search;
    setAttr(search, "placeholder", `${view.made.search ?? ""}  /`);
    for (const v of views) setAttr(v.link, "aria-current", v === view ? "page" : null);
    scrollTo(0, 0);
  }
  view.made.update(store, { query: q.trim(), rest, params });
}

/** follow opens a link to an item of the same view and keeps the filters. */
function follow(e) {
  const link = e.target.closest('a[href^="#/"]');
  if (!link || e.ctrlKey || e.metaKey || e.shiftKey || e.button) return;
  e.preventDefault();
  nav(link.getAttribute("href"));
}

function render() {
  const s = store.status, v = verdict(), now = v?.frozen ? "frozen" : store.phase;
  setAttr(dot, "data-phase", now);
  setText(phase, { connecting: "connecting", live: "live", frozen: "frozen", lost: "connection lost, trying again", locked: "waits for the token" }[now]);
  if (s) {
    banner.hidden = v.word === "READY";
    setAttr(banner, "data-tone", v.word === "DEGRADED" ? "warn" : "bad");
    setText(banner, v.text);
    const run = s.runs.filter((x) => x.state === "ready" || x.state === "idle").length;
    const wanted = s.runs.filter((x) => x.state !== "disabled").length;
    setText(facts, `${run} of ${plural(wanted, "extension")} · ${plural(store.tools.length, "tool")} · up ${since(s.host?.started_at, store.heard)} · ${s.version}`);
    document.title = `${v.text} · exthost`;
    setBadge("extensions", wanted - run, "bad");
    setBadge("approvals", store.approvals.length, "ask");
  }
  show();
}

function setBadge(name, n, tone) {
  const { badge } = views.find((v) => v.name === name);
  badge.hidden = !n;
  setText(badge, count(n));
  setAttr(badge, "data-tone", tone);
}

function setTheme(name) {
  current = ["light", "dark"].includes(name) ? name : "auto";
  localStorage.setItem("exthost-theme", current);
  setAttr(document.documentElement, "data-theme", current);
  setText(theme, { auto: "◐", light: "☀", dark: "☾" }[current]);
  setAttr(theme, "aria-label", `Colours: ${current}`);
  setAttr(theme, "title", `Colours: ${current}`);
}

/** form returns the fields with which the user enters a token; done is called with one. */
function form(why, done) {
  const input = el("input", { type: "password", "aria-label": "Token", autocomplete: "off" });
  return el("form.lock", { onsubmit: (e) => { e.preventDefault(); setToken(input.value); done(); } },
    el("img", { src: "icon.svg", alt: "", width: "44", height: "44" }), el("h1", {}, "exthost"), el("p", {}, why),
    el("p", {}, "Open the address that exthost serve prints on its terminal, or paste the token, which is in the file that its log names."), input, el("button", { type: "submit" }, "Open"));
}

/** lock replaces the page with a form for the token. */
function lock(why) {
  dropToken();
  put(document.body, form(why, () => location.reload()));
  document.querySelector(".lock input").focus();
}

let unlocking = null;

/** unlock asks for another token above the page, which stays as it is. */
function unlock() {
  unlocking ??= new Promise((resolve) => {
    const done = () => {
      unlocking = null;
      removeEventListener("hashchange", pasted);
      dialog.remove();
      resolve();
    };
    const pasted = () => { if (location.hash.startsWith("#token=")) takeToken(), done(); };
    const dialog = el("dialog.ask", { "aria-label": "Token", oncancel: (e) => e.preventDefault() }, form("The host does not take this token: each start makes a new one.", done));
    addEventListener("hashchange", pasted);
    document.querySelector("dialog.ask")?.remove();
    document.body.append(dialog);
    dialog.showModal();
  });
  return unlocking;
}

const keys = [["/", "search"], ["1 – 9, 0", "views"], ["j k or ↓ ↑", "next and previous row"], ["Enter", "open"], ["Esc", "close, or leave the search"], ["r", "arguments of a tool as fields, or as JSON"], ["t", "colours"], ["?", "this"]];

function help() {
  const dialog = el("dialog.help", { onclose: () => dialog.remove(), onclick: (e) => { if (e.target === dialog) dialog.close(); } },
    el("h2", {}, "Keys"), el("dl", {}, ...keys.flatMap(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)])));
  document.body.append(dialog);
  dialog.showModal();
}

/** step moves the focus by a number of rows of the view. */
function step(by) {
  const rows = [...content.querySelectorAll("tbody a, .trouble a.title, .card")].filter((n) => n.offsetParent);
  if (!rows.length) return;
  const i = rows.indexOf(document.activeElement);
  rows[i < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, i + by))].focus();
}

function key(e) {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName);
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
  if (e.key === "Escape") {
    if (typing) {
      if (document.activeElement === search) search.value = "", setParam("q", "");
      document.activeElement.blur();
    } else if (route().rest) nav(`#/${route().view.name}`);
    return;
  }
  if (typing) {
    if (e.key === "ArrowDown" && document.activeElement === search) step(1), e.preventDefault();
    return;
  }
  const does = { "/": () => search.focus(), j: () => step(1), k: () => step(-1), ArrowDown: () => step(1), ArrowUp: () => step(-1), t: () => theme.click(), "?": help, ...route().view.made.keys }[e.key]
    ?? (/^\d$/.test(e.key) && (() => nav(`#/${views[(Number(e.key) + 9) % 10].name}`)));
  if (!does) return;
  e.preventDefault();
  does();
}

takeToken();
setTheme(localStorage.getItem("exthost-theme"));
if (hasToken()) {
  frame();
  render();
  subscribe(render);
  onRejected(unlock);
  addEventListener("hashchange", () => { if (!unlocking) location.hash.startsWith("#token=") ? (takeToken(), location.reload()) : render(); });
  addEventListener("keydown", key);
  setInterval(() => store.phase === "live" && refresh(), 1000); // ages and countdowns
  setInterval(() => store.phase === "live" && !document.hidden && loadHistory().catch(() => {}), 10_000); // read again later
  run(unlock);
} else {
  lock("This dashboard is for the operator of the host.");
  addEventListener("hashchange", () => { takeToken(); if (hasToken()) location.reload(); });
}
