const names = { year: "Years", month: "Months", week: "Weeks", day: "Days", segment: "Segments" };

/** A page of the tree through the host, of the same project as the first. */
async function page(shown, asked) {
  const { project, scope } = host.arguments;
  const same = Object.fromEntries(Object.entries({ project, scope }).filter(([, value]) => value));
  const found = (await tool("browse_toc", { ...same, ...asked })).structuredContent;
  if (asked.cursor) return found;
  draw(shown, found);
  shown.querySelector("h1").focus();
  return found;
}

function draw(shown, answer) {
  const { node, children } = answer;
  const title = el("h1", "", node.title || "Memory");
  title.tabIndex = -1;
  const events = `${node.events} message${node.events === 1 ? "" : "s"}`;
  const span = node.start ? `${moment(node.start)} to ${moment(node.end)}` : "";
  const parts = [ways(shown, node), title, el("p", "soft", [span, events, answer.scope].filter(Boolean).join(" · "))];
  for (const notice of answer.notices || []) parts.push(el("p", "soft", notice));
  if (node.summary) parts.push(el("p", "gist", node.summary));
  if (children.length) {
    const list = el("ul", "children");
    list.append(...rows(shown, children));
    parts.push(el("h2", "", names[children[0].level] || "In it"), list, further(shown, node, answer, list));
  }
  const bullets = node.bullets || [];
  if (bullets.length) parts.push(el("h2", "", "What was said"), ...bullets.map(statement));
  shown.replaceChildren(...parts.filter(Boolean));
}

/** Up, before and after. */
function ways(shown, node) {
  const upward = node.level === "root" ? null : button("Up", () => page(shown, { node_id: (node.parents || [])[0] || "" }));
  const before = node.previous && button("Before", () => page(shown, { node_id: node.previous }));
  const after = node.next && button("After", () => page(shown, { node_id: node.next }));
  const row = el("nav", "row", "", upward, before || null, after || null);
  row.setAttribute("aria-label", "Neighbours");
  return row.childElementCount ? row : null;
}

function statement(bullet) {
  const words = el("p", bullet.superseded_by ? "ended" : "", bullet.text);
  if (bullet.kind) words.prepend(el("span", "tag", bullet.kind));
  const over = bullet.superseded_by ? el("p", "warn", `Holds no more. ${bullet.why_superseded || ""}`.trim()) : null;
  const since = bullet.since ? el("p", "warn", `Since then: ${bullet.since}`) : null;
  const grip = (bullet.grip_ids || [])[0];
  return el("div", "statement", "", words, over, since, grip ? context(grip) : null);
}

function rows(shown, children) {
  const most = Math.max(1, ...children.map((child) => child.events || 0));
  return children.map((child) => {
    const count = child.events ? `${child.events} message${child.events === 1 ? "" : "s"}` : "";
    const parts = [el("span", "", child.title), el("span", "soft", count)];
    const bar = document.createElement("meter");
    bar.className = "bar";
    bar.max = most;
    bar.value = child.events || 0;
    bar.setAttribute("aria-hidden", "true");
    const summary = child.summary ? el("p", "soft", child.summary) : null;
    const opens = button("", () => page(shown, { node_id: child.node_id }), "child") || el("div", "child");
    opens.append(...parts, bar);
    return el("li", "", "", opens, summary);
  });
}

/** The next children, and those that are told in one line. */
function further(shown, node, answer, list) {
  const row = el("div", "row", answer.folded || "");
  const add = (label, cursor) => cursor && row.append(...[button(label, async (made) => {
    const found = await page(shown, { node_id: node.node_id, cursor });
    list.append(...rows(shown, found.children));
    made.remove();
    add(label, found.next_cursor);
  })].filter(Boolean));
  add("Show these too", answer.folded_cursor);
  add("More", answer.next_cursor);
  return row;
}

start("timeline", draw);
