// Groups of copies: how near, which to keep, what was decided, which are chosen, the trash and the way back.

import * as api from "./api.js";
import { show } from "./code.js";
import { count, day, find, make, picture, say, size } from "./dom.js";

const RULES = { folder: "preferred folder", original: "the original", pixels: "most pixels", format: "best format", oldest: "oldest", bytes: "largest file" };
const HINTS = { original: "From a camera, not edited since, not enlarged, framed or saved again, taken first", format: "RAW, HEIC of a camera, JPEG; a clearly lower quality comes last", oldest: "The date of the camera, else of the file" };
const WEIGHTS = ["original", "pixels", "format", "oldest", "bytes"];
const CLOSENESS = { identical: "Identical", same: "The same picture", altered: "Altered copies" };
const MEANING = { identical: "The same file, or the same pixels in another file.", same: "Also resized, recompressed, in another format, or turned as the camera was held.", altered: "Also cropped, filtered, framed, mirrored or watermarked, and screenshots. Look closely before you move these." };
const STEP = 50; // groups drawn at a time
const MOST = 200; // groups in one request
const SEEN = 20; // pictures in the question

export class DuplicatesView {
  constructor(facets) {
    this.facets = facets;
    this.wanted = { closeness: localStorage.getItem("closeness") in CLOSENESS ? localStorage.getItem("closeness") : undefined, rule: rules(), folder: saved("folders", []) };
    this.groups = [];
    this.chosen = new Map(); // the groups to clean up, also those not drawn yet
    this.back = make("section", { className: "back", "aria-label": "Undo", hidden: true });
    this.list = make("div", {});
    this.bar = make("div", { className: "bar" });
  }

  async attach(parent) {
    parent.append(this.panel(), this.back, this.list, this.bar);
    await Promise.all([this.load(), api.undoable().then((found) => this.offer(found)).catch(() => {})]);
  }

  detach() { this.gone = true; }

  panel() {
    this.choices = Object.keys(CLOSENESS).map((name) => make("input", { type: "radio", name: "closeness", value: name, onchange: () => this.change({ closeness: name }) }));
    this.order = make("ol", { className: "rules", "aria-label": "Rules for the copy to keep, the weightiest first" });
    this.drawRules();
    const folder = make("select", { id: "preferred", onchange: () => this.prefer(folder.value) }, make("option", { value: "" }, "none"),
      ...this.facets.folders.map(({ value }) => make("option", { value, selected: this.wanted.folder[0] === value }, value)));
    return make("section", { className: "panel", "aria-label": "What counts as a duplicate" },
      make("fieldset", { className: "settings" }, make("legend", {}, "Find"), ...this.choices.map((choice) => make("label", { className: "setting" }, choice,
        make("span", {}, make("b", {}, CLOSENESS[choice.value]), make("small", {}, MEANING[choice.value]))))),
      make("fieldset", {}, make("legend", {}, "Keep"), this.order),
      make("div", { className: "row" }, make("label", {}, "Preferred folder ", folder),
        make("a", { className: "button", id: "csv", download: "duplicates.csv" }, "Save as CSV"),
        make("a", { className: "button", id: "json", download: "duplicates.json" }, "Save as JSON")));
  }

  // The server says how near is meant where the user has not said.
  tell() {
    for (const choice of this.choices) choice.checked = choice.value === this.found.closeness;
  }

  drawRules() {
    this.order.replaceChildren(...this.wanted.rule.map((rule, i) => make("li", { title: HINTS[rule] }, RULES[rule],
      make("button", { type: "button", "aria-label": `${RULES[rule]}: earlier`, disabled: i === 0, onclick: () => this.move(i, -1) }, "↑"),
      make("button", { type: "button", "aria-label": `${RULES[rule]}: later`, disabled: i === this.wanted.rule.length - 1, onclick: () => this.move(i, 1) }, "↓"))));
  }

  move(index, by) {
    const rule = [...this.wanted.rule];
    [rule[index], rule[index + by]] = [rule[index + by], rule[index]];
    this.change({ rule });
    this.drawRules();
  }

  prefer(folder) {
    const others = this.wanted.rule.filter((rule) => rule !== "folder");
    this.change({ folder: folder ? [folder] : [], rule: folder ? ["folder", ...others] : others });
    this.drawRules();
  }

  change(values) {
    if (values.closeness) this.chosen.clear();
    this.wanted = { ...this.wanted, ...values };
    if (this.wanted.closeness !== undefined) localStorage.setItem("closeness", this.wanted.closeness);
    localStorage.setItem("rules", JSON.stringify(this.wanted.rule));
    localStorage.setItem("folders", JSON.stringify(this.wanted.folder));
    this.load();
  }

