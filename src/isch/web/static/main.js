// The page: a route in the address decides what is shown, so that the browser's back button works.

import * as api from "./api.js";
import { compare, whole } from "./code.js";
import { count, day, facts, find, make, picture, say, size } from "./dom.js";
import { DuplicatesView } from "./duplicates.js";
import { Grid, list, Pages } from "./grid.js";

const K = 60;
let shown = null; // what must be detached before something else is shown
let upload = null; // the picture last searched for
let facets = { folders: [], cameras: [], years: [] };

const filter = () => {
  const year = find("#year").value;
  return { folder: find("#folder").value, camera: find("#camera").value, since: year, until: year };
};

function clear() {
  shown?.detach();
  shown = null;
  find("#view").replaceChildren();
}

const go = (hash) => { if (location.hash === hash) route(); else location.hash = hash; };
const similarTo = (item) => go(`#/similar/${item.id}`);

async function route() {
  const [, view = "", ...rest] = location.hash.split("/");
  const argument = decodeURIComponent(rest.join("/"));
  find("#filters").hidden = view === "duplicates";
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.dataset.view === (view === "duplicates" ? "duplicates" : "all");
    if (here) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  find("#word").value = view === "word" ? argument : "";
  clear();
  scrollTo(0, 0);
  try {
    if (view === "similar") await showSimilar(Number(argument));
    else if (view === "upload" && upload) await showUpload();
    else if (view === "duplicates") await showDuplicates();
    else await showAll(view === "word" ? argument : "");
  } catch (error) { say(error.message, true); }
}

async function showAll(word) {
  const wanted = { ...filter(), word };
  const pages = new Pages((offset, limit) => api.items(wanted, offset, limit), (error) => say(error.message, true));
  await pages.load(0, 1);
  say(word ? `${count(pages.total, "picture")} that may show “${word}”, the likeliest first` : count(pages.total, "picture"));
  if (!pages.total) return find("#view").replaceChildren(make("p", { className: "empty" }, await nothing(word)));
  attach(new Grid(pages, { open: similarTo }));
}

async function nothing(word) {
  if (word) return `Nothing here looks like “${word}”. The network knows 1,000 kinds of things and their families: try dog, car, flower, building.`;
  const { items, updating } = await api.health();
  if (!items) return updating ? "The pictures are being looked at; they appear here one by one." : "There are no pictures in this folder yet. Put some in: they appear here by themselves.";
  return "No picture fits these filters.";
}

function attach(view) {
  shown = view;
  return view.attach(find("#view"));
}

async function showSimilar(id) {
  const [item, found, code] = await Promise.all([api.item(id), api.similar(id, filter(), K), api.code(id)]);
  header(picture(id, item.name, true), item.name, [["Folder", item.folder], ["Date", item.taken.replace("T", " ")], ["Camera", item.camera],
    ["Size", `${item.width} × ${item.height}, ${size(item.bytes)}, ${item.format}`]], item.words,
  make("button", { type: "button", onclick: () => whole(item) }, "Look at it larger"));
  results(found, { name: item.name, bits: code.bits });
}

async function showUpload() {
  say("Searching …");
  const found = await api.search(upload, filter(), K);
  const address = URL.createObjectURL(upload);
  const image = make("img", { src: address, alt: "The picture you gave", onload: () => URL.revokeObjectURL(address) });
  header(image, upload.name || "The picture you gave", [["Size", size(upload.size)]], []);
  results(found, { name: upload.name || "your picture", bits: found.bits });
}

function header(image, title, pairs, words, ...buttons) {
  const chips = make("ul", { className: "chips", "aria-label": "What it may show" }, ...words.map(({ name, share }) =>
    make("li", {}, make("a", { href: `#/word/${encodeURIComponent(name)}`, title: `${Math.round(share * 100)} %` }, name))));
  find("#view").append(make("section", { className: "query", "aria-label": "The picture searched for" }, image,
    make("div", {}, make("h1", {}, title), facts(pairs), words.length ? chips : null, make("div", { className: "row" }, ...buttons))));
}

function results(found, query) {
  say(`${count(found.items.length, "similar picture")} of ${found.searched.toLocaleString("en")} searched in ${found.milliseconds.toFixed(1)} ms`);
  const row = find("#view .query .row");
  if (found.items.length) row.append(make("button", { type: "button", id: "how", onclick: () => compare(query, found.items[0]).catch((e) => say(e.message, true)) }, "How it works"));
  const apart = (item) => (found.learned ? count(item.distance, "bit") : `distance ${item.score.toFixed(2)}`);
  const note = (item) => [make("b", {}, apart(item)), make("br"), item.name, make("br"), item.folder || day(item.taken)];
  attach(new Grid(list(found.items), { open: similarTo, note }));
  if (!found.items.length) find("#view").append(make("p", { className: "empty" }, "No other picture fits these filters."));
}

