// The filters of a view stand in the address, #/view/item?q=words&sort=-calls, so that a link shows what its sender saw.

import { refresh } from "./store.js";

/** address returns the path and the filters of the address. */
export function address() {
  const [path, text = ""] = location.hash.split("?");
  return { path: path || "#/overview", params: new URLSearchParams(text) };
}

/** setParam sets a filter of the view; "" removes it. Back leaves the view, not the filter. */
export function setParam(name, value) {
  const { path, params } = address();
  if (value) params.set(name, value);
  else params.delete(name);
  history.replaceState(null, "", location.pathname + location.search + joined(path, params));
  refresh();
}

/** nav opens an address, such as that of an item. In the same view the filters stay. */
export function nav(hash) {
  const { path, params } = address();
  const viewOf = (p) => p.split("/")[1];
  location.hash = hash.includes("?") || viewOf(hash) !== viewOf(path) ? hash : joined(hash, params);
}

const joined = (path, params) => path + (params.size ? `?${params}` : "");