  async load() {
    say("Looking for duplicates …");
    find("#csv").href = api.exported(this.wanted, "csv");
    find("#json").href = api.exported(this.wanted, "json");
    const asked = this.wanted;
    try {
      const found = await api.duplicates({ ...asked, offset: 0, limit: STEP });
      if (this.gone || asked !== this.wanted) return;
      this.found = found;
      this.groups = found.groups;
      for (const group of this.groups) if (this.chosen.has(key(group))) this.chosen.set(key(group), group);
      if (!found.total) this.chosen.clear();
      this.tell();
      this.draw();
    } catch (error) { say(error.message, true); }
  }

  async more() {
    const found = await api.duplicates({ ...this.wanted, offset: this.groups.length, limit: STEP });
    this.groups.push(...found.groups);
    this.draw();
  }

  // Also the groups that are not drawn yet.
  async all() {
    const every = [...this.groups];
    while (every.length < this.found.total) {
      const { groups } = await api.duplicates({ ...this.wanted, offset: every.length, limit: MOST });
      if (!groups.length) break;
      every.push(...groups);
    }
    return every;
  }

  draw() {
    const { total, pictures, savings } = this.found;
    say(total ? `${count(total, "group")}, ${count(pictures, "picture")}; ${size(savings)} in spare copies` : "No duplicates at this setting.");
    this.list.replaceChildren(...this.groups.map((group) => this.card(group)));
    if (!total) this.list.append(make("p", { className: "empty" }, this.found.closeness === "altered" ? "There are no copies here." : "There are no such copies. The next setting finds copies that differ more."));
    if (this.groups.length < total) this.list.append(make("button", { type: "button", onclick: () => this.more() }, `Show more of ${count(total, "group")}`));
    this.every = make("input", { type: "checkbox", id: "every", onchange: () => this.chooseAll(this.every.checked).catch((error) => say(error.message, true)) });
    this.go = make("button", { type: "button", className: "danger", id: "trash", onclick: () => this.confirm() });
    this.sum = make("span", { "aria-live": "polite" });
    this.bar.replaceChildren(...(total ? [make("label", { className: "check" }, this.every, total === 1 ? "Choose the group" : `Choose all ${count(total, "group")}`), this.go, this.sum] : []));
    if (total) this.count();
  }

  // How much is chosen.
  count() {
    const groups = [...this.chosen.values()];
    const spare = groups.flatMap(spareOf);
    this.every.checked = groups.length === this.found.total;
    this.every.indeterminate = groups.length > 0 && !this.every.checked;
    this.go.disabled = !spare.length;
    this.go.textContent = spare.length ? `Move ${copies(spare.length)} to the trash …` : "Move to the trash …";
    this.sum.textContent = spare.length ? `${size(sum(spare))} in ${count(groups.length, "group")}. Nothing is deleted, and you can undo it.` : "Choose groups whose spare copies go to the system's trash.";
  }

  async chooseAll(all) {
    this.chosen.clear();
    if (all) for (const group of await this.all()) this.chosen.set(key(group), group);
    for (const box of this.list.querySelectorAll("input[type=checkbox]")) this.mark(box, all);
    this.count();
  }

  choose(group, box) {
    if (box.checked) this.chosen.set(key(group), group); else this.chosen.delete(key(group));
    this.mark(box, box.checked);
    this.count();
  }

  mark(box, chosen) {
    box.checked = chosen;
    box.closest(".group")?.classList.toggle("chosen", chosen);
  }

  card(group) {
    const ids = group.items.map((item) => item.id);
    const decide = async (verdict, keep) => {
      try { await api.decide({ verdict, items: ids, keep }); } catch (error) { say(error.message, true); return; }
      if (verdict !== "keep one") this.chosen.delete(key(group));
      await this.load();
    };
    const why = group.reason === "you" ? "you chose the copy to keep" : `kept: ${RULES[group.reason] ?? "first by name"}`;
    const chosen = this.chosen.has(key(group));
    const box = make("input", { type: "checkbox", checked: chosen, onchange: () => this.choose(group, box) });
    return make("article", { className: chosen ? "group chosen" : "group", "data-ids": ids.join(",") },
      make("div", { className: "head" },
        make("label", { className: "check" }, box, make("h2", {}, `${group.items.length} copies: ${CLOSENESS[group.closeness].toLowerCase()}`, make("small", {}, why))),
        make("div", { className: "row" },
          make("button", { type: "button", onclick: () => decide("not duplicates") }, "Not duplicates"),
          make("button", { type: "button", onclick: () => decide("keep both") }, group.items.length > 2 ? "Keep all" : "Keep both"))),
      make("div", { className: "copies" }, ...group.items.map((item, i) => this.copy(group, item, i, decide))));
  }