async function showDuplicates() {
  await attach(new DuplicatesView(facets));
}

function searchBy(file) {
  if (!file) return;
  upload = file;
  go("#/upload");
}

function pictureInputs() {
  const chooser = find("#file");
  find("#choose").addEventListener("keydown", (event) => { if (["Enter", " "].includes(event.key)) { event.preventDefault(); chooser.click(); } });
  chooser.addEventListener("change", () => { searchBy(chooser.files[0]); chooser.value = ""; });
  const carries = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragover", (event) => { if (carries(event)) { event.preventDefault(); find("#drop").hidden = false; } });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) find("#drop").hidden = true; });
  addEventListener("drop", (event) => { find("#drop").hidden = true; if (carries(event)) { event.preventDefault(); searchBy(event.dataTransfer.files[0]); } });
  addEventListener("paste", (event) => { const file = [...event.clipboardData.files].find((one) => one.type.startsWith("image/")); if (file) { event.preventDefault(); searchBy(file); } });
}

function wordInput() {
  const input = find("#word");
  const box = find("#suggestions");
  let chosen = -1;
  const close = () => { box.hidden = true; chosen = -1; input.setAttribute("aria-expanded", "false"); input.removeAttribute("aria-activedescendant"); };
  const pick = (word) => { close(); input.blur(); go(word.trim() ? `#/word/${encodeURIComponent(word.trim())}` : "#/"); };
  const draw = (words) => {
    chosen = -1;
    box.replaceChildren(...words.map(({ word, count: n }, i) => make("li", { role: "option", id: `word-${i}`, "aria-selected": "false",
      onmousedown: (event) => { event.preventDefault(); pick(word); } }, word, make("span", {}, String(n)))));
    box.hidden = !words.length;
    input.setAttribute("aria-expanded", String(!box.hidden));
  };
  const suggest = async () => { const text = input.value; try { const words = await api.words(text); if (text === input.value && document.activeElement === input) draw(words); } catch { close(); } };
  const move = (by) => {
    const rows = [...box.children];
    if (!rows.length) return;
    rows[chosen]?.setAttribute("aria-selected", "false");
    chosen = (chosen + by + rows.length) % rows.length;
    rows[chosen].setAttribute("aria-selected", "true");
    input.setAttribute("aria-activedescendant", rows[chosen].id);
  };
  input.addEventListener("input", suggest);
  input.addEventListener("focus", suggest);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") { event.preventDefault(); move(1); }
    if (event.key === "ArrowUp") { event.preventDefault(); move(-1); }
    if (event.key === "Escape") close();
  });
  find("#ask").addEventListener("submit", (event) => { event.preventDefault(); pick(chosen >= 0 ? box.children[chosen].firstChild.textContent : input.value); });
}

function filterInputs() {
  const changed = () => { find("#clear").hidden = !Object.values(filter()).some(Boolean); route(); };
  for (const id of ["folder", "year", "camera"]) find(`#${id}`).addEventListener("change", changed);
  find("#clear").addEventListener("click", () => { for (const id of ["folder", "year", "camera"]) find(`#${id}`).value = ""; changed(); });
}

async function fillFilters() {
  facets = await api.facets();
  for (const [id, values] of [["folder", facets.folders], ["year", [...facets.years].reverse()], ["camera", facets.cameras]]) {
    const select = find(`#${id}`);
    const before = select.value;
    select.replaceChildren(make("option", { value: "" }, "all"), ...values.map(({ value, count: n }) => make("option", { value }, `${value} (${n})`)));
    select.value = before;
    select.parentElement.hidden = !values.length;
  }
}

function shortcuts() {
  addEventListener("keydown", (event) => {
    const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement?.tagName);
    if (event.key === "/" && !typing) { event.preventDefault(); find("#word").focus(); }
    if (event.key === "Escape" && !find("#dialog").open && !typing && location.hash.length > 2) history.back();
  });
}

const FEW = 200; // pictures: so many are drawn as they come, the others when all are there
let seen = null; // pictures there were when the listing was last drawn
async function watch() {
  try {
    const { items, updating, notices } = await api.health();
    find("#notices").textContent = notices.join(". ");
    find("#notices").hidden = !notices.length;
    if (seen === null) seen = items;
    if (items === seen || (updating && seen >= FEW)) return;
    await fillFilters();
    if (["", "#/", "#"].includes(location.hash) && scrollY < 200) await route();
    seen = items;
  } catch { /* the next look may be answered */ }
}

pictureInputs();
wordInput();
filterInputs();
shortcuts();
addEventListener("hashchange", route);
await fillFilters().catch((error) => say(error.message, true));
await route();
await watch();
setInterval(watch, 5000);
