// Groups of copies: how near, which to keep, what was decided, and the trash.

import * as api from "./api.js";
import { show } from "./code.js";
import { count, day, find, make, picture, say, size } from "./dom.js";

const RULES = { folder: "preferred folder", pixels: "most pixels", format: "RAW, HEIC, then JPEG", bytes: "largest file", oldest: "oldest" };
const CLOSENESS = { identical: "identical", same: "the same picture", altered: "altered copies" };
const MEANING = { identical: "The same pixels.", same: "Also resized, recompressed, or in another format.", altered: "Also cropped, filtered, framed, mirrored, or a screenshot." };
const STEP = 50; // groups drawn at a time
const MOST = 200; // groups in one request

export class DuplicatesView {
  constructor(facets) {
    this.facets = facets;
    this.wanted = { closeness: localStorage.getItem("closeness") in CLOSENESS ? localStorage.getItem("closeness") : undefined, rule: saved("rules", ["pixels", "format", "bytes", "oldest"]), folder: saved("folders", []) };
    this.groups = [];
    this.list = make("div", {});
    this.bar = make("div", { className: "bar" });
  }

  async attach(parent) {
    parent.append(this.panel(), this.list, this.bar);
    await this.load();
  }

  detach() { this.gone = true; }

  panel() {
    this.choices = Object.keys(CLOSENESS).map((name) => make("input", { type: "radio", name: "closeness", value: name, onchange: () => this.change({ closeness: name }) }));
    this.meaning = make("p", { className: "hint" });
    this.order = make("ol", { className: "rules", "aria-label": "Rules for the copy to keep, the weightiest first" });
    this.drawRules();
    const folder = make("select", { id: "preferred", onchange: () => this.prefer(folder.value) }, make("option", { value: "" }, "none"),
      ...this.facets.folders.map(({ value }) => make("option", { value, selected: this.wanted.folder[0] === value }, value)));
    return make("section", { className: "panel", "aria-label": "What counts as a duplicate" },
      make("fieldset", {}, make("legend", {}, "Find"), ...this.choices.map((choice) => make("label", {}, choice, " ", CLOSENESS[choice.value])), this.meaning),
      make("fieldset", {}, make("legend", {}, "Keep"), this.order),
      make("div", { className: "row" }, make("label", {}, "Preferred folder ", folder),
        make("a", { className: "button", id: "csv", download: "duplicates.csv" }, "Save as CSV"),
        make("a", { className: "button", id: "json", download: "duplicates.json" }, "Save as JSON")));
  }

  // The server says how near is meant where the user has not said.
  tell() {
    for (const choice of this.choices) choice.checked = choice.value === this.found.closeness;
    this.meaning.textContent = MEANING[this.found.closeness];
  }

  drawRules() {
    this.order.replaceChildren(...this.wanted.rule.map((rule, i) => make("li", {}, RULES[rule],
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
    if (!total) this.list.append(make("p", { className: "empty" }, "There are no such copies. The next setting finds copies that differ more."));
    if (this.groups.length < total) this.list.append(make("button", { type: "button", onclick: () => this.more() }, `Show more of ${count(total, "group")}`));
    this.bar.replaceChildren(...(total ? [make("button", { type: "button", className: "danger", id: "trash", onclick: () => this.confirm().catch((error) => say(error.message, true)) },
      `Move ${copies(pictures - total)} to the trash …`),
    make("span", {}, `${size(savings)} in ${count(total, "group")}. Nothing is deleted: files go to the system's trash.`)] : []));
  }

  card(group) {
    const ids = group.items.map((item) => item.id);
    const decide = async (verdict, keep) => {
      try { await api.decide({ verdict, items: ids, keep }); } catch (error) { say(error.message, true); return; }
      await this.load();
    };
    const why = group.reason === "you" ? "you chose the copy to keep" : `kept: ${RULES[group.reason] ?? "first by name"}`;
    return make("article", { className: "group", "data-ids": ids.join(",") },
      make("div", { className: "head" },
        make("h2", {}, `${group.items.length} copies, ${CLOSENESS[group.closeness]}; ${why}`),
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

  async confirm() {
    const groups = await this.all();
    const spare = groups.flatMap(spareOf);
    const files = count(spare.length, "file");
    const go = make("button", { type: "button", className: "danger", id: "really", onclick: async () => {
      go.disabled = true;
      try {
        const outcomes = await discard(groups, (n) => { go.textContent = `${n.toLocaleString("en")} of ${files} …`; });
        const moved = outcomes.filter((one) => one.moved);
        const stayed = outcomes.filter((one) => !one.moved);
        show("Moved to the trash", make("p", {}, `${count(moved.length, "file")}, ${size(sum(moved))}. The log trash.jsonl beside the index says where each went.`),
          ...(stayed.length ? [make("p", {}, `${count(stayed.length, "file")} stayed:`), make("ul", {}, ...stayed.map((one) => make("li", {}, `${one.path}: ${one.reason}`)))] : []));
      } catch (error) { show("Not all was moved", make("p", {}, `${error.message}. The log trash.jsonl beside the index says what went to the trash.`)); }
      await this.load();
    } }, `Move ${files} to the trash`);
    show(`Move ${files} to the trash?`, make("p", {}, `${files} of ${count(groups.length, "group")} go to the system's trash, ${size(sum(spare))} in all. One copy of each picture stays. You can restore files from the trash.`),
      make("p", {}, go));
  }
}

async function discard(groups, tell) {
  const outcomes = [];
  for (let start = 0; start < groups.length; start += MOST) {
    const some = groups.slice(start, start + MOST);
    const removals = some.map((group) => ({ give_up: spareOf(group).map((item) => item.id), keep: [group.items[group.keep].id] }));
    const done = await api.trash(removals, some.flatMap(spareOf).length);
    outcomes.push(...done.outcomes);
    tell(outcomes.length);
  }
  return outcomes;
}

const spareOf = (group) => group.items.filter((_, i) => i !== group.keep);
const copies = (n) => (n === 1 ? "1 spare copy" : `${n.toLocaleString("en")} spare copies`);
const sum = (items) => items.reduce((total, item) => total + item.bytes, 0);
function saved(name, otherwise) { try { return JSON.parse(localStorage.getItem(name)) ?? otherwise; } catch { return otherwise; } }
