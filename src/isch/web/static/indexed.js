// A look at any index: its keys, and the nearest of an item, a vector or a picture.

import { count, find, make, say } from "./dom.js";

async function ask(path, options) {
  const response = await fetch(path, options);
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(typeof answer.detail === "string" ? answer.detail : `the server refused (${response.status})`);
  return answer;
}

function show(rows, found) {
  find("#view").replaceChildren(make("ol", { className: "keys" }, ...rows.map((row, i) => make("li", {},
    found ? make("b", {}, `${row.distance} `) : "",
    found ? String(row.key) : make("button", { type: "button", onclick: () => attempt(() => similar(i, row.key)) }, String(row.key)),
    row.metadata ? ` ${JSON.stringify(row.metadata)}` : ""))));
}

const results = (found, what) => {
  show(found.items, true);
  say(`${count(found.items.length, "item")} nearest to ${what}; ${found.searched.toLocaleString("en")} searched in ${found.milliseconds} ms`);
};

const similar = async (number, key) => results(await ask(`/api/items/${number}/similar?k=50`), String(key));

async function byVector(text) {
  const vector = text.split(/[\s,;]+/).filter(Boolean).map(Number);
  if (!vector.length || vector.some(Number.isNaN)) throw new Error("expected numbers with commas or spaces between them");
  results(await ask("/api/search", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ vector, k: 50 }) }), "the vector");
}

async function byPicture(file) {
  const body = new FormData();
  body.append("picture", file);
  body.append("k", 50);
  results(await ask("/api/search/picture", { method: "POST", body }), file.name);
}

const attempt = (work) => work().catch((error) => say(error.message, true));

find("#ask").addEventListener("submit", (event) => { event.preventDefault(); attempt(() => byVector(find("#vector").value)); });
find("#file").addEventListener("change", (event) => attempt(() => byPicture(event.target.files[0])));
attempt(async () => {
  const { items, n_bits, n_features, method, describer } = await ask("/api/health");
  find("#choose").hidden = !describer;
  show((await ask("/api/items?limit=500")).items, false);
  say(`${count(items, "item")} of ${n_bits} bits${method ? `, ${method} of ${n_features} features` : ""}; click a key for its nearest`);
});
