// Search as you type: one request for each pause, the one before is cancelled; Down leads into the results, Up back.
import { part } from "./part.js";

const PAUSE = 150;

// The address of a form's search: its fields that hold anything.
export function address(form) {
  const given = [...new FormData(form)].filter(([, value]) => String(value).trim());
  const query = new URLSearchParams(given).toString();
  return query ? `${form.action}?${query}` : form.action;
}

// `shown` is called with the address whose results are in place, or with null where the program did not answer.
export function asYouType(form, field, results, name, shown) {
  let timer = 0, running = null, current = address(form);

  async function search() {
    clearTimeout(timer);
    const wanted = address(form);
    running?.abort();
    if (wanted === current) return;
    const own = running = new AbortController();
    try {
      await part(results, wanted, { name, signal: own.signal });
      if (own.signal.aborted) return;
      current = wanted;
      shown(wanted);
    } catch (error) {
      if (!own.signal.aborted) shown(null);
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

  const first = () => results.querySelector("[data-item] [data-open], [data-open]");
  field.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" || event.isComposing || !first()?.checkVisibility()) return;
    event.preventDefault();
    event.stopPropagation();
    first().focus();
  });
  results.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowUp" || document.activeElement !== first()) return;
    event.preventDefault();
    event.stopPropagation();
    field.focus();
  });
  return search;
}
