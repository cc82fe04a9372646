const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const nodes = data.nodes, groups = data.groups, sides = data.sides;
const HUES = 8, START = 60; // colours; with more nodes than this repeated blocks start collapsed
const colour = key => data.legend.findIndex(l => l[0] === key);
const paint = key => colour(key) < 0 ? "var(--rest)" : `var(--hue${colour(key) % HUES})`;
const size = b => b < 1024 ? b + " B" : b < 1048576 ? (b / 1024).toFixed(1) + " KiB" : (b / 1048576).toFixed(1) + " MiB";
const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
const tag = (name, props = {}, ...children) => {
  const e = Object.assign(document.createElement(name), props);
  e.append(...children);
  return e;
};
// Text that may break after separators of a path or a name, and nowhere else inside of a word.
const soft = text => {
  const span = document.createElement("span");
  for (const part of text.split(/(?<=[\/._,:])/)) span.append(part, document.createElement("wbr"));
  return span;
};
const svgTag = (name, attributes, parent) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) e.setAttribute(key, attributes[key]);
  parent.append(e);
  return e;
};
const ruler = document.createElement("canvas").getContext("2d");
const fitted = (text, font, width) => {
  ruler.font = font;
  if (ruler.measureText(text).width <= width) return text;
  let n = text.length;
  while (n > 1 && ruler.measureText(text.slice(0, n) + "…").width > width) n--;
  return text.slice(0, n) + "…";
};
const most = Math.max(1, ...nodes.map(n => Math.max(n.before, n.after)));
const heavy = bytes => bytes ? 2 + 4 * Math.sqrt(bytes / most) : 1.2;

// ---- what is visible: a box is a node, or a collapsed block of them
const groupOf = nodes.map(() => -1);
groups.forEach((g, k) => { for (let n = g.start; n < g.stop; n++) groupOf[n] = k; });
const open = new Set(nodes.length > START ? [] : groups.keys());
let items, itemOf, places, drawn, chosen = -1, scale = 1, hits = null;

function collect() {
  items = []; itemOf = [];
  nodes.forEach((n, k) => {
    const g = groupOf[k], joined = g >= 0 && !open.has(g);
    if (joined && k > groups[g].start) { items[items.length - 1].members.push(k); }
    else items.push({ group: joined ? g : -1, members: [k] });
    itemOf[k] = items.length - 1;
  });
}
const between = edges => {
  const seen = new Map();
  for (const [a, b] of edges) {
    const p = itemOf[a], q = itemOf[b];
    if (p !== q) seen.set(p * items.length + q, [p, q, a, b]);
  }
  return [...seen.values()];
};
const total = (item, side) => item.members.reduce((sum, k) => sum + (nodes[k][side] || 0), 0);
const main = item => { // the key of the colour that most of a box has
  const tally = {};
  for (const k of item.members) if (nodes[k].key) tally[nodes[k].key] = (tally[nodes[k].key] || 0) + 1;
  return Object.keys(tally).sort((a, b) => tally[b] - tally[a])[0] || "";
};
const label = item => item.group < 0 ? nodes[item.members[0]].label : "▸ " + groups[item.group].label;
const under = item => item.group < 0 ? nodes[item.members[0]].sub
  : [count(item.members.length, "operator"), groups[item.group].time].filter(Boolean).join(" · ");

