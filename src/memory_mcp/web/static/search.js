// Search as you type: one request for each pause, the one before is cancelled, and the address is that of what is shown.
import { part } from "./part.js";

const form = document.getElementById("search");
const field = document.getElementById("find");
const results = document.getElementById("results");
const told = document.getElementById("told");
const PAUSE = 150;
let timer = 0, running = null, shown = address();

function address() {
  const given = [...new FormData(form)].filter(([, value]) => String(value).trim());
  const query = new URLSearchParams(given).toString();
  return query ? `${form.action}?${query}` : form.action;
}

async function search() {
  clearTimeout(timer);
  const wanted = address();
  running?.abort();
  if (wanted === shown) return;
  const own = running = new AbortController();
  try {
    await part(results, wanted, { name: "results", signal: own.signal });
    if (own.signal.aborted) return;
    shown = wanted;
    history.replaceState(null, "", wanted);
    told.textContent = results.querySelector("[data-told]")?.dataset.told ?? "";
  } catch (error) {
    if (own.signal.aborted) return;
    told.textContent = "The program did not answer: memory-mcp open shows the memory again.";
  } finally {
    if (running === own) running = null;
    else if (running) results.setAttribute("aria-busy", "true");
  }
}

form.addEventListener("input", (event) => {
  // A time that is half written is none: filters count once they are left.
  if (event.target !== field) return;
  clearTimeout(timer);
  timer = setTimeout(search, PAUSE);
});
form.addEventListener("change", (event) => { if (event.target !== field) search(); });
form.addEventListener("submit", (event) => { event.preventDefault(); search(); });

if (!field.value) field.focus();

// Down leads from the field into the results, and up from the first of them back.
const first = () => results.querySelector("[data-item] [data-open]");
field.addEventListener("keydown", (event) => {
  if (event.key !== "ArrowDown" || event.isComposing || !first()) return;
  event.preventDefault();
  first().focus();
});
results.addEventListener("keydown", (event) => {
  if (event.key !== "ArrowUp" || document.activeElement !== first()) return;
  event.preventDefault();
  event.stopPropagation();
  field.focus();
});
