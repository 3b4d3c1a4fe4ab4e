"use strict";
// The page's data has queries, keys, and what positions add to scores, as 16-bit integers; this script computes scores
// and weights from them.
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const MEAN = "mean", ROW = 28;  // pixels: the height of a token's row, 1.75rem
const chosen = {kind: data.first.kind, layer: data.first.layer, head: 0, query: 0, key: 0};
let pointed = null;  // {side: "queries" or "keys", index}: the token under the pointer or with the focus

const kind = () => data.kinds[chosen.kind];
const number = (value, digits = 3) => value.toFixed(digits).replace("-", "\u2212");
const make = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};

// Returns one head's queries or keys, a vector for each token; or what positions add to scores, a row for each query.
const vectors = (layer, name, head, width = data.d_head) => {
  const cache = layer.cache ??= {};
  if (!cache[name]) {
    const bytes = Uint8Array.from(atob(layer[name]), character => character.charCodeAt(0));
    cache[name] = new DataView(bytes.buffer);
  }
  const n = cache[name].byteLength / 2 / data.heads.length / width, unit = layer[`${name}_unit`][head];
  return Array.from({length: n}, (_, token) => Float64Array.from({length: width}, (_, i) =>
    unit * cache[name].getInt16(2 * ((head * n + token) * width + i), true)));
};

// Returns scores[query][key] before the softmax, -Infinity where the query may not look, and the weights after it.
const attention = (its, layer, head) => {
  const cache = layer.heads ??= [];
  if (!cache[head]) {
    const q = vectors(layer, "q", head), k = vectors(layer, "k", head), root = Math.sqrt(data.d_head);
    const added = layer.added && vectors(layer, "added", head, k.length);
    const scores = q.map((a, i) => k.map((b, j) =>
      its.causal && j > i ? -Infinity : a.reduce((sum, value, n) => sum + value * b[n], 0) / root + (added ? added[i][j] : 0)));
    cache[head] = {q, k, added, scores, weights: scores.map(softmax)};
  }
  return cache[head];
};
const powers = scores => { const largest = Math.max(...scores); return scores.map(score => Math.exp(score - largest)); };
const softmax = scores => {
  const of = powers(scores), sum = of.reduce((a, b) => a + b);
  return of.map(power => power / sum);
};
const weightsOf = (its, layer, head) => {
  if (head !== MEAN) return attention(its, layer, head).weights;
  const all = data.heads.map((_, h) => attention(its, layer, h).weights);
  return all[0].map((row, i) => row.map((_, j) => all.reduce((sum, weights) => sum + weights[i][j], 0) / all.length));
};
const strongest = row => row.indexOf(Math.max(...row));
const layer = () => kind().layers[chosen.layer];
const weights = () => weightsOf(kind(), layer(), chosen.head);

// Controls ------------------------------------------------------------------------------------------------------------

function fillControls() {
  at("kinds").append(...data.kinds.map((its, i) => {
    const radio = make("input", {type: "radio", name: "kind", value: i});
    radio.addEventListener("change", () => choose({kind: i}));
    return make("label", {}, radio, ` ${its.name}`);
  }));
  const heads = data.heads.map((head, i) => make("option", {value: i}, String(head)));
  at("head").append(...heads, ...(heads.length > 1 ? [make("option", {value: MEAN}, "mean of all")] : []));
  at("head").addEventListener("change", () => choose({head: at("head").value === MEAN ? MEAN : Number(at("head").value)}));
  for (const name of ["layer", "query", "key"])
    at(name).addEventListener("change", () => choose({[name]: Number(at(name).value)}));
  at("dimension").max = data.d_head;
  at("dimension").addEventListener("input", drawDimension);
}

const fill = (select, names, value) => {
  select.replaceChildren(...names.map((name, i) => make("option", {value: i}, name)));
  select.value = value;
};

function choose(change) {
  const newKind = "kind" in change && change.kind !== chosen.kind;
  Object.assign(chosen, change);
  if (newKind) {
    chosen.layer = Math.min(chosen.layer, kind().layers.length - 1);
    chosen.query = Math.min(chosen.query, kind().queries.length - 1);
    chosen.key = strongest(weights()[chosen.query]);
    pointed = null;
  }
  draw(newKind);
}

function draw(newKind) {
  const {queries, keys, layers} = kind();
  document.querySelector(`input[name=kind][value="${chosen.kind}"]`).checked = true;
  fill(at("layer"), layers.map(its => its.layer), chosen.layer);
  at("head").value = chosen.head;
  fill(at("query"), queries.map((token, i) => `${i + 1}. ${token}`), chosen.query);
  fill(at("key"), keys.map((token, i) => `${i + 1}. ${token}`), chosen.key);
  if (newKind) {
    drawMaps();
    drawTokens();
  }
  for (const map of at("maps").querySelectorAll("button"))
    setChecked(map, Number(map.dataset.layer) === chosen.layer && Number(map.dataset.head) === chosen.head);
  if (chosen.head === MEAN) at("maps").querySelector(`[data-layer="${chosen.layer}"]`).tabIndex = 0;
  markTokens();
  drawLines();
  drawInside();
}

