// Which languages: the two menus, and the way between them.

const AUTO = "auto";
let offer = null; // what the service does
let sayKnown = null; // to be called once that is known
const known = new Promise(resolve => { sayKnown = resolve; });
let detected = null; // code of the text's language, if the service was asked
let unclear = null; // what the service detected, if it is not sure

const nameOf = code => offer.languages.find(language => language.code === code)?.name ?? code;
const sourceCode = () => at("source").value === AUTO ? detected : at("source").value; // null: not known
const targetCode = () => at("target").value;
const pairOf = (source, target) => offer.pairs.find(pair => pair.source === source && pair.target === target);
const isDirect = () => pairOf(sourceCode(), targetCode())?.path.length === 2; // one model knows both languages

const option = code => make("option", {value: code, textContent: nameOf(code)});

function fillLanguages() {
  const sources = [...new Set(offer.pairs.map(pair => pair.source))], last = settings.get("languages") ?? [];
  at("source").replaceChildren(make("option", {value: AUTO, textContent: "Detect language"}), ...sources.map(option));
  at("source").value = sources.includes(last[0]) ? last[0] : sources.length > 1 ? AUTO : sources[0];
  fillTargets(last[1]);
}

// Offers only what the source can be translated into.
function fillTargets(wanted = targetCode()) {
  const source = at("source").value;
  const targets = [...new Set(offer.pairs.filter(pair => [AUTO, pair.source].includes(source)).map(pair => pair.target))];
  at("target").replaceChildren(...targets.map(option));
  // A first visitor probably writes in the browser's first language, so it is the last choice for the target.
  const [own, ...others] = navigator.languages.map(language => language.toLowerCase().split("-")[0]);
  const possible = targets.filter(code => code !== source && code !== own);
  at("target").value = targets.includes(wanted) && wanted !== source ? wanted : others.find(code => possible.includes(code)) ?? possible[0] ?? targets[0];
  showLanguages();
}

function showLanguages() {
  const isAuto = at("source").value === AUTO, source = sourceCode(), path = pairOf(source, targetCode())?.path ?? [];
  at("found").textContent = isAuto && detected ? nameOf(detected) : "";
  at("path").textContent = path.length > 2 ? `via ${path.slice(1, -1).map(nameOf).join(" and ")}` : "";
  at("swap").disabled = !source || !pairOf(targetCode(), source);
  at("text").lang = source ?? "";
  at("translation").lang = targetCode();
}

function chooseLanguages() {
  if (at("source").value !== AUTO) detected = null;
  fillTargets();
  settings.set("languages", [at("source").value, targetCode()]);
  drawTerms();
  translateSoon(0);
}

// The translation becomes the text, if it is the whole one; swapped back unchanged, the text is again what was typed.
let swapped = null; // {text, typed}: what the last swap put there, and what had been typed
function swapLanguages() {
  const source = sourceCode(), target = targetCode(), typed = at("text").value;
  const isWhole = timer === null && !running && parts.length && parts[0].of === typed;
  const text = typed === swapped?.text ? swapped.typed : isWhole ? translationText() : typed;
  swapped = {text, typed};
  detected = null;
  at("source").value = target;
  fillTargets(source);
  settings.set("languages", [target, source]);
  at("text").value = text;
  drawTerms();
  noteText();
  translateSoon(0);
}

// code: the language that the service translates from.
function noteDetected(found, code = null) {
  const isText = Boolean(found?.candidates.length); // a number has no language
  detected = isText ? code : null;
  unclear = isText && !found.language ? found : null;
  showLanguages();
  noteTerms();
}
