// Parts of pages: fetched from this server and put in their place. The server escaped every text in them.
export async function part(place, address, { live = false, signal } = {}) {
  const headers = { "x-part": "1" };
  if (live) headers["x-live"] = "1";
  place.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(address, { headers, signal });
    const text = await answer.text();
    if (!signal?.aborted) place.innerHTML = text;
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
