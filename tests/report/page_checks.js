// Boxes that a path runs through, both ends aside, and boxes that overlap.
function crossings() {
  const found = [];
  for (const svg of document.querySelectorAll("svg")) {
    const rows = new Map();
    for (const g of svg.querySelectorAll(".node")) {
      const [x, y] = g.getAttribute("transform").match(/-?[\d.]+/g).map(Number);
      const box = g.querySelector(".box");
      const b = { k: g.dataset.k, x, y, w: +box.getAttribute("width"), h: +box.getAttribute("height") };
      if (!rows.has(y)) rows.set(y, []);
      for (const o of rows.get(y)) if (x < o.x + o.w && o.x < x + b.w) found.push(["overlap", o.k, b.k]);
      rows.get(y).push(b);
    }
    const tops = [...rows.keys()];
    for (const path of svg.querySelectorAll("path.edge")) {
      let [x, y] = [0, 0];
      const check = (px, py) => {
        for (const top of tops) if (py > top - 1 && py < top + 45)
          for (const b of rows.get(top))
            if (px > b.x && px < b.x + b.w && py > b.y + 0.5 && py < b.y + b.h - 0.5)
              found.push(["edge", path.dataset.a, path.dataset.b, "box", b.k]);
      };
      for (const [, c, rest] of path.getAttribute("d").matchAll(/([MCV])([^MCV]*)/g)) {
        const v = rest.trim().split(/[ ,]+/).map(Number);
        if (c === "M") [x, y] = v;
        else if (c === "V") { for (let s = 0; s <= 8; s++) check(x, y + (v[0] - y) * s / 8); y = v[0]; }
        else {
          for (let s = 0; s <= 16; s++) {
            const t = s / 16, u = 1 - t;
            const at = k => u ** 3 * [x, y][k] + 3 * u * u * t * v[k] + 3 * u * t * t * v[2 + k] + t ** 3 * v[4 + k];
            check(at(0), at(1));
          }
          [x, y] = v.slice(4);
        }
      }
    }
  }
  return found.slice(0, 5);
}

// Words of cells that stand in two lines.
function broken() {
  const found = [];
  for (const cell of document.querySelectorAll("td, th, dd, dt, summary, .hint, .moves span")) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let text; (text = walker.nextNode());)
      for (const word of text.data.matchAll(/\S+/g)) {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) found.push(word[0]);
      }
  }
  return found.slice(0, 5);
}

// What sticks out to the right: the page, and tables.
function wide() {
  const all = [document.documentElement, ...document.querySelectorAll("details > div, aside, .tools, header")];
  return all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.tagName + "." + e.className);
}

// The least contrast of text to what is behind it.
function contrast() {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = colour => {
    context.clearRect(0, 0, 1, 1); context.fillStyle = colour; context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = e => {
    for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; }
  };
  const pairs = [...document.querySelectorAll("h1, h1 span, dt, dd, td, th, summary, button, .hint, .legend li, output")]
    .filter(e => e.textContent.trim()).map(e => [rgb(getComputedStyle(e).color), behind(e), e]);
  for (const g of document.querySelectorAll(".node")) for (const t of g.querySelectorAll("text"))
    pairs.push([rgb(getComputedStyle(t).fill), rgb(getComputedStyle(g.querySelector(".box")).fill), t]);
  let least = [99, ""];
  for (const [a, b, e] of pairs) {
    const [p, q] = [light(a), light(b)].sort((x, y) => y - x), ratio = (p + 0.05) / (q + 0.05);
    if (ratio < least[0]) least = [ratio, e.textContent];
  }
  return least;
}
