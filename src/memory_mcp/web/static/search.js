// The page of a search: its address is that of what is shown.
import { asYouType } from "./typing.js";

const form = document.getElementById("search");
const field = document.getElementById("find");
const results = document.getElementById("results");
const told = document.getElementById("told");

const search = asYouType(form, field, results, "results", (wanted) => {
  if (wanted === null) {
    told.textContent = "The program did not answer: memory-mcp open shows the memory again.";
    return;
  }
  history.replaceState(null, "", wanted);
  told.textContent = results.querySelector("[data-told]")?.dataset.told ?? "";
});
form.addEventListener("change", (event) => { if (event.target !== field) search(); });
form.addEventListener("submit", (event) => { event.preventDefault(); search(); });

if (!field.value) field.focus();
