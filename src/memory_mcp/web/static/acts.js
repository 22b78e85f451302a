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

const pending = document.querySelector("[data-src-pending]");
const again = async () => {
  const stage = pending.querySelector("[data-stage]")?.dataset.stage;
  if (stage !== "waiting" && stage !== "running") return;
  const left = pending.querySelector("[data-countdown]");
  if (left && Number(left.textContent) > 1) left.textContent = String(Number(left.textContent) - 1);
  else await part(pending, pending.dataset.srcPending);
  setTimeout(again, 1000);
};
if (pending) setTimeout(again, 1000);
