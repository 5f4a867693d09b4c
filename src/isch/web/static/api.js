// Requests to the server; an answer that is no success becomes an Error with the server's sentence.

import { find } from "./dom.js";

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the server does not answer; is it still running?");
  }
  if (response.ok) return response.status === 204 ? null : response.json();
  const problem = await response.json().catch(() => ({}));
  throw new Error(typeof problem.detail === "string" ? problem.detail : `the server refused (${response.status})`);
}

const query = (values) => {
  const pairs = Object.entries(values).flatMap(([k, v]) => (Array.isArray(v) ? v.map((one) => [k, one]) : [[k, v]]));
  return new URLSearchParams(pairs.filter(([, v]) => v !== "" && v !== undefined && v !== null)).toString();
};

const change = (path, body) => ask(path, {
  method: "POST",
  headers: { "Content-Type": "application/json", "X-Page-Token": find("meta[name=page-token]").content },
  body: JSON.stringify(body),
});

export const items = (filter, offset, limit, signal) => ask(`/api/items?${query({ ...filter, offset, limit })}`, { signal });
export const item = (id) => ask(`/api/items/${id}`);
export const similar = (id, filter, k) => ask(`/api/items/${id}/similar?${query({ ...filter, k })}`);
export const code = (id) => ask(`/api/items/${id}/code`);
export const words = (q) => ask(`/api/words?${query({ q })}`);
export const facets = () => ask("/api/facets");
export const health = () => ask("/api/health");
export const duplicates = (wanted) => ask(`/api/duplicates?${query(wanted)}`);
export const exported = (wanted, format) => `/api/duplicates/export?${query({ ...wanted, format })}`;
export const decide = (decision) => change("/api/decisions", decision);
export const trash = (wanted) => change("/api/trash", wanted);
export const undoable = () => ask("/api/trash");
export const undo = () => change("/api/trash/undo", {});

export function search(file, filter, k) {
  const body = new FormData();
  body.append("picture", file);
  body.append("k", k);
  return ask(`/api/search?${query(filter)}`, { method: "POST", body });
}
