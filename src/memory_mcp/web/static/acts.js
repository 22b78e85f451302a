// Forms of acts: sent once, however often they are clicked; and the seconds in which forgetting can be undone.
import { part } from "./part.js";

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-act]");
  if (!form) return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "1";
});
// A page that comes back out of the browser's memory can be sent again.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// The seconds are those of the clock: a page that was slow or hidden shows what is really left.
const pending = document.querySelector("[data-src-pending]");
const ends = Date.now() + 1000 * Number(pending?.querySelector("[data-countdown]")?.dataset.countdown);
async function again() {
  const stage = pending.querySelector("[data-stage]")?.dataset.stage;
  if (!["looking", "waiting", "running"].includes(stage)) return;
  const left = pending.querySelector("[data-countdown]");
  const seconds = Math.ceil((ends - Date.now()) / 1000);
  if (left && seconds > 0) left.textContent = String(seconds);
  else await part(pending, pending.dataset.srcPending);
  setTimeout(again, 500);
}
if (pending) again();
