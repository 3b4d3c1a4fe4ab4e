// Reads lines as people type them, and gives translations the edges of their lines, both as `mtkit translate` does.
// A function here decides as the one of mtkit that its comment names; the patterns and tables come from there.
"use strict";

const crcTable = Uint32Array.from({length: 256}, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n;
});
const checksum = word => ~new TextEncoder().encode(word.toLowerCase()).reduce((sum, byte) => (sum >>> 8) ^ crcTable[(sum ^ byte) & 255], -1) >>> 0;
const withoutAccents = text => text.normalize("NFD").replace(/\p{M}/gu, "");
const isSmall = text => /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text); // Python's str.islower
const isTitle = word => /^\P{Cased}*(?:[\p{Uppercase}\p{Lt}]\p{Lowercase}*(?:\P{Cased}+|$))+$/u.test(word); // str.istitle
const lastOf = text => [...text.slice(-2)].at(-1) ?? "";

// Return what words.bin knows of the training text: frequent words, and checksums of others and of first words.
async function recordOf(packed) {
  const buffer = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  const end = new Uint8Array(buffer).indexOf(10), {words, counts, sizes} = JSON.parse(new TextDecoder().decode(buffer.slice(0, end)));
  const sums = new Uint32Array(buffer.slice(end + 1)), parts = {};
  let at = 0;
  for (const [name, size] of Object.entries(sizes)) parts[name] = sums.subarray(at, at += size);
  const {rare, ...openings} = parts;
  return {
    frequent: new Map(words.split(" ").filter(Boolean).map((word, n) => [word, counts[n]])),
    rare: new Set(rare),
    openings: new Map(Object.entries(openings).flatMap(([mark, ofMark]) => [...ofMark].map(sum => [sum, mark]))),
  };
}

