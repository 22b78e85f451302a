"use strict";
// The rules of words.py: what is changed here is changed there.
const CJK = "\\u3040-\\u30ff\\u31f0-\\u31ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uac00-\\ud7af\\uf900-\\ufaff";
const MARKS = /(?![\u3099\u309a])\p{M}/gu;
const PIECE = new RegExp("([" + CJK + "]+)|(?:(?![" + CJK + "])[\\p{L}\\p{N}_])+", "gu");
const PARTS = /[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+[0-9]*|[A-Z]+[0-9]*|[0-9]+/g;
const LONGEST = 64;

function folded(word) {
  const low = word.toLowerCase().replaceAll("\u00df", "ss").replaceAll("\u03c2", "\u03c3");
  if (!/^[a-z]{4,}$/.test(low) || !low.endsWith("s")) return low;
  if (low.endsWith("ies") && !"ae".includes(low.at(-4))) return low.slice(0, -3) + "y";
  if (low.endsWith("es") && !"aeo".includes(low.at(-3))) return low.slice(0, -1);
  return "us".includes(low.at(-2)) || low.endsWith("es") ? low : low.slice(0, -1);
}

/** Each word of a text: {run, terms}; of a CJK run its bigrams, else the word and the parts of its name. */
function groups(text) {
  const plain = text.normalize("NFKD").replace(MARKS, "").normalize("NFC");
  const found = [];
  for (const match of plain.matchAll(PIECE)) {
    if (match[1]) {
      const signs = Array.from(match[1]);
      const pairs = signs.slice(1).map((sign, at) => signs[at] + sign);
      found.push({ run: true, terms: pairs.length ? pairs : signs });
      continue;
    }
    const word = match[0].replace(/^_+|_+$/g, "");
    if (!word || Array.from(word).length > LONGEST) continue;
    const parts = /^[\x00-\x7f]*$/.test(word) ? word.match(PARTS) || [] : word.split("_").filter(Boolean);
    found.push({ run: false, terms: [folded(word), ...(parts.length > 1 ? parts.map(folded) : [])] });
  }
  return found;
}
