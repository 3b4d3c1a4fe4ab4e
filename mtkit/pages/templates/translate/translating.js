// From the text to its translation, while it is being typed.

const PAUSE_MS = 150, WORDS_MS = 350, PART_MS = 300; // PART_MS: how often a translation that takes longer is shown in parts
let timer = null, wordsTimer = null, spokenTimer = null;
let running = null; // what aborts the last request
let latest = 0; // number of the last request

const nChars = text => [...text].length; // as the service counts

// A key can have a limit of its own, which only the service knows.
const mostChars = () => secrets.get("key") ? Infinity : offer?.limits.max_chars ?? Infinity;

function noteText() {
  const text = at("text").value, n = nChars(text), most = mostChars(), tooMany = n > most;
  const of = most < Infinity ? ` of ${most.toLocaleString("en")}` : "";
  at("count").textContent = `${n.toLocaleString("en")}${of} characters${tooMany ? `: ${(n - most).toLocaleString("en")} too many` : ""}`;
  at("count").classList.toggle("bad", tooMany);
  at("text").ariaInvalid = tooMany;
  at("clear").hidden = !text;
  drawBehind();
}

function translateSoon(wait = PAUSE_MS + at("text").value.length / 20) { // a long text costs more: wait longer for its end
  clearTimeout(timer);
  clearTimeout(wordsTimer);
  if (notice.again) return; // the service is to be left alone for some seconds; then comes what is there by then
  at("translation").classList.toggle("stale", Boolean(parts.length));
  timer = setTimeout(translate, wait);
}

function stop() {
  clearTimeout(timer);
  running?.abort();
  timer = running = null;
  at("translation").setAttribute("aria-busy", "false");
  return ++latest;
}

async function translate() {
  const number = stop(), text = at("text").value, nTooMany = nChars(text) - mostChars();
  if (!offer) return;
  at("status").classList.toggle("urgent", nTooMany > 0);
  if (nTooMany > 0) {
    settle();
    const limit = mostChars().toLocaleString("en"), shown = parts.length ? " The translation shown is of the text before." : "";
    return at("status").replaceChildren(`The text is too long: ${counted(nTooMany, "character")} more than the limit of ${limit}.${shown}`);
  }
  if (!text.trim()) {
    settle();
    noteDetected(null);
    return show([], text, true);
  }
  running = new AbortController();
  const request = {text, source: at("source").value, target: targetCode(), terms: termsToSend()};
  at("translation").setAttribute("aria-busy", "true");
  try {
    await follow(ask("stream", {json: request, signal: running.signal}), number, request);
    if (number === latest) settle();
  } catch (error) {
    if (number !== latest || error.name === "AbortError") return;
    if (!(error instanceof Refused)) throw error;
    complain(error, () => translateSoon(0));
  } finally {
    if (number === latest) {
      running = null;
      at("translation").setAttribute("aria-busy", "false");
    }
  }
}

async function follow(reply, number, {text, terms}) {
  const sentences = [];
  let next = performance.now() + PART_MS;
  for await (const [name, data] of eventsOf(await reply)) {
    if (number !== latest) return;
    if (name === "start") {
      noteDetected(data.detected, data.path[0]);
      if (!terms.length && termsToSend().length) return translateSoon(0); // now that it is known whether they can be met
    } else if (name === "unsure") return showUnsure(data, text);
    else if (name === "error") throw new Refused(data.error, data.status, data.retry_after);
    else if (name === "done") {
      showTermUses(data.terms);
      show(partsOf(data.text, sentences, text), text, true);
    } else {
      sentences.push(data);
      if (performance.now() < next) continue;
      show(partsSoFar(sentences, text), text, false);
      next = performance.now() + PART_MS;
    }
  }
}

function show(newParts, text, isDone) {
  parts = newParts.map(part => ({...part, of: text}));
  edits.length = 0;
  const box = at("translation");
  box.style.minHeight = isDone ? "" : `${box.offsetHeight}px`; // so that the page does not jump
  box.classList.toggle("stale", timer !== null && text !== at("text").value && Boolean(parts.length));
  draw(isDone);
  drawBehind();
  if (!isDone) return;
  at("status").replaceChildren(...statusOfText());
  drawHint();
  clearTimeout(wordsTimer);
  clearTimeout(spokenTimer);
  spokenTimer = setTimeout(() => { at("spoken").textContent = translationText(); }, 1000);
  if (parts.length && isDirect()) wordsTimer = setTimeout(judge, WORDS_MS, parts);
}

const isSame = () => parts.some(part => part.src) && sourceCode() === targetCode();

function statusOfText() {
  if (isSame()) return [`The text is already in ${nameOf(targetCode())}.`];
  if (!unclear || !parts.length) return [""];
  const choices = choicesOf(unclear).filter(button => button.value !== detected);
  return choices.length ? [`The language is not clear; the text is translated from ${nameOf(detected)}. Or choose: `, ...choices] : [""];
}

// Not a failure: no model translates this language.
function showUnsure(found, text) {
  noteDetected(found);
  show([], text, true);
  at("status").replaceChildren(`This service cannot translate the language of the text into ${nameOf(targetCode())}. If that is wrong, choose it: `, ...choicesOf(found));
}

function choicesOf(found) {
  const known = new Set([...at("source").options].map(one => one.value));
  return found.candidates.filter(({language}) => known.has(language)).slice(0, 3).map(({language}) => {
    const button = make("button", {type: "button", textContent: nameOf(language), value: language});
    button.addEventListener("click", () => {
      at("source").value = language;
      chooseLanguages();
      at("text").focus();
    });
    return button;
  });
}

function drawHint() {
  const n = parts.reduce((sum, part) => sum + (part.judged?.uncertain.length ?? 0), 0);
  at("hint").textContent = n ? counted(n, "uncertain word") : parts.length && isDirect() ? "Choose a word to see alternatives" : "";
  at("undo").hidden = !edits.length;
}

async function copyTranslation() {
  const text = translationText();
  try {
    await navigator.clipboard.writeText(text);
  } catch { // only pages by HTTPS, or of this machine, may use it
    const field = make("textarea", {value: text, className: "unseen"});
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  at("copy").textContent = "Copied";
  setTimeout(() => { at("copy").textContent = "Copy"; }, 1500);
}