// ---- drawing
function draw() {
  collect();
  places = layered(items.length, between(sides.flatMap(s => data.edges[s])));
  drawn = {};
  for (const side of sides) drawSide(side);
  mark();
  zoom(scale);
}
function drawSide(side) {
  const pane = $("pane-" + side), { width: W, height: H } = SIZE;
  const svg = svgTag("svg", { viewBox: `0 0 ${places.width} ${places.height}`, role: "group",
    "aria-label": side }, pane.ownerDocument.createDocumentFragment());
  drawn[side] = { svg, boxes: [], paths: [] };
  for (const [a, b, from, to] of between(data.edges[side])) {
    const bytes = Math.max(...[from, to].map(k => nodes[k].kind === "new" ? nodes[k].after : 0));
    const path = svgTag("path", { d: places.route(a, b), class: bytes ? "edge hot" : "edge",
      "stroke-width": heavy(bytes), "data-a": a, "data-b": b }, svg);
    drawn[side].paths.push(path);
  }
  items.forEach((item, k) => {
    const n = nodes[item.members[0]];
    if (side === "before" && item.members.every(m => nodes[m].kind === "new")) return;
    const shown = side !== "before", bytes = total(item, side === "before" ? "before" : "after");
    const gone = side === "after" && item.group < 0 && n.before && !n.after;
    const kind = ["node", bytes ? "hot" : "", gone ? "gone" : "", n.kind === "end" && item.group < 0 ? "end" : "",
      item.group < 0 ? "" : "block"].filter(Boolean).join(" ");
    const g = svgTag("g", { class: kind, tabindex: -1, "data-k": k, role: "button",
      style: `--own: ${shown ? paint(main(item)) : "var(--rest)"}`, "aria-label": label(item) + ", " + under(item),
      transform: `translate(${places.x[k] - W / 2} ${places.y[k]})` }, svg);
    if (item.group >= 0) svgTag("rect", { class: "under", x: 4, y: 4, width: W, height: H, rx: 7 }, g);
    svgTag("rect", { class: "box", width: W, height: H, rx: 7, "stroke-width": bytes ? 2 : 1 }, g);
    if (shown && main(item)) svgTag("rect", { class: "stripe", x: 0, y: 6, width: 4, height: H - 12, rx: 2 }, g);
    const family = 'system-ui, "DejaVu Sans", sans-serif', second = under(item);
    svgTag("text", { x: 12, y: second ? 17 : 24 }, g).textContent = fitted(label(item), `600 12px ${family}`, W - 24);
    svgTag("text", { x: 12, y: 31 }, g).textContent = fitted(second, `10.5px ${family}`, W - 24);
    svgTag("title", {}, g).textContent = [label(item), second, n.name && item.group < 0 ? n.name : ""].filter(Boolean).join("\n");
    g.addEventListener("click", () => choose(k));
    g.addEventListener("dblclick", () => toggle(k));
    drawn[side].boxes[k] = g;
  });
  pane.replaceChildren(svg);
}

