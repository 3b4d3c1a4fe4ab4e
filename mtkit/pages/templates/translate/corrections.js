// Corrections that the user suggests to the service.

const correcting = new Map(); // the field of each sentence: its part

// index: of the part to begin with.
function showCorrections(index) {
  correcting.clear();
  at("pairs").replaceChildren(...parts.flatMap(part => part.src ? correctionRow(part) : []));
  at("corrections").hidden = false;
  const [first] = [...correcting].find(([, part]) => part === parts[index]) ?? [...correcting][0];
  first.focus();
}

function correctionRow(part) {
  const field = make("textarea", {value: part.text, dir: "auto", lang: targetCode(), ariaLabel: `Translation of: ${part.sentence.src}`});
  correcting.set(field, part);
  return [
    make("p", {textContent: part.sentence.src, dir: "auto", lang: sourceCode()}), field,
    make("p", {className: "verdict", role: "status"}),
  ];
}

async function sendCorrections(event) {
  event.preventDefault();
  const changed = [...correcting].filter(([field, part]) => tidy(field.value) !== tidy(part.text));
  if (!changed.length) at("pairs").querySelector(".verdict").textContent = "You have not changed anything.";
  for (const [field, part] of changed) {
    const verdict = field.nextElementSibling;
    try {
      const {accepted, acts, reasons} = await suggest(part.sentence.src, field.value);
      const waits = accepted ? "the operator of this service will review it first" : reasons.join("; ");
      verdict.className = "verdict good";
      verdict.textContent = acts ? "✓ Used from now on. Thank you." : `✓ Saved, but not used yet: ${waits}.`;
      correctPart(field, part);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      verdict.className = "verdict bad";
      verdict.textContent = `✕ Not kept: ${error.message}`;
    }
  }
}

async function suggest(text, translation) {
  const json = {source: sourceCode(), target: targetCode(), text, translation};
  return (await ask("corrections", {json})).json();
}

function correctPart(field, part) {
  const index = parts.indexOf(part), corrected = {...part, text: field.value, judged: null, isEdited: true};
  correcting.set(field, corrected);
  if (index < 0) return; // another translation is shown by now
  parts[index] = corrected;
  draw(true);
  drawHint();
  judge(parts.slice());
}
