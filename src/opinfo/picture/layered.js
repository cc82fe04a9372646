"use strict";
// Places for the nodes of a directed acyclic graph in layers, and routes for its edges.
//
// Longest-path layers, barycentre sweeps and least-squares places (Sugiyama's method). An edge over
// several layers has a slot of its own in each of them, shared by all edges from its source, and
// bends only between layers, where there are no boxes: so no edge crosses a box.
const SIZE = { width: 188, height: 40, gap: 18, rows: 34, slot: 10, pad: 22 };

function layered(count, edges, sweeps = 10) {
  const above = Array.from({ length: count }, () => []), below = above.map(() => []);
  for (const [a, b] of edges) { above[b].push(a); below[a].push(b); }
  const layer = layersOf(above, below);
  const near = { up: above.map(() => []), down: above.map(() => []) };
  const slots = new Map(), at = layer.slice(), wide = above.map(() => SIZE.width);
  const link = (a, b) => { near.down[a].push(b); near.up[b].push(a); };
  below.forEach((targets, a) => {
    let chain = [a];
    for (const b of [...targets].sort((p, q) => layer[p] - layer[q])) {
      while (layer[a] + chain.length < layer[b]) {
        const slot = at.length;
        at.push(layer[a] + chain.length); wide.push(SIZE.slot); near.up.push([]); near.down.push([]);
        link(chain[chain.length - 1], slot);
        chain.push(slot);
      }
      link(chain[layer[b] - layer[a] - 1], b);
    }
    slots.set(a, chain);
  });
  const rows = [];
  at.forEach((row, k) => (rows[row] ||= []).push(k));
  const x = at.map(() => 0);
  for (const row of rows) settle(row, x, wide, row.map((_, k) => k * SIZE.width));
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const down = sweep % 2 === 0, side = down ? near.up : near.down;
    for (const row of down ? rows : [...rows].reverse()) {
      const wanted = new Map(row.map(k => [k, aim(k, side[k], x, count)]));
      if (sweep < sweeps - 3) row.sort((a, b) => wanted.get(a) - wanted.get(b));
      settle(row, x, wide, row.map(k => wanted.get(k)));
    }
  }
  const left = Math.min(...x.map((c, k) => c - wide[k] / 2));
  const px = k => x[k] - left + SIZE.pad, top = k => SIZE.pad + at[k] * (SIZE.height + SIZE.rows);
  const route = (a, b) => {
    const chain = slots.get(a).slice(0, layer[b] - layer[a]);
    let from = px(a), y = top(a) + SIZE.height, d = `M${from.toFixed(1)} ${y}`;
    for (const k of [...chain.slice(1), b]) {
      const to = px(k), end = top(k), middle = (y + end) / 2;
      d += `C${from.toFixed(1)} ${middle} ${to.toFixed(1)} ${middle} ${to.toFixed(1)} ${end}`;
      if (k !== b) d += `V${end + SIZE.height}`;
      from = to; y = end + SIZE.height;
    }
    return d;
  };
  const right = Math.max(...x.map((c, k) => px(k) + wide[k] / 2));
  return { x: layer.map((_, k) => px(k)), y: layer.map((_, k) => top(k)), layer, route,
    width: right + SIZE.pad, height: rows.length * (SIZE.height + SIZE.rows) - SIZE.rows + 2 * SIZE.pad };
}

// One below the lowest that is read; what reads nothing lies just above its first reader.
function layersOf(above, below) {
  const layer = above.map(() => 0);
  above.forEach((read, k) => { for (const a of read) layer[k] = Math.max(layer[k], layer[a] + 1); });
  for (let k = layer.length - 1; k >= 0; k--)
    if (!above[k].length && below[k].length)
      layer[k] = below[k].reduce((least, b) => Math.min(least, layer[b]), Infinity) - 1;
  const least = layer.reduce((a, b) => Math.min(a, b), Infinity);
  return layer.map(k => k - least);
}

// Where a node should be: below or above its neighbours, of which boxes count before slots, so that
// what follows one upon another is straight and the long edges run beside it.
function aim(k, near, x, count) {
  const boxes = near.filter(n => n < count), from = boxes.length ? boxes : near;
  return from.length ? mean(from.map(n => x[n])) : x[k];
}

const mean = values => values.reduce((a, b) => a + b, 0) / values.length;

// The places nearest to those wanted, in order and apart (pooled adjacent violators). A slot weighs
// little, so that it makes way for a box.
function settle(row, x, wide, wanted) {
  const offset = [0];
  for (let k = 1; k < row.length; k++)
    offset.push(offset[k - 1] + (wide[row[k - 1]] + wide[row[k]]) / 2 + SIZE.gap);
  const pools = [];
  row.forEach((node, k) => {
    let pool = { value: wanted[k] - offset[k], weight: wide[node] === SIZE.slot ? 0.05 : 1, size: 1 };
    while (pools.length && pools[pools.length - 1].value > pool.value) {
      const last = pools.pop(), weight = last.weight + pool.weight;
      pool = { value: (last.value * last.weight + pool.value * pool.weight) / weight, weight,
        size: last.size + pool.size };
    }
    pools.push(pool);
  });
  let k = 0;
  for (const pool of pools)
    for (let step = 0; step < pool.size; step++, k++) x[row[k]] = pool.value + offset[k];
}
