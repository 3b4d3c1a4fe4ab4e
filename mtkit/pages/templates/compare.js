"use strict";
// The table of all sentences: sorted by its header buttons, filtered by the form, shown in parts.
const data = JSON.parse(document.getElementById("data").textContent);
const ROWS = 50;
const form = document.getElementById("filter"), field = form.elements;
const head = document.querySelector("#sentences thead tr"), body = document.querySelector("#sentences tbody");
const [CHRF, FAULTS, AFTER, BEFORE] = [0, 1, 2, 3]; // indices into a row's entry for a system; the first has no texts
let shown = [], first = 0, sorted = {by: "difference", down: true};

const node = (tag, text, options = {}) => Object.assign(document.createElement(tag), {textContent: text}, options);
const signed = value => (value > 0 ? "+" : value < 0 ? "\u2212" : "") + Math.abs(value).toFixed(1);
const system = () => Number(field.system.value);
const gain = row => {
  const difference = row.systems[system()][CHRF] - row.systems[0][CHRF];
  return Math.abs(difference) < 0.005 ? 0 : difference;
};

const rows = data.rows.map(([line, src, refs, buckets, systems]) => ({
  line, src, refs, buckets, systems,
  text: [src, ...refs, systems[1][BEFORE].join(""), ...systems.slice(1).map(one => one[AFTER].join(""))]
    .join("\n").toLocaleLowerCase(),
}));

const keys = {
  line: row => row.line,
  before: row => row.systems[0][CHRF],
  after: row => row.systems[system()][CHRF],
  difference: row => gain(row),
};

function parts(pieces, tag) {
  const cell = node("td", "", {className: "text"});
  pieces.forEach((piece, i) => piece && cell.append(i % 2 ? node(tag, piece) : piece));
  return cell;
}

function withFaults(cell, faults) {
  if (faults.length) cell.append(node("div", faults.map(i => data.faults[i]).join(", "), {className: "bad"}));
  return cell;
}

function tableRow(row) {
  const before = row.systems[0], after = row.systems[system()], line = document.createElement("tr");
  const source = node("td", row.src, {className: "text"});
  row.refs.forEach(reference => source.append(node("div", reference, {className: "reference"})));
  line.append(
    node("td", row.line, {className: "number"}),
    source,
    withFaults(parts(after[BEFORE], "del"), before[FAULTS]),
    withFaults(parts(after[AFTER], "ins"), after[FAULTS]),
    node("td", before[CHRF].toFixed(1), {className: "number"}),
    node("td", after[CHRF].toFixed(1), {className: "number"}),
    node("td", signed(gain(row)), {className: "number"}),
  );
  return line;
}

function heads() {
  const names = [data.names[0], data.names[system()]];
  const columns = [
    ["line", "line"], [null, "source, reference"], [null, names[0]], [null, names[1]],
    ["before", `chrF2 ${names[0]}`], ["after", `chrF2 ${names[1]}`], ["difference", "difference"],
  ];
  head.replaceChildren(...columns.map(([key, name]) => {
    const cell = node("th", "", {scope: "col", className: key ? "number" : ""});
    if (!key) { cell.textContent = name; return cell; }
    const here = sorted.by === key, button = node("button", name + (here ? (sorted.down ? " \u2193" : " \u2191") : ""));
    button.type = "button";
    button.dataset.key = key;
    if (here) cell.ariaSort = sorted.down ? "descending" : "ascending";
    button.addEventListener("click", () => {
      sorted = {by: key, down: here ? !sorted.down : key !== "line"};
      update();
      head.querySelector(`[data-key=${key}]`).focus();
    });
    cell.append(button);
    return cell;
  }));
}

function fits(row) {
  const [text, outcome, fault] = [field.text.value.toLocaleLowerCase(), field.outcome.value, field.fault.value];
  if (text && !row.text.includes(text)) return false;
  if (outcome && Math.sign(gain(row)) !== Number(outcome)) return false;
  if (field.bucket.value) {
    const [feature, bucket] = field.bucket.value.split(" ").map(Number);
    if (row.buckets[feature] !== bucket) return false;
  }
  return !fault || [row.systems[0], row.systems[system()]].some(one => one[FAULTS].includes(Number(fault)));
}

function update() {
  const key = keys[sorted.by], sign = sorted.down ? -1 : 1;
  shown = rows.filter(fits).sort((a, b) => sign * (key(a) - key(b)) || a.line - b.line);
  first = 0;
  heads();
  draw();
}

function draw() {
  body.replaceChildren(...shown.slice(first, first + ROWS).map(tableRow));
  const last = Math.min(first + ROWS, shown.length);
  document.getElementById("count").textContent =
    shown.length ? `${first + 1} to ${last} of ${shown.length} sentences` : "no sentence matches";
  document.getElementById("previous").disabled = first === 0;
  document.getElementById("next").disabled = last >= shown.length;
}

function turn(step) {
  first += step;
  draw();
  document.getElementById("all").scrollIntoView();
}

data.names.slice(1).forEach((name, i) => field.system.append(node("option", name, {value: i + 1})));
field.system.closest("label").hidden = data.names.length === 2;
data.features.forEach((feature, i) => {
  const group = node("optgroup", "", {label: feature.name});
  feature.buckets.forEach((bucket, j) => group.append(node("option", bucket, {value: `${i} ${j}`})));
  field.bucket.append(group);
});
const broken = new Set(rows.flatMap(row => row.systems.flatMap(one => one[FAULTS])));
data.faults.forEach((fault, i) => broken.has(i) && field.fault.append(node("option", fault, {value: i})));
field.fault.closest("label").hidden = broken.size === 0;
form.addEventListener("input", event => {
  // the largest difference comes first, for losses, too
  if (event.target === field.outcome && sorted.by === "difference") sorted.down = field.outcome.value !== "-1";
  update();
});
form.addEventListener("submit", event => event.preventDefault());
document.getElementById("previous").addEventListener("click", () => turn(-ROWS));
document.getElementById("next").addEventListener("click", () => turn(ROWS));
update();