function setChecked(button, checked) {
  button.setAttribute("aria-checked", checked);
  button.tabIndex = checked ? 0 : -1;
}

// Moves the focus among the buttons of a group; moves: by arrow key, {data-name: change}. Returns the next button.
function walk(event, group, moves) {
  const move = moves[event.key], here = event.target.closest("button");
  if (!move || !here) return;
  event.preventDefault();
  const wanted = Object.entries({...here.dataset}).map(([name, value]) =>
    `[data-${name}="${Number(value) + (move[name] ?? 0)}"]`).join("");
  const next = group.querySelector(`button${wanted}`);
  next?.focus();
  return next;
}

// Small maps of every layer and head ----------------------------------------------------------------------------------

function drawMaps() {
  const {layers, name} = kind(), maps = at("maps");
  maps.style.gridTemplateColumns = `auto repeat(${data.heads.length}, auto)`;
  maps.replaceChildren(make("span"), ...data.heads.map(head => make("span", {}, `head ${head}`)));
  layers.forEach((its, l) => maps.append(make("span", {}, `layer ${its.layer}`), ...data.heads.map((head, h) => {
    const canvas = make("canvas"), label = `${name}, layer ${its.layer}, head ${head}`;
    const button = make("button", {type: "button", role: "radio", "data-layer": l, "data-head": h, "aria-label": label, title: label}, canvas);
    paint(canvas, weightsOf(kind(), its, h));
    button.addEventListener("click", () => choose({layer: l, head: h}));
    return button;
  })));
}

function paint(canvas, rows) {
  const style = getComputedStyle(document.documentElement), paper = style.getPropertyValue("--paper");
  canvas.width = rows[0].length;
  canvas.height = rows.length;
  const brush = canvas.getContext("2d");
  rows.forEach((row, i) => row.forEach((weight, j) => {
    brush.globalAlpha = 1;
    brush.fillStyle = kind().causal && j > i ? style.getPropertyValue("--line") : paper;
    brush.fillRect(j, i, 1, 1);
    brush.globalAlpha = weight;
    brush.fillStyle = style.getPropertyValue("--accent");
    brush.fillRect(j, i, 1, 1);
  }));
}

// Two columns of tokens with lines between ----------------------------------------------------------------------------

function drawTokens() {
  for (const [side, what] of [["queries", "query"], ["keys", "key"]])
    at(side).replaceChildren(...kind()[side].map((token, i) => {
      const button = make("button", {type: "button", role: "radio", class: "token tokens", "data-token": i}, make("span", {}, token), make("output"));
      button.addEventListener("click", () => choose({[what]: i}));
      for (const event of ["mouseenter", "focus"]) button.addEventListener(event, () => point({side, index: i}));
      for (const event of ["mouseleave", "blur"]) button.addEventListener(event, () => point(null));
      return make("li", {role: "presentation"}, button);
    }));
  at("lines").style.height = `${ROW * Math.max(kind().queries.length, kind().keys.length)}px`;
}

function point(to) {
  const focused = document.activeElement.closest(".token");
  pointed = to ?? (focused && {side: focused.closest("ol").id, index: Number(focused.dataset.token)});
  markTokens();
  drawLines();
}

function markTokens() {
  const rows = weights(), numbers = {queries: [], keys: []};
  if (pointed?.side === "queries") numbers.keys = rows[pointed.index];
  if (pointed?.side === "keys") numbers.queries = rows.map(row => row[pointed.index]);
  for (const [side, picked] of [["queries", chosen.query], ["keys", chosen.key]])
    at(side).querySelectorAll("button").forEach((button, i) => {
      setChecked(button, i === picked);
      button.classList.toggle("pointed", pointed?.side === side && pointed.index === i);
      const hidden = kind().causal && pointed && (side === "keys" ? i > pointed.index : i < pointed.index);
      const weight = numbers[side][i];
      button.querySelector("output").textContent = weight === undefined || hidden ? "" : number(weight);
    });
  at("note").replaceChildren(...noteOf(rows));
}

function noteOf(rows) {
  const {queries, keys, predicts} = kind(), {side, index: here} = pointed ?? {side: "queries", index: chosen.query};
  const token = make("strong", {class: "tokens"}, kind()[side][here]);
  if (side === "keys") return [token, ` gets ${number(rows.reduce((sum, row) => sum + row[here], 0))} of the ${queries.length} weights of 1.`];
  const best = strongest(rows[here]);
  const most = [` looks most at `, make("strong", {class: "tokens"}, keys[best]), ` (${number(rows[here][best])})`];
  return [token, ...most, ...(predicts ? [`; the token to predict is `, make("strong", {class: "tokens"}, predicts[here])] : []), "."];
}

