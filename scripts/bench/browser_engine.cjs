// node browser_engine.cjs PACKAGE MODEL: translates a JSON list of lines from stdin with Bergamot's engine, one by one.
"use strict";
const fs = require("node:fs"), os = require("node:os"), path = require("node:path");
const {Worker} = require("node:worker_threads");

const [, , engine, model] = process.argv;
// The package calls itself an ES module, but its worker is a plain script: Node runs a copy elsewhere as one.
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "engine-"));
fs.cpSync(path.join(engine, "worker"), folder, {recursive: true});
const worker = new Worker(path.join(folder, "translator-worker.js")), waiting = new Map();
let lastId = 0;
const ask = (name, ...args) => new Promise((resolve, reject) => {
  waiting.set(++lastId, {resolve, reject});
  worker.postMessage({id: lastId, name, args});
});
worker.on("message", ({id, result, error}) => {
  const {resolve, reject} = waiting.get(id);
  if (error) reject(new Error(error.message)); else resolve(result);
});
const names = fs.readdirSync(model).sort();
const read = name => {
  const bytes = fs.readFileSync(path.join(model, name));
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
};
const [weights, shortlist] = ["model.", "lex."].map(start => read(names.find(name => name.startsWith(start))));
const vocabs = names.filter(name => name.endsWith(".spm")).map(read), pair = {from: "src", to: "tgt"};

(async () => {
  const start = performance.now();
  await ask("initialize", {});
  await ask("loadTranslationModel", pair, {model: weights, shortlist, vocabs});
  const ready_ms = performance.now() - start, lines = [], ms = [];
  for (const text of JSON.parse(fs.readFileSync(0, "utf8"))) {
    const before = performance.now();
    const [{target}] = await ask("translate", {models: [pair], texts: [{text, html: false}]});
    lines.push(target.text);
    ms.push(performance.now() - before);
  }
  process.stdout.write(JSON.stringify({lines, ms, ready_ms}));
  await worker.terminate();
  fs.rmSync(folder, {recursive: true});
})().catch(error => {
  console.error(error);
  process.exit(1);
});
