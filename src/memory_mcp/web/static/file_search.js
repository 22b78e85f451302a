(() => {
  const MOST = 50, AROUND = 90, LEAST_PREFIX = 3;
  const byId = (id) => document.getElementById(id);
  const form = byId("search"), box = byId("words"), list = byId("results"), counts = byId("counts");
  const index = JSON.parse(byId("index").textContent);
  const names = Object.keys(index.terms);
  const stop = new Set(index.stop);
  const decoded = new Map();

  /** The stretches that hold a term: each number is the distance to the one before. */
  function places(term) {
    if (!decoded.has(term)) {
      let at = 0;
      decoded.set(term, new Set((Object.hasOwn(index.terms, term) ? index.terms[term] : []).map((step) => (at += step))));
    }
    return decoded.get(term);
  }

  function rarity(found) {
    return Math.log(1 + index.segments.length / (1 + found.size));
  }

  /** Scores of the stretches that hold a word: itself, all of its parts, or words that begin with it. */
  function holding({ run, terms }) {
    const scores = new Map();
    const add = (found, weight) => {
      for (const at of found) scores.set(at, Math.max(scores.get(at) || 0, weight));
    };
    const all = (several) => several.map(places).reduce((a, b) => new Set([...a].filter((at) => b.has(at))));
    const exact = run ? all(terms) : places(terms[0]);
    add(exact, rarity(exact));
    if (!run && terms.length > 1) {
      const parts = all(terms.slice(1));
      add(parts, rarity(parts));
    }
    const only = terms[0], length = Array.from(only).length;
    if ((run && terms.length === 1 && length === 1) || (!run && length >= LEAST_PREFIX)) {
      for (const name of names) {
        if (name !== only && (run ? name.includes(only) : name.startsWith(only))) {
          const near = places(name);
          add(near, (run ? 1 : 0.6) * rarity(near));
        }
      }
    }
    return scores;
  }

  function ranked(query) {
    let asked = groups(query);
    const telling = asked.filter(({ run, terms }) => run || terms.length > 1 || !stop.has(terms[0]));
    asked = telling.length ? telling : asked;
    const sums = new Map();
    for (const group of asked) {
      for (const [at, score] of holding(group)) {
        const [count, sum] = sums.get(at) || [0, 0];
        sums.set(at, [count + 1, sum + score]);
      }
    }
    const found = [...sums].map(([at, [count, sum]]) => ({ at, count, sum }));
    found.sort((a, b) => b.count - a.count || b.sum - a.sum || b.at - a.at);
    const whole = found.filter(({ count }) => count === asked.length);
    return { asked, found: whole.length ? whole : found, whole: whole.length > 0 };
  }

  /** The query's own words as they may stand in a text, the longest first. */
  function spelled(query) {
    return query.toLowerCase().split(/\s+/u).filter((word) => word.length > 1 || /[^\x00-\x7f]/.test(word))
      .filter((word) => !stop.has(word)).sort((a, b) => b.length - a.length);
  }

  function excerpt(section, query) {
    const body = section.querySelector(".body");
    const text = body.textContent.replace(/\s+/gu, " "), low = text.toLowerCase();
    const at = spelled(query).map((word) => low.indexOf(word)).find((place) => place >= 0);
    if (at === undefined) return Array.from(text.slice(0, 2 * AROUND)).join("");
    const start = Math.max(0, at - AROUND), end = at + AROUND;
    return (start ? "… " : "") + text.slice(start, end).trim() + (end < text.length ? " …" : "");
  }

  function unfold(element) {
    for (let e = element; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
  }

  /** Unfold what holds the words, and mark them where the browser can without changing the page. */
  function mark(section, query) {
    const ranges = [], words = spelled(query);
    const walker = document.createTreeWalker(section, NodeFilter.SHOW_TEXT);
    while (walker.nextNode() && ranges.length < 500) {
      const low = walker.currentNode.data.toLowerCase();
      for (const word of words) {
        for (let at = low.indexOf(word); at >= 0 && ranges.length < 500; at = low.indexOf(word, at + word.length)) {
          const range = new Range();
          if (at + word.length > walker.currentNode.length) break;
          range.setStart(walker.currentNode, at);
          range.setEnd(walker.currentNode, at + word.length);
          ranges.push(range);
          unfold(walker.currentNode.parentElement);
        }
      }
    }
    if (window.Highlight && CSS.highlights) CSS.highlights.set("found", new Highlight(...ranges));
  }

  function show(id, query) {
    const section = byId(id);
    if (!section) return;
    unfold(section);
    if (query) {
      // What holds the words may be folded: the conversation is unfolded with the stretch.
      for (const inner of section.querySelectorAll("details.conversation")) inner.open = true;
      mark(section, query);
    }
    section.scrollIntoView();
    const summary = section.querySelector("summary");
    if (summary) summary.focus({ preventScroll: true });
  }

  function result({ at }, query) {
    const id = index.segments[at], section = byId(id);
    const item = document.createElement("li"), link = document.createElement("a"), about = document.createElement("p");
    link.href = "#" + id;
    link.dir = "auto";
    link.textContent = section.querySelector("h6").textContent.trim();
    link.addEventListener("click", (event) => {
      event.preventDefault();
      history.replaceState(null, "", "#" + id);
      show(id, query);
    });
    about.dir = "auto";
    about.textContent = excerpt(section, query);
    item.append(link, about);
    return item;
  }

  function search() {
    const query = box.value.trim();
    list.replaceChildren();
    counts.textContent = "";
    if (!query) return;
    const { asked, found, whole } = ranked(query);
    const shown = found.slice(0, MOST);
    list.append(...shown.map((one) => result(one, query)));
    if (!found.length) counts.textContent = "Nothing here holds these words.";
    else if (!whole) counts.textContent = `No stretch holds all ${asked.length} words; ${found.length} hold some of them.`;
    else counts.textContent = found.length === 1 ? "1 stretch" : `${found.length} stretches`;
    if (found.length > MOST) counts.textContent += `, the first ${MOST} are shown`;
  }

  let waiting = 0;
  box.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    search();
    const first = list.querySelector("a");
    if (first) first.focus();
  });
  const follow = () => location.hash.length > 1 && show(location.hash.slice(1), "");
  window.addEventListener("hashchange", follow);
  byId("finding").hidden = false;
  follow();
})();
