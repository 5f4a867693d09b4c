// A grid that holds only the tiles in sight, so a hundred thousand pictures scroll like a hundred.

import { day, make, picture } from "./dom.js";

const MARGIN = 3; // rows kept beyond the edges of the window
const LEAST = 110; // pixels of a tile on a phone, three in a row

export class Grid {
  // source: { total, at(index) → item or undefined, load(first, last) → Promise }, open(item, index), note(item) → nodes
  constructor(source, { open, note }) {
    this.source = source;
    this.open = open;
    this.note = note;
    this.tiles = new Map();
    this.current = 0;
    this.element = make("div", { className: "grid", role: "list", "aria-label": "Pictures" });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.draw = this.draw.bind(this);
    this.resize = () => { this.layout(); this.draw(); };
  }

  attach(parent) {
    parent.append(this.element);
    addEventListener("scroll", this.draw, { passive: true });
    addEventListener("resize", this.resize);
    this.resize();
  }

  detach() {
    removeEventListener("scroll", this.draw);
    removeEventListener("resize", this.resize);
    this.element.remove();
  }

  layout() {
    const style = getComputedStyle(this.element);
    const gap = parseFloat(style.getPropertyValue("--gap"));
    const wanted = parseFloat(style.getPropertyValue("--cell"));
    const width = this.element.clientWidth || innerWidth;
    this.columns = Math.max(3, Math.floor((width + gap) / (wanted + gap)));
    this.side = Math.max(LEAST, (width + gap) / this.columns - gap);
    this.columns = Math.max(1, Math.floor((width + gap) / (this.side + gap) + 0.001));
    this.step = this.side + gap;
    this.element.style.height = `${Math.ceil(this.source.total / this.columns) * this.step}px`;
    for (const tile of this.tiles.values()) tile.remove();
    this.tiles.clear();
  }

  draw() {
    const top = -this.element.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / this.step) - MARGIN) * this.columns;
    const last = Math.min(this.source.total, (Math.ceil((top + innerHeight) / this.step) + MARGIN) * this.columns);
    for (const [index, tile] of this.tiles) {
      if ((index < first || index >= last) && tile !== document.activeElement) { tile.remove(); this.tiles.delete(index); }
    }
    let missing = false;
    for (let index = first; index < last; index += 1) {
      if (this.tiles.has(index)) continue;
      const item = this.source.at(index);
      if (item) this.add(index, item); else missing = true;
    }
    if (missing) this.source.load(first, last).then((loaded) => loaded && this.draw());
  }

  add(index, item) {
    const label = `${item.name}${item.folder ? `, folder ${item.folder}` : ""}, ${day(item.taken)}. More like this`;
    const tile = make("button", {
      className: "tile", type: "button", title: item.folder ? `${item.folder}/${item.name}` : item.name,
      "aria-label": label, "data-id": item.id, "data-index": index, tabindex: index === this.current ? 0 : -1,
      onclick: () => this.open(item, index),
    }, picture(item.id, ""), make("span", { className: this.note ? "note" : "note plain" }, ...(this.note ? this.note(item) : [item.name])));
    const cell = make("div", { role: "listitem", "aria-setsize": this.source.total, "aria-posinset": index + 1 }, tile);
    Object.assign(tile.style, {
      left: `${(index % this.columns) * this.step}px`, top: `${Math.floor(index / this.columns) * this.step}px`,
      width: `${this.side}px`, height: `${this.side}px`,
    });
    this.element.append(cell);
    tile.remove = () => { HTMLElement.prototype.remove.call(tile); cell.remove(); };
    this.tiles.set(index, tile);
  }

  key(event) {
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns,
      Home: -this.source.total, End: this.source.total, PageDown: 4 * this.columns, PageUp: -4 * this.columns };
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.focus(Math.min(this.source.total - 1, Math.max(0, this.current + moves[event.key])));
  }

  async focus(index) {
    this.tiles.get(this.current)?.setAttribute("tabindex", -1);
    this.current = index;
    const top = this.element.getBoundingClientRect().top + scrollY + Math.floor(index / this.columns) * this.step;
    const bar = document.querySelector("header").offsetHeight;
    if (top < scrollY + bar) scrollTo(0, top - bar - 8);
    else if (top + this.side > scrollY + innerHeight) scrollTo(0, top + this.side - innerHeight + 8);
    if (!this.source.at(index)) await this.source.load(index, index + 1);
    this.draw();
    const tile = this.tiles.get(index);
    tile?.setAttribute("tabindex", 0);
    tile?.focus({ preventScroll: true });
  }
}

const PAGE = 200;

// The pages of a listing, fetched when they come into sight.
export class Pages {
  constructor(fetchPage, failed) {
    this.fetchPage = fetchPage;
    this.failed = failed;
    this.total = 0;
    this.items = new Map();
    this.waiting = new Map();
  }

  at(index) { return this.items.get(index); }

  async load(first, last) {
    const wanted = [];
    for (let page = Math.floor(first / PAGE); page * PAGE < Math.max(last, 1); page += 1) {
      if (!this.items.has(page * PAGE)) wanted.push(this.page(page));
    }
    return (await Promise.all(wanted)).some(Boolean);
  }

  page(number) {
    if (!this.waiting.has(number)) {
      const done = this.fetchPage(number * PAGE, PAGE).then((page) => {
        this.total = page.total;
        page.items.forEach((item, i) => this.items.set(number * PAGE + i, item));
        return page.items.length > 0;
      }).catch((error) => { this.failed(error); return false; }).finally(() => this.waiting.delete(number));
      this.waiting.set(number, done);
    }
    return this.waiting.get(number);
  }
}

export const list = (items) => ({ total: items.length, at: (i) => items[i], load: async () => false });