  copy(group, item, position, decide) {
    const kept = position === group.keep;
    const line = (value) => make("div", { className: group.items.every((other) => value(other) === value(item)) ? "same" : "differs" }, value(item));
    return make("section", { className: kept ? "copy kept" : "copy", "aria-label": item.name }, picture(item.id, item.name),
      make("div", { className: "body" }, make("div", { className: "name" }, item.name),
        line((one) => one.folder || "(top folder)"), line((one) => `${one.width} × ${one.height}`),
        line((one) => size(one.bytes)), line((one) => one.format), line((one) => day(one.taken)),
        make("label", {}, make("input", { type: "radio", name: `keep-${group.items[0].id}`, checked: kept, onchange: () => decide("keep one", item.id) }),
          " ", make("span", { className: "verdict" }, kept ? "keep" : "spare copy"))));
  }

  confirm() {
    const groups = [...this.chosen.values()];
    const spare = groups.flatMap(spareOf);
    const files = count(spare.length, "file");
    const more = spare.length - SEEN;
    const go = make("button", { type: "button", className: "danger", id: "really", onclick: async () => {
      go.disabled = true;
      const tell = (n) => { go.textContent = `${n.toLocaleString("en")} of ${files} …`; };
      try { this.done("Moved to the trash", await discard(groups, this.found.closeness, tell)); } catch (error) {
        show("Not all was moved", make("p", {}, `${error.message}. What was moved can be brought back with Undo.`));
        await api.undoable().then((found) => this.offer(found)).catch(() => {});
      }
      this.chosen.clear();
      await this.load();
    } }, `Move ${files} to the trash`);
    show(`Move ${files} to the trash?`,
      make("p", {}, `${files} of ${count(groups.length, "group")} ${spare.length === 1 ? "goes" : "go"} to the system's trash, ${size(sum(spare))} in all. One copy of each picture stays. You can undo this.`),
      make("ul", { className: "seen" }, ...spare.slice(0, SEEN).map((item) => make("li", { title: item.folder ? `${item.folder}/${item.name}` : item.name }, picture(item.id, ""), make("span", {}, item.name)))),
      ...(more > 0 ? [make("p", {}, `and ${count(more, "more file")}`)] : []),
      make("p", {}, go));
  }

  // What can be undone, below the panel.
  offer({ steps, files, bytes }) {
    this.back.hidden = !steps;
    this.back.replaceChildren(make("span", {}, `The last step moved ${count(files, "file")} (${size(bytes)}) to the trash.`),
      make("button", { type: "button", id: "undo", onclick: (event) => this.undo(event.target) }, "Undo"));
  }

  async undo(button) {
    button.disabled = true;
    button.textContent = "Bringing back …";
    try { this.done("Back where they were", await api.undo()); } catch (error) {
      say(error.message, true);
      button.disabled = false;
      button.textContent = "Undo";
    }
    await this.load();
  }

  done(title, { outcomes, undoable }) {
    const moved = outcomes.filter((one) => one.moved);
    const stayed = outcomes.filter((one) => !one.moved);
    this.offer(undoable);
    show(title, make("p", {}, `${count(moved.length, "file")}, ${size(sum(moved))}.`),
      ...(stayed.length ? [make("p", {}, `${count(stayed.length, "file")} stayed:`), make("ul", { className: "stayed" }, ...stayed.map((one) => make("li", {}, `${one.path}: ${one.reason}`)))] : []));
  }
}

// All requests are one step, which is undone as a whole.
async function discard(groups, closeness, tell) {
  const outcomes = [];
  const step = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  let undoable;
  for (let start = 0; start < groups.length; start += MOST) {
    const some = groups.slice(start, start + MOST);
    const removals = some.map((group) => ({ give_up: spareOf(group).map((item) => item.id), keep: [group.items[group.keep].id] }));
    const done = await api.trash({ removals, confirmed: some.flatMap(spareOf).length, closeness, step });
    outcomes.push(...done.outcomes);
    undoable = done.undoable;
    tell(outcomes.length);
  }
  return { outcomes, undoable };
}

const key = (group) => group.items.map((item) => item.id).join(",");
const spareOf = (group) => group.items.filter((_, i) => i !== group.keep);
const copies = (n) => (n === 1 ? "1 spare copy" : `${n.toLocaleString("en")} spare copies`);
const sum = (items) => items.reduce((total, item) => total + item.bytes, 0);
function saved(name, otherwise) { try { return JSON.parse(localStorage.getItem(name)) ?? otherwise; } catch { return otherwise; } }

// The rules in the user's order; one that is new since then comes first.
function rules() {
  const known = saved("rules", WEIGHTS).filter((rule) => rule in RULES);
  return [...WEIGHTS.filter((rule) => !known.includes(rule)), ...known];
}
