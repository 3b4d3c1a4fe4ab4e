// The terminology: which words must be translated into which, kept by the browser for each pair of languages.

let terms = []; // [source, target] of each row, as it was typed
const termsName = () => `terms-${at("source").value}-${targetCode()}`;
const tidy = text => text.trim().split(/\s+/).join(" ");

// Returns the complete terms, each source once.
function completeTerms() {
  const found = new Map();
  for (const [source, target] of terms.map(term => term.map(tidy)))
    if (source && target && !found.has(source.toLowerCase())) found.set(source.toLowerCase(), [source, target]);
  return [...found.values()];
}
const termsToSend = () => isDirect() ? completeTerms().slice(0, offer.limits.max_terms) : [];

function drawTerms() {
  terms = settings.get(termsName()) ?? [];
  drawRows();
}

// Another tab has changed the terms. Without its changes, the next change here would overwrite them.
function takeTerms(event) {
  if (event.key !== null && event.key !== `mtkit-${termsName()}`) return;
  const fields = () => [...at("term-rows").querySelectorAll("input")], index = fields().indexOf(document.activeElement);
  drawTerms();
  fields()[index]?.focus();
  translateSoon(400);
}

function drawRows() {
  const rows = terms.length ? terms : [["", ""]];
  at("term-rows").replaceChildren(...rows.map((_, index) => termRow(index)));
  noteTerms();
}

function noteTerms() {
  const n = completeTerms().length;
  at("n-terms").textContent = n ? `${n}` : "";
  at("term-source").textContent = at("source").value === AUTO ? "Source" : nameOf(at("source").value);
  at("term-target").textContent = nameOf(targetCode());
  at("terms-note").textContent = sourceCode() === null || isDirect()
    ? "Words with a required translation. You can paste a list of two columns into a field; this browser remembers the terms."
    : "Terms apply only if one model translates directly between the two languages.";
  at("clear-terms").hidden = !n;
}

function termRow(index) {
  const fields = ["source", "target"].map((side, column) => {
    const field = make("input", {value: terms[index]?.[column] ?? "", ariaLabel: `Term ${index + 1}, ${side}`, dir: "auto", autocomplete: "off"});
    field.addEventListener("input", () => {
      terms[index] ??= ["", ""];
      terms[index][column] = field.value;
      keepTerms();
    });
    field.addEventListener("paste", event => pasteTerms(event, index, column));
    return field;
  });
  const remove = make("button", {type: "button", className: "plain act", textContent: "✕", ariaLabel: `Remove term ${index + 1}`});
  remove.addEventListener("click", () => {
    terms.splice(index, 1);
    keepTerms();
    drawRows();
    (at("term-rows").children[Math.min(index, terms.length - 1)] ?? at("term-rows").children[0]).querySelector("input").focus();
  });
  return make("tr", {}, ...fields.map(field => make("td", {}, field)), make("td", {className: "how"}), make("td", {className: "act"}, remove));
}

function addTerm() {
  terms.push(["", ""]);
  drawRows();
  at("term-rows").lastElementChild.querySelector("input").focus();
}

// A table's cells come with tabs; a single word is pasted as usual.
function pasteTerms(event, index, column) {
  const lines = event.clipboardData.getData("text/plain").split(/\r?\n/).filter(line => line.trim());
  if (column || !lines.some(line => line.includes("\t"))) return;
  event.preventDefault();
  terms.splice(index, terms[index]?.some(Boolean) ? 0 : 1, ...lines.map(line => [...line.split("\t"), ""].slice(0, 2)));
  keepTerms();
  drawRows();
}

function keepTerms() {
  settings.set(termsName(), terms.filter(term => term.some(cell => cell.trim())));
  noteTerms();
  translateSoon(400);
}

// uses: of the terms that the text has.
function showTermUses(uses) {
  for (const [index, row] of [...at("term-rows").children].entries()) {
    const cell = row.querySelector(".how"), source = tidy(terms[index]?.[0] ?? "");
    const use = uses.find(one => one.source.toLowerCase() === source.toLowerCase());
    cell.textContent = !use ? "" : use.met >= use.required ? "✓ met" : use.met ? `${use.met} of ${use.required} met` : "✕ not met";
    cell.className = !use ? "how" : use.met >= use.required ? "how good" : "how bad";
  }
}
