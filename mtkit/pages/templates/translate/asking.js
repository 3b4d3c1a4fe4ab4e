// Requests to the service, and what the page says when one fails.

const at = id => document.getElementById(id);
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};
const counted = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
const asSentence = text => text ? text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".") : "";
const pause = seconds => new Promise(resolve => setTimeout(resolve, 1000 * seconds));

// Kept by the browser, if it keeps anything: settings until they are removed, the key until the tab is closed.
const kept = store => ({
  get(name) {
    try { return JSON.parse(store().getItem(`mtkit-${name}`)); } catch { return null; }
  },
  set(name, value) {
    try { store().setItem(`mtkit-${name}`, JSON.stringify(value)); } catch { /* not kept, then */ }
  },
});
const settings = kept(() => localStorage), secrets = kept(() => sessionStorage);

class Refused extends Error {
  constructor(message, status, retryAfter) {
    super(asSentence(message));
    this.status = status; // 0: no reply
    this.retryAfter = retryAfter; // seconds; null: asking again does not help
  }
}

// Returns the reply. Throws Refused, or an AbortError if the signal ended it.
async function ask(path, {json, form, method, signal} = {}) {
  const headers = {}, key = secrets.get("key");
  if (key) headers.Authorization = `Bearer ${key}`;
  if (json) headers["Content-Type"] = "application/json";
  const body = json ? JSON.stringify(json) : form;
  let reply;
  try {
    reply = await fetch(`api/${path}`, {method: method ?? (body ? "POST" : "GET"), headers, body, signal});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The service does not respond", 0, 5);
  }
  if (reply.ok) return reply;
  const message = await reply.json().then(values => values.error, () => null);
  const wait = Number(reply.headers.get("Retry-After")) || ([429, 503].includes(reply.status) ? 5 : null);
  throw new Refused(message || `The service failed (status ${reply.status})`, reply.status, wait);
}

// Yields [name, data] of the server-sent events of a reply.
async function* eventsOf(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read().catch(error => {
      throw error.name === "AbortError" ? error : new Refused("The connection to the service was lost", 0, 2);
    });
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [, name, data] = block.match(/^event: (.*)\ndata: (.*)$/);
      yield [name, JSON.parse(data)];
    }
  }
}

// What went wrong -----------------------------------------------------------------------------------------------------

const notice = {timer: null, again: null};

// again: what to do once the service may be asked again, at once if the user wishes.
function complain(error, again) {
  settle();
  at("notice").hidden = false;
  at("notice-text").textContent = asSentence(error.message.replace(/[:;] try again in [\d.]+ s\.$/, "")); // the seconds run down beside
  if (error.status === 403) askForKey();
  if (error.retryAfter === null || !again) return;
  notice.again = () => { settle(); again(); };
  at("retry").hidden = false;
  const end = Date.now() + 1000 * error.retryAfter;
  const tick = () => {
    const left = Math.ceil((end - Date.now()) / 1000);
    if (left <= 0) return notice.again();
    at("countdown").textContent = `Next attempt in ${left} s`;
  };
  tick();
  notice.timer = setInterval(tick, 250);
}

function settle() {
  clearInterval(notice.timer);
  notice.again = null;
  at("notice").hidden = at("retry").hidden = true;
  at("notice-text").textContent = at("countdown").textContent = "";
}

function showKey(shown) {
  at("key-form").hidden = !shown;
  at("key-toggle").setAttribute("aria-expanded", shown);
  if (shown) at("key").focus();
}

function askForKey() {
  if (offer?.takes_keys && at("key-form").hidden) showKey(true);
}

function useKey(event) {
  event.preventDefault();
  const key = at("key").value.trim();
  if (/[^\x21-\x7e]/.test(key)) return complain(new Refused("An API key cannot contain spaces or special characters", 400, null));
  secrets.set("key", key);
  showKey(false);
  noteText();
  at("text").focus();
  translateSoon(0);
}
