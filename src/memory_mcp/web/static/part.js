// Parts of pages: fetched from this server and put in their place. The server escaped every text in them.
// What a person unfolded and where the keyboard is outlive a change: found again by data-keep, and by address.
function kept(place) {
  const open = new Map([...place.querySelectorAll("details[data-keep]")].map((one) => [one.dataset.keep, one.open]));
  const at = place.contains(document.activeElement) ? document.activeElement : null;
  const address = at?.getAttribute("href"), fold = at?.closest("details[data-keep]")?.dataset.keep;
  return () => {
    for (const one of place.querySelectorAll("details[data-keep]")) one.open = open.get(one.dataset.keep) ?? one.open;
    if (!at) return;
    const found = [...place.querySelectorAll("a[href], summary")].find((one) =>
      address ? one.getAttribute("href") === address : one.closest("details[data-keep]")?.dataset.keep === fold);
    found?.focus({ preventScroll: true });
  };
}

export async function part(place, address, { live = false, signal, name = "1" } = {}) {
  const headers = { "x-part": name };
  if (live) headers["x-live"] = "1";
  place.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(address, { headers, signal });
    const text = await answer.text();
    if (!signal?.aborted) {
      const restore = kept(place);
      place.innerHTML = text;
      restore();
    }
    return answer.ok;
  } finally {
    place.removeAttribute("aria-busy");
  }
}

// A write by a script: the fields of a form, with the visit's token.
export async function act(name, fields) {
  const { base, token } = document.body.dataset;
  const answer = await fetch(`${base}/do/${name}`, {
    method: "POST",
    headers: { "x-part": "1", "x-token": token, "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams(fields),
  });
  return { ok: answer.ok, ...(await answer.json()) };
}
