// How it works: the codes of two pictures bit by bit, differing bits marked; and a picture looked at in full.

import * as api from "./api.js";
import { facts, find, make, picture, size } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";

function pattern(bits, other) {
  const columns = Math.ceil(Math.sqrt(bits.length));
  const rows = Math.ceil(bits.length / columns);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${columns} ${rows}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `A pattern of ${bits.length} bits`);
  [...bits].forEach((bit, i) => {
    const cell = document.createElementNS(SVG, "rect");
    const place = { x: (i % columns) + 0.12, y: Math.floor(i / columns) + 0.12, width: 0.76, height: 0.76 };
    for (const [name, value] of Object.entries(place)) cell.setAttribute(name, value);
    cell.setAttribute("class", `${bit === "1" ? "one" : "zero"}${other && other[i] !== bit ? " differ" : ""}`);
    svg.append(cell);
  });
  return svg;
}

export function show(title, ...content) {
  const dialog = find("#dialog");
  dialog.replaceChildren(
    make("h1", { id: "dialog-title" }, title), ...content,
    make("div", { className: "row" }, make("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Close")),
  );
  if (!dialog.open) dialog.showModal();
  return dialog;
}

export async function compare(first, neighbour) {
  const theirs = await api.code(neighbour.id);
  const differing = [...first.bits].filter((bit, i) => bit !== theirs.bits[i]).length;
  const side = (name, bits, other) => make("figure", {}, make("figcaption", {}, name), pattern(bits, other));
  const learned = theirs.learned
    ? "The map from picture to bits was learned from your own collection, so that pictures alike get codes alike."
    : "This collection is still small, so its codes come from random directions and results are ordered by the vectors themselves. Codes are learned once there are about a thousand pictures.";
  show("How it works",
    make("p", {}, `A network turns each picture into 1,280 numbers, and a linear map turns these into ${theirs.n_bits} bits. `
      + `To search, the computer counts the bits that differ: here ${differing} of ${theirs.n_bits}, outlined. ${learned}`),
    make("div", { className: "bits" }, side(first.name, first.bits, theirs.bits), side(neighbour.name, theirs.bits, first.bits)));
}

export function whole(item) {
  const image = picture(item.id, item.name, true);
  image.className = "whole";
  show(item.name, image, facts([["Folder", item.folder], ["Date", item.taken.replace("T", " ")], ["Camera", item.camera],
    ["Size", `${item.width} × ${item.height}, ${size(item.bytes)}, ${item.format}`]]));
}
