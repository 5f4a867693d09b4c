// Elements from plain values. Text is always set as text, never as HTML: a file may be called anything.

export const find = (selector) => document.querySelector(selector);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "className") element.className = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function say(text, bad = false) {
  const status = find("#status");
  status.textContent = text;
  status.classList.toggle("bad", bad);
}

const units = ["bytes", "kB", "MB", "GB", "TB"];

export function size(bytes) {
  let power = 0;
  while (bytes >= 1000 && power < units.length - 1) { bytes /= 1000; power += 1; }
  return `${power && bytes < 100 ? bytes.toPrecision(3) : Math.round(bytes)} ${units[power]}`;
}

export const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

export const day = (taken) => taken.slice(0, 10);

export const thumbnail = (id, large = false) => `/api/items/${id}/thumbnail?size=${large ? 1600 : 256}`;

export function picture(id, alt, large = false) {
  const image = make("img", { src: thumbnail(id, large), alt, loading: "lazy", decoding: "async", draggable: "false" });
  image.addEventListener("error", () => image.classList.add("broken"));
  return image;
}

export function facts(pairs) {
  const list = make("dl", { className: "facts" });
  for (const [name, value] of pairs) if (value) list.append(make("dt", {}, name), make("dd", {}, String(value)));
  return list;
}
