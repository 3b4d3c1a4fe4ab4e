// The words of the translation: which are uncertain, and what else could stand there.

const edits = []; // what undoes each choice of a word, the last one last

// Asks how sure the model is of the words of these parts, and marks them.
async function judge(ofParts) {
  const unjudged = ofParts.filter(part => part.src && part.text.trim() && !part.judged);
  const sentences = unjudged.map(part => ({src: part.sentence.src, tgt: part.text}));
  if (!sentences.length) return;
  let judged;
  try {
    const reply = await ask("words", {json: {source: sourceCode(), target: targetCode(), sentences}});
    judged = (await reply.json()).sentences;
  } catch (error) {
    if (error instanceof Refused) return; // the translation is there; only its marks are not
    throw error;
  }
  if (!ofParts.every((part, index) => part === parts[index])) return; // another translation is shown by now
  unjudged.forEach((part, i) => {
    if (judged[i].probabilities.length === part.text.trim().split(/\s+/).length) part.judged = judged[i];
  });
  for (const word of at("translation").querySelectorAll(".word")) markWord(word, partOfWord(word));
  drawHint();
}

const wordsShown = () => [...at("translation").querySelectorAll(".word[role]")];
const partOfWord = word => parts[word.parentElement.dataset.part];

function focusWord(word) {
  for (const other of wordsShown()) other.setAttribute("tabindex", other === word ? 0 : -1);
  word.focus();
}

// Arrow keys in the direction of the text; up and down by what is seen.
function walk(event) {
  const word = event.target.closest(".word[role]"), all = wordsShown(), index = all.indexOf(word);
  if (!word) return;
  const forward = getComputedStyle(at("translation")).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
  const backward = forward === "ArrowLeft" ? "ArrowRight" : "ArrowLeft";
  const next = {
    [forward]: () => all[index + 1], [backward]: () => all[index - 1], Home: () => all[0], End: () => all.at(-1),
    ArrowDown: () => nearest(word, all.slice(index + 1), 1), ArrowUp: () => nearest(word, all.slice(0, index), -1),
    Enter: () => showOthers(word), " ": () => showOthers(word),
  }[event.key];
  if (!next || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  const found = next();
  if (found instanceof Element) focusWord(found);
}

// Returns the word of the next line, down or up, that is the nearest across.
function nearest(word, others, down) {
  const box = word.getBoundingClientRect(), middle = b => (b.left + b.right) / 2;
  const boxes = others.map(other => [other, other.getBoundingClientRect()]).filter(([, b]) => down * (b.top - box.top) > box.height / 2);
  const line = down * Math.min(...boxes.map(([, b]) => down * b.top));
  const across = b => Math.abs(middle(b) - middle(box));
  return boxes.filter(([, b]) => Math.abs(b.top - line) < box.height / 2).sort(([, a], [, b]) => across(a) - across(b))[0]?.[0];
}

// Other words ---------------------------------------------------------------------------------------------------------

let opened = null; // the word whose others are shown

async function showOthers(word) {
  const part = partOfWord(word), box = at("others"), position = Number(word.dataset.position);
  focusWord(word);
  opened = word;
  for (const other of wordsShown()) other.setAttribute("aria-expanded", other === word);
  box.replaceChildren(make("p", {textContent: "Looking for other words\u2026"}));
  box.showPopover();
  place(box, word);
  let found;
  try {
    const json = {source: sourceCode(), target: targetCode(), sentence: part.sentence.src, translation: part.text, position};
    found = await (await ask("alternatives", {json})).json();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (opened === word) box.replaceChildren(make("p", {textContent: error.message, className: "bad"}));
    return;
  }
  if (opened !== word || partOfWord(word) !== part) return;
  const others = found.others.filter(other => other.translation.trim());
  const largest = Math.max(found.probability, ...others.map(other => other.probability));
  const now = {word: found.word, probability: found.probability, translation: part.text};
  box.replaceChildren(
    make("div", {className: "choice-row"}, ...otherCells(now, position, largest)),
    make("p", {textContent: others.length ? "Instead:" : "Nothing else is likely here."}),
    ...others.map(other => {
      const button = make("button", {type: "button", className: "choice-row"}, ...otherCells(other, position, largest));
      button.addEventListener("click", () => choose(part, other.translation, position));
      return button;
    }),
    ...(offer.takes_corrections ? [make("hr"), correctButton(part)] : []),
  );
  place(box, word);
  box.querySelector("button")?.focus();
}

function otherCells({word, probability, translation}, position, largest) {
  const bar = make("i"), rest = translation.trim().split(/\s+/).slice(position).join(" ");
  bar.style.width = `${Math.max(3, 100 * probability / largest)}%`;
  return [
    make("b", {textContent: word || "(the sentence ends)", dir: "auto"}),
    make("span", {className: "track"}, bar),
    make("span", {className: "share", textContent: percent(probability)}),
    make("small", {textContent: rest && `\u2026 ${rest}`, dir: "auto", title: translation}),
  ];
}

function correctButton(part) {
  const button = make("button", {type: "button", textContent: "Correct this sentence"});
  button.addEventListener("click", () => {
    at("others").hidePopover();
    showCorrections(parts.indexOf(part));
  });
  return button;
}

// Below the word, or above it if there is more room; it moves with the page.
function place(box, word) {
  const by = word.getBoundingClientRect(), {width, height} = box.getBoundingClientRect(), gap = 6;
  const isBelow = by.bottom + gap + height <= innerHeight || by.top < height + gap;
  box.style.left = `${scrollX + Math.max(8, Math.min(by.left - 10, document.documentElement.clientWidth - width - 8))}px`;
  box.style.top = `${scrollY + (isBelow ? by.bottom + gap : by.top - gap - height)}px`;
}

function closed() { // the browser brings the focus back to the word
  opened?.setAttribute("aria-expanded", "false");
  opened = null;
}

function walkOthers(event) {
  const buttons = [...at("others").querySelectorAll("button")], index = buttons.indexOf(document.activeElement);
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (event.key === "Tab") at("others").hidePopover(); // the focus goes back to the word
  else if (step && buttons.length) buttons.at((index + step) % buttons.length).focus();
  else return;
  event.preventDefault();
}

function choose(part, text, position) {
  const index = parts.indexOf(part), before = {...part};
  at("others").hidePopover();
  edits.push(() => { parts[index] = before; return [index, position]; });
  parts[index] = {...part, text, judged: null, isEdited: true};
  redraw(index, position);
}

function undo() {
  const [index, position] = edits.pop()();
  redraw(index, position);
}

// After a change of one part: draws it, and brings the focus back to its word.
function redraw(index, position) {
  draw(true);
  drawHint();
  const words = at("translation").querySelectorAll(`[data-part="${index}"] .word[role]`);
  if (words.length) focusWord(words[Math.min(position, words.length) - 1]);
  at("spoken").textContent = parts[index].text;
  judge(parts.slice());
}
