// Requests to the host's API. The token is stored for this tab only.

const KEY = "exthost-token";
const ROOT = "/api/v1";

/** takeToken stores the token in the address bar and removes it from there. */
export function takeToken() {
  const match = /^#token=([A-Za-z0-9_.~-]+)$/.exec(location.hash);
  if (!match) return;
  sessionStorage.setItem(KEY, match[1]);
  history.replaceState(null, "", location.pathname + location.search);
}

export const hasToken = () => Boolean(sessionStorage.getItem(KEY));
export const setToken = (text) => sessionStorage.setItem(KEY, text.trim());
export const dropToken = () => sessionStorage.removeItem(KEY);

/** Unauthorized means that the host rejects the token. */
export class Unauthorized extends Error {}

let rejected = () => {};
/** onRejected sets what is called when the host rejects the token. */
export const onRejected = (callback) => { rejected = callback; };

async function request(method, path, { body, signal } = {}) {
  const response = await fetch(ROOT + path, {
    method, body, signal, cache: "no-store",
    headers: { Authorization: "Bearer " + sessionStorage.getItem(KEY), ...(body ? { "Content-Type": "application/json" } : {}) },
  });
  if (response.status === 401) {
    rejected();
    throw new Unauthorized("the host does not take this token");
  }
  if (!response.ok) throw await failure(response);
  return response;
}

/** failure returns the error in a response, with its data. */
async function failure(response) {
  const text = await response.text();
  try {
    const { message, data } = JSON.parse(text).error;
    return Object.assign(new Error(message), { data });
  } catch {
    return new Error(text.trim() || `the host answers ${response.status}`);
  }
}

export const get = async (path) => (await request("GET", path)).json();
/** parse reads JSON. Numbers that would lose digits are written again as they were, by browsers that can do so. */
export const parse = (text) => JSON.parse(text, (_, value, context) =>
  typeof value === "number" && JSON.rawJSON && context?.source && context.source !== String(value) ? JSON.rawJSON(context.source) : value);
/** getExact is get by parse. */
export const getExact = async (path) => parse(await (await request("GET", path)).text());
export const post = (path, body) => request("POST", path, { body: body === undefined ? undefined : JSON.stringify(body) });
/** postText sends and returns JSON text: parsing would lose digits of large numbers. */
export const postText = async (path, body) => (await request("POST", path, { body })).text();

/** pieces yields the parts of an answer between separators, as they come. */
async function* pieces(path, separator, signal) {
  const reader = (await request("GET", path, { signal })).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const all = (rest + value).split(separator);
    rest = all.pop();
    yield* all;
  }
  if (rest) yield rest;
}

/** lines calls on(line) for each line of an answer until it ends. */
export async function lines(path, on) {
  for await (const line of pieces(path, "\n")) on(line);
}

/** listen calls on(kind, data) for each server-sent event until the stream ends. */
export async function listen(path, on, signal) {
  for await (const block of pieces(path, "\n\n", signal)) {
    let kind = "", data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("event: ")) kind = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (kind) on(kind, JSON.parse(data));
  }
}