function drawLines() {
  const width = at("lines").clientWidth, lines = [];
  const y = i => ROW * i + 13;
  weights().forEach((row, i) => row.forEach((weight, j) => {
    const lit = !pointed || (pointed.side === "queries" ? i : j) === pointed.index;
    if (weight < 0.004 || !lit) return;
    lines.push(`<line x1="0" y1="${y(i)}" x2="${width}" y2="${y(j)}" stroke-opacity="${weight.toFixed(3)}" data-query="${i}" data-key="${j}"/>`);
  }));
  at("lines").innerHTML = lines.join("");
  const head = chosen.head === MEAN ? "mean of all heads" : `head ${data.heads[chosen.head]}`;
  at("heading").textContent = `Attention between tokens: ${kind().name}, layer ${layer().layer}, ${head}`;
}

// Query, key and their product, dimension by dimension ----------------------------------------------------------------

function drawInside() {
  const known = chosen.head !== MEAN;
  at("mean").hidden = known;
  at("inside").hidden = !known;
  if (!known) return;
  const {queries, keys, causal} = kind(), {query, key} = chosen;
  const {q, k, added, scores, weights} = attention(kind(), layer(), chosen.head);
  const products = Array.from(q[query], (value, n) => value * k[key][n]);
  const sum = products.reduce((a, b) => a + b), hidden = causal && key > query;
  drawBars("q", q[query], Math.max(...[...q, ...k].flatMap(vector => [...vector].map(Math.abs))));
  drawBars("k", k[key], Math.max(...[...q, ...k].flatMap(vector => [...vector].map(Math.abs))));
  drawBars("p", products, Math.max(...products.map(Math.abs)));
  at("sum").replaceChildren(make("strong", {class: "tokens"}, queries[query]), " looks at ", make("strong", {class: "tokens"}, keys[key]),
    `: query \u00b7 key = ${number(sum)}, divided by \u221a${data.d_head} = ${number(Math.sqrt(data.d_head), 2)} gives ${added ? "" : "the score "}${number(sum / Math.sqrt(data.d_head))}` +
    (added && !hidden ? `; their positions add ${number(added[query][key])}, which makes the score ${number(scores[query][key])}` : "") +
    (hidden ? ", but this key comes later and is hidden: weight 0." : `; the softmax over all keys turns it into the weight ${number(weights[query][key])}.`));
  at("caption").textContent = `All keys of ${queries[query]}; the weights add up to 1`;
  const power = powers(scores[query]);
  at("row").replaceChildren(...keys.map((token, j) => rowOf(token, j, scores[query][j], power[j], weights[query][j])));
  drawDimension();
}

function rowOf(token, j, score, power, weight) {
  const bar = make("span", {class: "bar"}), cells = score === -Infinity ? ["hidden", number(0), number(0)] : [score, power, weight].map(value => number(value));
  bar.style.width = `${100 * weight}%`;
  return make("tr", j === chosen.key ? {class: "chosen"} : {}, make("th", {scope: "row", class: "tokens"}, token),
    ...cells.map(cell => make("td", {class: "number"}, cell)), make("td", {class: "wide"}, ...(weight > 0 ? [bar] : [])));
}

function drawBars(id, values, largest) {
  const scale = 48 / (largest || 1);
  const bars = Array.from(values, (value, n) => {
    const height = Math.abs(value) * scale;
    return `<rect class="${value < 0 ? "down" : "up"}" x="${n + 0.1}" width="0.8" y="${value < 0 ? 50 : 50 - height}" height="${height}"/>`;
  });
  at(id).setAttribute("viewBox", `0 0 ${data.d_head} 100`);
  at(id).innerHTML = `<rect class="here" width="1" height="100"/>${bars.join("")}<line x1="0" x2="${data.d_head}" y1="50" y2="50"/>`;
}

function drawDimension() {
  if (chosen.head === MEAN) return;
  const n = Number(at("dimension").value) - 1, {q, k} = attention(kind(), layer(), chosen.head);
  const a = q[chosen.query][n], b = k[chosen.key][n];
  for (const id of ["q", "k", "p"]) at(id).querySelector(".here").setAttribute("x", n);
  at("one").textContent = `Dimension ${n + 1} of ${data.d_head}: ${number(a)} \u00d7 ${number(b)} = ${number(a * b)}`;
}

// Start ---------------------------------------------------------------------------------------------------------------

at("maps").addEventListener("keydown", event => walk(event, at("maps"),
  {ArrowUp: {layer: -1}, ArrowDown: {layer: 1}, ArrowLeft: {head: -1}, ArrowRight: {head: 1}})?.click());
for (const [side, other, key] of [["queries", "keys", "ArrowRight"], ["keys", "queries", "ArrowLeft"]])
  at(side).addEventListener("keydown", event => {
    walk(event, at(side), {ArrowUp: {token: -1}, ArrowDown: {token: 1}});
    if (event.key === key) walk(event, at(other), {[key]: {token: 0}});
  });
for (const svg of ["q", "k", "p"])
  at(svg).addEventListener("mousemove", event => {
    const box = at(svg).getBoundingClientRect();
    at("dimension").value = 1 + Math.floor((event.clientX - box.left) / box.width * data.d_head);
    drawDimension();
  });
window.addEventListener("resize", drawLines);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(true));
fillControls();
chosen.key = strongest(weights()[0]);
draw(true);
