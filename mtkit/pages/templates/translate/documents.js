// Documents: sent, watched, fetched.

const POLL_S = 0.6, LONGEST_POLL_S = 3;

function noteDocuments() {
  const kinds = offer.endings.map(ending => ending.slice(1).toUpperCase());
  const usual = ["DOCX", "PPTX", "XLSX", "ODT", "EPUB", "HTML", "MD", "TXT", "SRT", "PO", "XLIFF"].filter(kind => kinds.includes(kind));
  at("documents-note").textContent = `Drop them anywhere on this page: ${usual.join(", ")} and others, up to ${offer.limits.max_file_mb} MB each. The translations keep their layout.`;
  at("documents-note").title = kinds.join(", ");
  at("files").accept = offer.endings.join(",");
}

function sendFiles(files) {
  for (const file of files) sendFile(file);
}

async function sendFile(file) {
  const job = jobRow(file.name), ending = file.name.match(/\.[^.]*$/)?.[0].toLowerCase() ?? "";
  await known; // somebody may be faster than the page's beginning
  if (!offer.endings.includes(ending)) return job.fail(`The service cannot translate files ${ending ? `with the extension ${ending}` : "without an extension"}.`);
  if (file.size > 1e6 * offer.limits.max_file_mb)
    return job.fail(`The file has ${(file.size / 1e6).toFixed(1)} MB; the limit is ${offer.limits.max_file_mb} MB.`);
  const form = new FormData();
  form.append("file", file);
  form.append("source", at("source").value); // the document's own language may be another than the typed text's
  form.append("target", targetCode());
  form.append("terms", termsToSend().map(term => term.join("\t")).join("\n"));
  await watchJob(job, () => ask("documents", {form, signal: job.signal}));
}

// Shows the progress of a document until it is translated. request: asks for its state the first time.
async function watchJob(job, request) {
  try {
    let state = await patiently(job, request);
    job.id = state.id;
    keepJobs();
    for (let wait = POLL_S; !["done", "error"].includes(state.status); wait = Math.min(1.3 * wait, LONGEST_POLL_S)) {
      job.show(state);
      await pause(wait);
      state = await patiently(job, () => ask(`documents/${job.id}`, {signal: job.signal}));
    }
    if (state.status === "error") job.fail(asSentence(state.error));
    else job.finish(state);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof Refused)) throw error;
    if (error.status === 404) forgetJob(job);
    job.fail(error.message);
    if (error.status === 403) askForKey();
  }
}

// Until the tab is closed, the browser keeps which documents the page shows, so that it shows them again when reloaded.
const jobs = new Set(); // in the order of their rows; the service may answer in another
const jobsOfService = () => [...jobs].filter(({id}) => id);
function keepJobs() {
  secrets.set("documents", jobsOfService().map(({id, name}) => ({id, name})));
}
function forgetJob(job) {
  jobs.delete(job);
  keepJobs();
}
function restoreJobs() {
  if (jobsOfService().length) return; // the page has asked the service again
  for (const {id, name} of secrets.get("documents") ?? []) {
    const job = Object.assign(jobRow(name), {id});
    keepJobs();
    watchJob(job, () => ask(`documents/${id}`, {signal: job.signal}));
  }
}

// Returns the JSON of a reply; asks again for as long as the service only says that it is busy.
async function patiently(job, request) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await (await request()).json();
    } catch (error) {
      if (!(error instanceof Refused) || error.retryAfter === null || attempt === 20) throw error;
      job.how.textContent = `${error.message} Next attempt in ${error.retryAfter} s.`;
      await pause(error.retryAfter);
      job.signal.throwIfAborted();
    }
  }
}

function jobRow(name) {
  const leaving = new AbortController();
  const progress = make("progress", {ariaLabel: `Progress of ${name}`}), how = make("span", {className: "how", textContent: "Sending"});
  const acts = make("span", {className: "acts"}), remove = make("button", {type: "button", className: "plain", textContent: "✕", ariaLabel: `Remove ${name}`});
  const row = make("li", {}, make("span", {className: "name", textContent: name, dir: "auto"}), acts, progress, how);
  acts.append(remove);
  at("jobs").prepend(row);
  const job = {
    id: null, name, how, signal: leaving.signal,
    show({status, n_done, n_total}) {
      how.textContent = status === "queued" ? "Waiting for its turn" : n_total ? `${n_done.toLocaleString("en")} of ${counted(n_total, "sentence")}` : "Reading";
      if (n_total) Object.assign(progress, {max: n_total, value: n_done});
    },
    fail(message) {
      progress.remove();
      how.textContent = message;
      how.classList.add("bad");
      at("jobs-status").textContent = `${name}: ${message}`;
    },
    finish(state) {
      progress.remove();
      how.textContent = `Done: ${counted(state.n_total, "sentence")}`;
      const link = make("a", {href: `api/documents/${state.id}/result`, download: state.name, textContent: "Download", ariaLabel: `Download ${state.name}`});
      link.addEventListener("click", event => { event.preventDefault(); download(job, state); });
      acts.prepend(link);
      at("jobs-status").textContent = `${name} is translated.`;
    },
  };
  jobs.add(job);
  remove.addEventListener("click", () => {
    leaving.abort();
    row.remove();
    forgetJob(job);
    at("choose").focus();
    if (job.id) ask(`documents/${job.id}`, {method: "DELETE"}).catch(() => {}); // it is gone anyway after an hour
  });
  return job;
}

// A plain link could not send the key, and would save a failure as a file.
async function download(job, state) {
  try {
    const address = URL.createObjectURL(await (await ask(`documents/${state.id}/result`)).blob());
    make("a", {href: address, download: state.name}).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    job.fail(error.message);
  }
}

const bringsFiles = event => event.dataTransfer?.types.includes("Files");

function dragOver(event) {
  if (!bringsFiles(event)) return;
  event.preventDefault();
  at("drop").classList.add("over");
}

function dropFiles(event) {
  at("drop").classList.remove("over");
  if (!bringsFiles(event)) return;
  event.preventDefault();
  sendFiles(event.dataTransfer.files);
}
