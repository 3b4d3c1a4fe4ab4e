// Where the sentences of a text and of its translation stand, and how they are shown.
// The translation is a list of parts: {text} between sentences, or {text, src, sentence} with the start and the end of
// its source in the text, and what the service said of the sentence.

let parts = [];
const translationText = () => parts.map(part => part.text).join("");

const literally = text => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
// White space may differ, and a quotation's wrapped lines begin with >.
const pattern = text => text.trim().split(/\s+/).map(literally).join("\\s+(?:>+\\s+)*");

// Returns {start, end, sentence} of each place where one of the sentences stands in their text, in order.
function placesOf(sentences, text) {
  if (!sentences.length) return [];
  const longestFirst = [...sentences].sort((a, b) => b.src.length - a.src.length);
  const any = new RegExp(longestFirst.map(sentence => `(${pattern(sentence.src)})`).join("|"), "g");
  return [...text.matchAll(any)].map(match => ({
    start: match.index, end: match.index + match[0].length,
    sentence: longestFirst[match.findIndex((group, i) => i > 0 && group !== undefined) - 1],
  }));
}

// Returns the parts of a whole translation.
function partsOf(translation, sentences, text) {
  const found = [];
  let end = 0;
  for (const place of placesOf(sentences, text)) {
    const own = new RegExp(pattern(place.sentence.tgt || place.sentence.src), "g");
    own.lastIndex = end;
    const match = own.exec(translation);
    if (!match) continue;
    if (match.index > end) found.push({text: translation.slice(end, match.index)});
    end = own.lastIndex;
    found.push({text: match[0], src: [place.start, place.end], sentence: place.sentence});
  }
  return end < translation.length ? [...found, {text: translation.slice(end)}] : found;
}

// Returns the parts of a translation as far as it is done: what stands between its sentences is that of the text.
function partsSoFar(sentences, text) {
  const places = placesOf(sentences, text), last = places.findIndex(place => place.sentence === sentences.at(-1));
  let end = 0;
  return places.slice(0, last + 1).flatMap(place => {
    const gap = text.slice(end, place.start);
    end = place.end;
    return [{text: gap}, {text: place.sentence.tgt || place.sentence.src, src: [place.start, place.end], sentence: place.sentence}];
  });
}

// Showing -------------------------------------------------------------------------------------------------------------

const isLowConfidence = sentence => sentence.confidence !== null && sentence.confidence < 0.5;
const reasonsOf = part => part.isEdited ? [] : [
  ...part.sentence.faults.map(fault => REASONS[fault] ?? fault),
  ...(isLowConfidence(part.sentence) ? [`is likely wrong: ${percent(part.sentence.confidence)} sure`] : []),
];
const percent = share => share < 0.01 ? "< 1 %" : `${Math.round(100 * share)} %`;

// isDone: words can be chosen, and what is wrong is listed.
function draw(isDone) {
  const box = at("translation"), interactive = isDone && isDirect();
  box.replaceChildren(...parts.flatMap((part, index) => part.src ? [sentenceElement(part, index, interactive)] : [part.text]));
  if (interactive) {
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "Translation: arrow keys move between its words, Enter shows what else a word could be");
    box.querySelector(".word")?.setAttribute("tabindex", 0);
  } else {
    box.removeAttribute("role");
    box.removeAttribute("aria-label");
  }
  at("copy").disabled = !translationText();
  at("correct").hidden = !(isDone && offer.takes_corrections && parts.some(part => part.src));
  if (isDone) drawChecks();
}

function sentenceElement(part, index, interactive) {
  const element = make("span", {className: "sentence"});
  element.dataset.part = index;
  let position = 0;
  for (const text of part.text.split(/(\s+)/)) {
    if (!text.trim()) {
      element.append(text);
      continue;
    }
    const word = make("span", {className: "word", textContent: text});
    word.dataset.position = ++position;
    if (interactive) {
      word.setAttribute("role", "button");
      word.setAttribute("aria-haspopup", "dialog");
      word.setAttribute("aria-expanded", "false");
      word.setAttribute("tabindex", -1);
      markWord(word, part);
    }
    element.append(word);
  }
  const reasons = reasonsOf(part);
  if (reasons.length) element.append(make("span", {className: "flag", textContent: "⚠", title: reasons.map(asSentence).join(" ")}));
  if (part.sentence.is_correction) element.append(make("span", {className: "corrected", textContent: "✓", title: "Corrected by a user."}));
  for (const match of part.sentence.matches) {
    const title = match.score === 100 ? `From the translation memory (${match.place}).`
      : `The translation memory has a similar sentence (${match.score} %, ${match.place}): ${match.source} → ${match.target}`;
    element.append(make("span", {className: "corrected", textContent: match.score === 100 ? "✓" : "≈", title}));
  }
  return element;
}

function markWord(word, part) {
  const position = Number(word.dataset.position), isUncertain = part.judged?.uncertain.includes(position) ?? false;
  word.classList.toggle("uncertain", isUncertain);
  word.title = isUncertain ? `The model is not sure of this word: ${percent(part.judged.probabilities[position - 1])}` : "";
}

function drawChecks() {
  const doubtful = parts.filter(part => part.src && reasonsOf(part).length);
  at("checks").replaceChildren(...doubtful.map(part => make("li", {},
    make("span", {textContent: "⚠ ", className: "bad", ariaHidden: "true"}),
    make("span", {textContent: `This sentence ${reasonsOf(part).join(", and ")}: `}),
    make("q", {textContent: part.text || part.sentence.src, dir: "auto"}))));
  at("checks").hidden = !doubtful.length;
}

// Pointing: a sentence is shown on both sides -------------------------------------------------------------------------

let pointed = null; // index of a part

function point(index) {
  if (index === pointed) return;
  pointed = index;
  for (const element of at("translation").querySelectorAll(".sentence"))
    element.classList.toggle("pointed", Number(element.dataset.part) === index);
  for (const mark of at("behind").querySelectorAll("mark"))
    mark.classList.toggle("pointed", Number(mark.dataset.part) === index);
}

// Behind the text stands the same text, unseen, with a mark for each sentence; it also gives the field its height.
function drawBehind() {
  const text = at("text").value, marks = [];
  let end = 0;
  for (const [index, part] of parts.entries()) {
    if (!part.src || part.of !== text) continue;
    const mark = make("mark", {textContent: text.slice(...part.src)});
    mark.dataset.part = index;
    marks.push(text.slice(end, part.src[0]), mark);
    end = part.src[1];
  }
  at("behind").replaceChildren(...marks, `${text.slice(end)}\n`);
  pointed = null;
}

// Return the index of the part whose source is at a point of the window, or at the caret; null if there is none.
function partUnder(x, y) {
  const isThere = box => box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
  const mark = [...at("behind").querySelectorAll("mark")].find(mark => [...mark.getClientRects()].some(isThere));
  return mark ? Number(mark.dataset.part) : null;
}
function partAtCaret() {
  const caret = at("text").selectionStart;
  const index = parts.findIndex(part => part.src && part.src[0] <= caret && caret <= part.src[1]);
  return index < 0 ? null : index;
}
function partOf(element) {
  const sentence = element.closest(".sentence");
  return sentence ? Number(sentence.dataset.part) : null;
}