// ---- choosing, opening, moving
const factsOf = item => {
  if (item.group < 0) return nodes[item.members[0]].facts;
  const ops = {};
  for (const k of item.members) ops[nodes[k].label] = (ops[nodes[k].label] || 0) + 1;
  const listed = Object.entries(ops).sort((a, b) => b[1] - a[1]).map(([op, n]) => n > 1 ? `${op} ×${n}` : op);
  return [["operators", listed.join(", ")], ["time", groups[item.group].time],
    ["moves before", total(item, "before") ? size(total(item, "before")) : ""],
    ["moves after", total(item, "after") ? size(total(item, "after")) : ""]].filter(f => f[1]);
};
function choose(k, move) {
  chosen = k;
  const item = items[k], list = tag("dl");
  for (const [key, value] of factsOf(item)) list.append(tag("dt", { textContent: key }), tag("dd", {}, soft(value)));
  const parts = [tag("h2", {}, soft(label(item).replace("▸ ", ""))), list], g = groupOf[item.members[0]];
  if (g >= 0) parts.push(tag("p", { className: "hint" }, item.group < 0 ? "Part of " + groups[g].label + ". " : "",
    tag("button", { id: "toggle", textContent: item.group < 0 ? "Collapse" : "Expand", onclick: () => toggle(k) })));
  $("detail").replaceChildren(...parts);
  mark();
  if (!move) return;
  for (const side of sides) {
    const pane = $("pane-" + side);
    pane.scrollTo({ left: places.x[k] * scale - pane.clientWidth / 2 + Math.max(0, 0),
      top: (places.y[k] + SIZE.height / 2) * scale - pane.clientHeight / 2 });
  }
}
function toggle(k) {
  const first = items[k].members[0], g = groupOf[first];
  if (g < 0) return;
  if (!open.delete(g)) open.add(g);
  draw();
  choose(itemOf[groups[g].start], true);
  focus();
}
function reveal(node) {
  const g = groupOf[node];
  if (g >= 0 && !open.has(g)) { open.add(g); draw(); }
  choose(itemOf[node], true);
}
const focus = () => drawn[sides[sides.length - 1]].boxes[chosen]?.focus({ preventScroll: true });
function step(key) {
  const side = sides[sides.length - 1], links = between(data.edges[side]);
  let next = -1;
  if (key === "ArrowDown") next = (links.find(e => e[0] === chosen) || [0, -1])[1];
  if (key === "ArrowUp") next = (links.find(e => e[1] === chosen) || [-1])[0];
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const way = key === "ArrowLeft" ? -1 : 1;
    const row = items.map((_, k) => k).filter(k => places.y[k] === places.y[chosen] && (places.x[k] - places.x[chosen]) * way > 0);
    next = row.sort((a, b) => (places.x[a] - places.x[b]) * way)[0] ?? -1;
  }
  if (next >= 0) { choose(next, true); focus(); }
}
function mark() {
  for (const side of sides) {
    const { boxes, paths } = drawn[side];
    boxes.forEach((g, k) => {
      g.classList.toggle("chosen", k === chosen);
      g.classList.toggle("dim", hits !== null && !items[k].members.some(m => hits.has(m)));
      g.setAttribute("tabindex", k === Math.max(chosen, 0) ? 0 : -1);
    });
    for (const path of paths) {
      const near = [path.dataset.a, path.dataset.b].map(Number).includes(chosen);
      path.classList.toggle("near", near);
      path.classList.toggle("dim", hits !== null && !near);
    }
  }
}

// ---- search: of nodes, and of rows of tables
const words = nodes.map(n => [n.label, n.sub, n.name, n.node, n.key, ...n.facts.flat()].join(" ").toLowerCase());
let cursor = -1;
function search() {
  const text = $("search").value.trim().toLowerCase();
  hits = text ? new Set(words.flatMap((w, k) => w.includes(text) ? [k] : [])) : null;
  cursor = -1;
  $("hits").textContent = hits === null ? "" : `${hits.size} of ${nodes.length}`;
  for (const row of document.querySelectorAll("#tables tbody tr"))
    row.hidden = hits !== null && !row.textContent.toLowerCase().includes(text);
  mark();
}
function next() {
  if (!hits?.size) return;
  const found = [...hits];
  cursor = (cursor + 1) % found.length;
  reveal(found[cursor]);
  $("hits").textContent = `${cursor + 1} of ${found.length}`;
}

// ---- size and theme
function zoom(s) {
  const old = scale;
  scale = Math.min(3, Math.max(0.08, s));
  for (const side of sides) {
    const pane = $("pane-" + side), svg = drawn[side].svg;
    const middle = (pane.scrollTop + pane.clientHeight / 2) / old;
    svg.setAttribute("width", places.width * scale);
    svg.setAttribute("height", places.height * scale);
    if (old !== scale) pane.scrollTop = middle * scale - pane.clientHeight / 2;
  }
}
const fit = () => zoom(Math.min(1.2, ($("pane-" + sides[0]).clientWidth - 4) / places.width));
function theme() {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
}
function every(shown) {
  const first = chosen < 0 ? 0 : items[chosen].members[0];
  for (const g of groups.keys()) shown ? open.add(g) : open.delete(g);
  draw();
  if (chosen >= 0) choose(itemOf[first], true);
}