// rules: of mtkit.interop.bergamot.reading. record: of `recordOf`; null if the words of the training text are unknown.
function readerOf(rules, record) {
  const patterns = Object.fromEntries(Object.entries(rules.patterns).map(([name, source]) => [name, new RegExp(source, "gu")]));
  const prose = rules.prose.map(source => new RegExp(source, "gu"));
  const foreign = rules.foreign && new RegExp(`^[${rules.foreign}]+$`, "u"), digit = new RegExp(`[${rules.digits}]`, "u");
  const find = (name, text, from = 0) => {
    patterns[name].lastIndex = from;
    return patterns[name].exec(text);
  };
  const without = (name, text) => text.replace(patterns[name], "");
  const matchesAt = (name, text, at) => find(name, text, at)?.index === at;
  const spanOf = match => [match.index, match.index + match[0].length];
  const spans = (pattern, text) => [...text.matchAll(pattern)].map(spanOf);

  // Words: mtkit.tokens.spelling.

  function* changeableWords(text) { // mtkit.text.capitals.changeable_words
    let at = 0;
    for (const [start, end] of [...(find("maybeKept", text) ? spans(patterns.kept, text) : []), [text.length, text.length]]) {
      for (const word of text.slice(at, start).matchAll(patterns.word)) yield [word[0], at + word.index];
      at = end;
    }
  }

  function isInIdentifier(before, after) { // mtkit.text.capitals.is_in_identifier
    const last = lastOf(before), [first = "", second = ""] = after.slice(0, 4);
    if (last === "." || (first === "." && /[\p{L}\p{N}]/u.test(second))) return true;
    return [last, first].some(letter => letter && (digit.test(letter) || "_/\\@$`".includes(letter)));
  }

  const isFragment = (before, after) => /[\p{M}\p{Cf}]$/u.test(before.slice(-2)) || /^[\p{M}\p{Cf}]/u.test(after);

  function endsWithAbbreviation(text) { // mtkit.text.sentences.ends_with_abbreviation
    const end = without("spaceAtEnd", text);
    return ["initials", "abbreviation", "maybeLastStop"].some(name => find(name, end));
  }

  const startsSentence = before => find("sentenceStart", before) && !endsWithAbbreviation(before);

  const frequent = record?.frequent ?? new Map(), known = new Set(), letters = new Set(), accented = new Map(), meant = new Map();
  let longest = 0;
  for (const word of frequent.keys()) {
    const plain = withoutAccents(word);
    known.add(word.toLowerCase());
    for (const letter of word.toLowerCase()) letters.add(letter);
    longest = Math.max(longest, word.length);
    if (plain !== word) accented.set(plain, [...(accented.get(plain) ?? []), word]);
  }

  function* onceMistyped(word) { // the words that one typo may make this one of
    for (let i = 1; i <= word.length; i++) {
      const before = word.slice(0, i), letter = word.slice(i, i + 1), after = word.slice(i + 1);
      for (const key of rules.neighbours[letter] ?? "") yield before + key + after;
      if (letter && letter === before.at(-1)) yield before + after;
      if (after) yield before + after[0] + letter + after.slice(1);
      for (const missing of letters) yield before + missing + letter + after;
    }
  }

  function meantBy(word) { // a word in small letters; null if that is not clear
    if (word.length > longest + 1) return null;
    if (!meant.has(word)) {
      const likely = new Set([...onceMistyped(word)].filter(each => frequent.has(each)));
      for (const each of accented.get(withoutAccents(word)) ?? []) likely.add(each);
      const [best, second] = [...likely].sort((one, other) => frequent.get(other) - frequent.get(one));
      const isClear = best && (!second || frequent.get(best) >= rules.clearly * frequent.get(second));
      meant.set(word, isClear ? best : null);
    }
    return meant.get(word);
  }

  function meantAtStart(word) { // one with a capital: a word that the text often has with it, and without it
    const small = meantBy(word.toLowerCase()), title = small && small[0].toUpperCase() + small.slice(1);
    return frequent.has(title) ? title : null;
  }

  function respelt(text, kept) { // Spelling.read; kept: parts of the text whose words stay
    const words = [];
    let read = "", at = 0, nUnknown = 0;
    for (const [word, start] of changeableWords(text)) {
      const before = text.slice(0, start), after = text.slice(start + word.length), rest = [...word].slice(1).join("");
      if (known.has(word.toLowerCase()) || word.length < rules.shortest || isInIdentifier(before, after)) continue;
      if (record.rare.has(checksum(word)) || isFragment(before, after)) continue;
      if (!isSmall(word) && !(isSmall(rest) && startsSentence(before))) continue;
      if (!find("typed", word) || kept.some(part => part.includes(word)) || (foreign && foreign.test(word))) continue;
      const other = isSmall(word) ? meantBy(word) : meantAtStart(word);
      if (other === null) {
        nUnknown++;
        continue;
      }
      read += text.slice(at, start) + other;
      at = start + word.length;
      words.push([word, other]);
    }
    return words.length > nUnknown ? [read + text.slice(at), words] : [text, []];
  }

  // Final marks: mtkit.tokens.openings.missing_mark.

  function missingMark(text) {
    if (!find("letterAtEnd", text) || text.split(patterns.space).filter(Boolean).length < rules.shortestSentence) return "";
    const [first, second] = [...text.matchAll(patterns.word)].map(match => match[0].toLowerCase());
    for (const opening of second ? [`${first} ${second}`, first] : first ? [first] : []) {
      const mark = record.openings.get(checksum(opening));
      if (mark !== undefined) return mark;
    }
    return "";
  }

  // Sentences: mtkit.text.sentences.sentence_spans, and the lines and cells around them (mtkit.text.lines.text_spans).

  function startsSentenceAt(text, end, start) {
    const last = text.slice(0, end), before = Math.max(0, end - rules.longestAbbreviation), next = text.slice(start);
    const first = [...next.slice(0, 2)][0];
    if (isSmall(first)) return false;
    if (start === end && !rules.finalAnywhere.includes(lastOf(without("closing", last)))) return areGlued(text, end);
    if (find("initials", last, before)) return matchesAt("opener", text, start);
    if (find("abbreviation", last, before)) return false;
    if (find("letter", last, before) && matchesAt("restOfAbbreviation", text, start)) return false;
    if (find("day", last, before) && matchesAt("month", text, start)) return false;
    return !(/\p{Uppercase}/u.test(first) && find("ordinal", last, before));
  }

  function areGlued(text, end) {
    const first = find("beforeGlued", text.slice(0, end), Math.max(0, end - rules.mostGlued));
    const second = find("afterGlued", text.slice(0, end + rules.mostGlued), end);
    return Boolean(first && second?.index === end && isSmall(first.groups.last) && isTitle(second.groups.first));
  }

  function sentenceSpans(text) {
    const code = find("maybeCode", text) ? spans(patterns.template, text) : [], found = [];
    let begin = 0;
    for (const match of text.matchAll(patterns.sentenceEnds)) {
      const start = match.index + match[0].length, end = start - match.groups.g1.length;
      const number = text.slice(begin, Math.min(end, begin + rules.longestNumber));
      if (start === text.length || code.some(([from, to]) => from <= end && end < to)) continue;
      if ((number.endsWith(".") && matchesAt("headingNumber", number, 0)) || !startsSentenceAt(text, end, start)) continue;
      found.push([begin, end]);
      begin = start;
    }
    return [...found, [begin, text.length]];
  }

  function textSpans(text) {
    const found = [];
    let at = 0;
    for (const [from, to] of [...[...text.matchAll(patterns.break)].filter(match => match.groups.break).map(spanOf), [text.length, text.length]]) {
      const line = text.slice(at, from), mark = find("listMark", line)[0].length, start = /\p{L}/u.test(line.slice(mark)) ? at + mark : at;
      if (start < from) found.push([start, from]);
      at = to;
    }
    return found;
  }

  // Put a private character in the place of each part that stays as it is (mtkit.tokens.protected): it ends no sentence.
  function masked(line) {
    const meets = ([from, to], others) => others.some(([start, end]) => start < to && from < end);
    let covered = 0;
    const runs = line.length >= rules.longestWord ? spans(patterns.longRun, line) : [], whole = [];
    const matches = prose.flatMap(pattern => spans(pattern, line)).sort((one, other) => one[0] - other[0] || other[1] - one[1]);
    for (const [from, to] of matches) {
      if (from === to || from < covered) continue;
      whole.push([from, to]);
      covered = to;
    }
    const values = new Map();
    let text = "", at = 0, code = rules.firstMask;
    for (const [start, end] of [...whole.filter(span => !meets(span, runs)), ...runs].sort(([one], [other]) => one - other)) {
      if (matchesAt("breakTag", line.slice(start, end), 0)) continue;
      while (line.includes(String.fromCodePoint(code))) code++;
      values.set(String.fromCodePoint(code), line.slice(start, end));
      text += line.slice(at, start) + String.fromCodePoint(code++);
      at = end;
    }
    return [text + line.slice(at), values];
  }

  // Return the line as the model is to read it, and its words that are read as others. withCase: gives a text the case
  // that tells its sentences.
  function read(line, withCase = text => text) {
    if (!record) return {text: line, words: []};
    const [text, values] = masked(line), all = [], cased = withCase(text), usual = cased.length === text.length ? cased : text;
    const unmasked = part => [...part].map(character => values.get(character) ?? character).join("");
    let result = "", at = 0;
    for (const [from, to] of textSpans(text)) {
      for (const [start, end] of rules.bySentence ? sentenceSpans(usual.slice(from, to)) : [[0, to - from]]) {
        const part = text.slice(from + start, from + end), bare = without("spaceAtStart", without("spaceAtEnd", part));
        const first = from + start + part.indexOf(bare), kept = [...bare].filter(each => values.has(each)).map(each => values.get(each));
        const [piece, words] = respelt(unmasked(bare), kept);
        result += unmasked(text.slice(at, first)) + piece + missingMark(piece);
        at = first + bare.length;
        all.push(...words);
      }
    }
    return {text: result + unmasked(text.slice(at)), words: all};
  }

  // Edges: mtkit.text.lines.keep_edges.

  function finalMarks(text) {
    const bare = without("atEnd", text), words = without(find("greekQuestion", bare) ? "finalOrGreek" : "final", bare);
    return words.length < bare.length ? text.slice(words.length) : "";
  }

  function isMarkAdded(line, text) { // mtkit.text.sentences.is_final_mark_added
    const marks = finalMarks(text);
    if (!marks || without("onlyFinal", marks) || marks.length === text.length || find("unmarked", line)) return false;
    if (find("numberStop", text) && !digit.test(lastOf(without("atEnd", line)))) return false;
    if (find("keptStop", text) || find("ordinal", text)) return false;
    return !finalMarks(line.replace(patterns.tag, " ").replace(patterns.numberedTag, " "));
  }

  function hasSame(edge, mark) {
    return rules.sameEdges.some(same => same.includes(mark) && same.some(other => edge.includes(other)));
  }

  function keepEdges(line, text) {
    if (!text) return text;
    if (isMarkAdded(line, text)) text = without("opened", without("spaceAtEnd", text.slice(0, text.length - finalMarks(text).length)));
    const last = find("last", line), first = find("first", line), strip = each => without("spaceAtStart", without("spaceAtEnd", each));
    if (last && !find("greekQuestion", line) && !hasSame([...text].slice(-4).join(""), strip(last[0]))) {
      const rest = without("stopsAtEnd", text);
      text = rest ? rest + without("spaceAtEnd", line.slice(last.index)) : text;
    }
    if (first && !hasSame([...text].slice(0, 4).join(""), strip(first[0]))) text = without("spaceAtStart", first[0]) + text;
    return text;
  }

  // HTML without blocks: the tags around its words are apart from them, and those between them are not read.

  function partsOf(html) { // the tags and spaces before its words, the words, and the tags and spaces behind them
    const all = html.match(/<(?:"[^"]*"|[^"<>])*>|\s+|[^\s<]+|</g) ?? [], isWord = part => part === "<" || !/^[\s<]/.test(part);
    const first = all.findIndex(isWord), from = first < 0 ? all.length : first, to = Math.max(from, all.findLastIndex(isWord) + 1);
    return [all.slice(0, from), all.slice(from, to), all.slice(to)].map(parts => parts.join(""));
  }

  const tagOrMask = new RegExp(`<(?:"[^"]*"|[^"<>])*>|${String.fromCodePoint(rules.lastMask)}`, "gu"); // text may have it

  function readTagged(html) {
    const [before, inside, after] = partsOf(html), tags = [];
    const mask = String.fromCodePoint(rules.lastMask), hidden = inside.replace(tagOrMask, tag => (tags.push(tag), mask));
    const {text, words} = read(hidden);
    return {text: before + text.replaceAll(mask, () => tags.shift()) + after, words};
  }

  function keepTaggedEdges(html, translation) {
    const [, inside] = partsOf(html), [before, text, after] = partsOf(translation);
    return before + keepEdges(inside.replace(/<(?:"[^"]*"|[^"<>])*>/g, ""), text) + after;
  }

  const sentencesOf = text => sentenceSpans(text).map(([start, end]) => text.slice(start, end));

  return {read, readTagged, keepEdges, keepTaggedEdges, respelt, missingMark, sentencesOf, endsWithAbbreviation};
}
