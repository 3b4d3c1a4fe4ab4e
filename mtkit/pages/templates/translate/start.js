// The page's beginning, and which event does what.

const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (settings.get("theme") ?? (dark.matches ? "dark" : "light")) === "dark";

function drawTheme() {
  const theme = settings.get("theme");
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  at("theme-name").textContent = isDark() ? "Light" : "Dark";
  at("theme").title = isDark() ? "Use light colours" : "Use dark colours";
}

async function start() {
  try {
    offer = await (await ask("models")).json();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return complain(new Refused(error.message, error.status, error.retryAfter ?? 10), start);
  }
  at("key-toggle").hidden = !offer.takes_keys;
  if (offer.needs_key && !secrets.get("key")) showKey(true);
  fillLanguages();
  drawTerms();
  noteDocuments();
  noteText();
  sayKnown();
  restoreJobs();
  translateSoon(0); // a browser may have kept the text
}

const on = (id, name, act) => at(id).addEventListener(name, act);
on("text", "input", event => { noteText(); if (!event.isComposing) translateSoon(); }); // half a letter is no text
on("text", "compositionend", () => translateSoon());
on("clear", "click", () => { at("text").value = ""; noteText(); translate(); at("text").focus(); });
on("source", "change", chooseLanguages);
on("target", "change", chooseLanguages);
on("swap", "click", swapLanguages);
on("copy", "click", copyTranslation);
on("undo", "click", undo);
on("correct", "click", () => showCorrections(0));
on("corrections", "submit", sendCorrections);
on("corrections-close", "click", () => { at("corrections").hidden = true; at("correct").focus(); });
on("retry", "click", () => notice.again?.());
on("dismiss", "click", settle);
on("key-toggle", "click", () => showKey(at("key-form").hidden));
on("key-form", "submit", useKey);
on("add-term", "click", addTerm);
on("clear-terms", "click", () => { terms = []; keepTerms(); drawRows(); });
on("choose", "click", () => at("files").click());
on("files", "change", () => { sendFiles([...at("files").files]); at("files").value = ""; });
on("theme", "click", () => {
  const theme = isDark() ? "light" : "dark";
  settings.set("theme", theme === (dark.matches ? "dark" : "light") ? null : theme);
  drawTheme();
});
dark.addEventListener("change", drawTheme);

on("translation", "click", event => {
  const word = event.target.closest(".word[role]");
  if (word && getSelection().isCollapsed) showOthers(word);
});
on("translation", "keydown", walk);
on("translation", "mouseover", event => point(partOf(event.target)));
on("translation", "focusin", event => point(partOf(event.target)));
on("translation", "mouseleave", () => point(null));
on("text", "mousemove", event => point(partUnder(event.clientX, event.clientY)));
on("text", "mouseleave", () => point(null));
document.addEventListener("selectionchange", () => { if (document.activeElement === at("text")) point(partAtCaret()); });
on("others", "toggle", event => { if (event.newState === "closed") closed(); });
on("others", "keydown", walkOthers);

addEventListener("storage", takeTerms);
document.addEventListener("dragover", dragOver);
document.addEventListener("dragleave", event => { if (!event.relatedTarget) at("drop").classList.remove("over"); });
document.addEventListener("drop", dropFiles);

drawTheme();
start();
