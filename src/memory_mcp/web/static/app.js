// What every page does in the browser: keys, live updates, local times, forms that ask first. Pages work without it.
import { part } from "./part.js";
import { asYouType } from "./typing.js";
import "./acts.js";

const body = document.body;
const base = body.dataset.base;
const typing = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;

// Keys: `/` searches, `g` and a letter go to a page, arrows move through the items.
let going = 0;
function items() {
  return [...document.querySelectorAll("main [data-item]")].filter((item) => item.checkVisibility());
}
function move(step) {
  const all = items();
  if (!all.length) return;
  const now = all.indexOf(document.activeElement?.closest("[data-item]"));
  const next = all[now < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(now + step, 0), all.length - 1)];
  (next.querySelector("[data-open], summary, a, button") ?? next).focus();
  next.scrollIntoView({ block: "nearest" });
}
function fold(open) {
  const details = document.activeElement?.closest("details");
  if (!details) return false;
  if (details.open === open) return false;
  details.open = open;
  return true;
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (typing(event.target)) event.target.blur();
    return;
  }
  if (typing(event.target) || document.querySelector("dialog[open]")) return;
  if (going && Date.now() - going < 1500) {
    going = 0;
    const link = document.querySelector(`.top nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) { event.preventDefault(); link.click(); }
    return;
  }
  const acts = {
    "/": () => document.getElementById("find").focus(),
    "g": () => { going = Date.now(); },
    "?": () => document.getElementById("keys").showModal(),
    "u": () => [...document.querySelectorAll("[data-up]")].at(-1)?.click(),
    "j": () => move(1), "ArrowDown": () => move(1),
    "k": () => move(-1), "ArrowUp": () => move(-1),
  };
  const sideways = { "ArrowRight": true, "ArrowLeft": false };
  if (event.key in acts) { event.preventDefault(); acts[event.key](); }
  else if (event.key in sideways && fold(sideways[event.key])) event.preventDefault();
});

// The field in the head of every page shows the first results below it; Enter leads to the page of all.
const quick = document.getElementById("quick");
const finder = document.getElementById("quick-search");
if (quick) {
  const field = document.getElementById("find");
  const show = () => { quick.hidden = !field.value.trim() || !quick.childElementCount; };
  asYouType(finder, field, quick, "quick", (wanted) => { if (wanted) show(); else quick.hidden = true; });
  field.addEventListener("focus", show);
  finder.addEventListener("focusout", (event) => { if (!finder.contains(event.relatedTarget)) quick.hidden = true; });
  finder.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { field.focus(); quick.hidden = true; }
  });
}

// Live: a dot while the page hears from the program; parts that ask for it are fetched again after a change.
const dot = document.getElementById("live");
if (base && dot) {
  const source = new EventSource(`${base}/live`);
  let known = null;
  source.onopen = () => { dot.classList.add("on"); dot.textContent = "Live."; };
  source.onerror = () => { dot.classList.remove("on"); dot.textContent = "Not connected: memory-mcp open shows the memory again."; };
  source.onmessage = (event) => {
    const now = event.data;
    if (known !== null && known !== now) {
      for (const place of document.querySelectorAll("[data-live]")) part(place, place.dataset.live, { live: true });
      document.dispatchEvent(new CustomEvent("memory-changed"));
    }
    known = now;
  };
  addEventListener("pagehide", () => source.close());
}

// The reader's own clock, where it differs from the memory's zone.
for (const time of document.querySelectorAll("time[datetime]")) {
  const moment = new Date(time.dateTime);
  if (!Number.isNaN(moment.valueOf())) time.title = moment.toLocaleString();
}

// What unfolds is fetched when it is first opened.
document.addEventListener("toggle", (event) => {
  const details = event.target;
  if (!(details instanceof HTMLDetailsElement) || !details.open || !details.dataset.src) return;
  const place = details.querySelector("[data-place]");
  const from = details.dataset.src;
  delete details.dataset.src;
  part(place, from);
}, true);