// ---- setting up
for (const side of sides) {
  const titles = data.titles[side], note = tag("b", { textContent: titles[1], className: side === "compiled" ? "" : titles[1] === "none" ? "none" : "some" });
  const pane = tag("div", { className: "pane", id: "pane-" + side, tabIndex: -1 });
  $("panes").append(tag("section", {}, tag("h2", {}, titles[0] + " ", note), pane));
  pane.addEventListener("scroll", () => {
    for (const other of sides) {
      const o = $("pane-" + other);
      if (Math.abs(o.scrollTop - pane.scrollTop) > 1) o.scrollTop = pane.scrollTop;
      if (Math.abs(o.scrollLeft - pane.scrollLeft) > 1) o.scrollLeft = pane.scrollLeft;
    }
  });
}
for (const [key, n] of data.legend.slice(0, HUES)) {
  const swatch = tag("i");
  swatch.style.background = paint(key);
  $("legend").append(tag("li", { title: count(n, "operator") }, swatch, key));
}
if (data.legend.length > HUES) $("legend").append(tag("li", { textContent: `and ${data.legend.length - HUES} more` }));
const moved = nodes.map((n, k) => [n, k]).filter(([n]) => n.before || n.after)
  .sort((a, b) => b[0].after - a[0].after || b[0].before - a[0].before);
if (moved.length) {
  const list = tag("ul", { className: "moves" });
  for (const [n, k] of moved) {
    const bytes = n.after || n.before, bar = tag("i");
    bar.style.width = 3 + 97 * bytes / most + "%";
    list.append(tag("li", {}, tag("button", { className: n.after ? "" : "gone", onclick: () => reveal(k) },
      soft(n.label + (n.after ? "" : ": removed")), tag("b", { textContent: size(bytes) }), bar,
      tag("small", {}, soft(n.node || n.name)))));
  }
  $("moves").append(tag("h3", { textContent: `Layout conversions (${moved.length})` }), list);
}
$("detail").append(tag("p", { className: "hint" }, "Choose a box to see what it is and why."),
  tag("p", { className: "hint" }, tag("kbd", { textContent: "/" }), " searches, ", tag("kbd", { textContent: "↑ ↓ ← →" }),
    " follow edges, ", tag("kbd", { textContent: "Enter" }), " opens or closes a block, ", tag("kbd", { textContent: "Esc" }), " clears."));
for (const [id, act] of Object.entries({ less: () => zoom(scale / 1.25), more: () => zoom(scale * 1.25), fit, theme,
  expand: () => every(true), collapse: () => every(false) })) $(id).onclick = act;
if (!groups.length) { $("expand").hidden = true; $("collapse").hidden = true; }
$("search").addEventListener("input", search);
document.addEventListener("keydown", e => {
  const typing = e.target === $("search");
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (typing && e.key === "Enter") next();
  else if (e.key === "Escape") { $("search").value = ""; search(); $("search").blur(); }
  else if (typing) return;
  else if (e.key === "/") $("search").focus();
  else if (e.key.startsWith("Arrow") && e.target.closest?.(".node")) step(e.key);
  else if ((e.key === "Enter" || e.key === " ") && e.target.closest?.(".node")) {
    const k = Number(e.target.closest(".node").dataset.k);
    if (k === chosen) toggle(k); else { choose(k); focus(); }
  }
  else if (e.key === "+") zoom(scale * 1.25);
  else if (e.key === "-") zoom(scale / 1.25);
  else if (e.key === "0") fit();
  else return;
  e.preventDefault();
});
draw();
zoom(Math.max(0.75, Math.min(1.1, ($("pane-" + sides[0]).clientWidth - 4) / places.width)));
for (const side of sides) {
  const pane = $("pane-" + side);
  pane.scrollTo(Math.max(0, places.x[0] * scale - pane.clientWidth / 2), 0);
}
if (location.hash) {
  const k = nodes.findIndex(n => n.name === decodeURIComponent(location.hash.slice(1)));
  if (k >= 0) reveal(k);
}
