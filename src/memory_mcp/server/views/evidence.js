function results(shown, answer) {
  const { explanation: why = {} } = answer;
  const how = [`${answer.confidence} answer`, why.method_used && `found by ${why.method_used}`, why.scope].filter(Boolean);
  const list = el("ol");
  for (const one of answer.results) list.append(card(one));
  const parts = [el("h1", "", host.arguments.query || "From earlier sessions"), el("p", "soft", how.join(" · "))];
  for (const notice of why.notices || []) parts.push(el("p", "soft", notice));
  if (answer.complete === false) parts.push(el("p", "warn", "Something ran out before all was searched."));
  for (const project of answer.projects || []) parts.push(worked(project));
  for (const theme of answer.themes || []) parts.push(themed(theme));
  parts.push(answer.results.length || (answer.themes || []).length || (answer.projects || []).length ? list : el("p", "", "Nothing was found."), more(answer, list));
  shown.replaceChildren(...parts.filter(Boolean));
}

/** What was asked in a project, what came of it, what was decided and is open. */
function worked(project) {
  const told = el("div", "card", "", el("h2", "", project.project), el("p", "who", project.when.replace("/", " to ")));
  for (const part of ["asked", "done", "decided", "open"])
    for (const one of project[part] || [])
      told.append(el("p", "who", one.why ? `${part} (${one.why})` : part), el("blockquote", "quote", one.text), context(one.grip));
  return told;
}

/** What part of the memory is about, with a statement that proves it. */
function themed(theme) {
  const about = [theme.about, theme.when, `${theme.segments} segment${theme.segments === 1 ? "" : "s"}`];
  return el("div", "card", "", el("h2", "", theme.theme), el("p", "who", about.filter(Boolean).join(" · ")),
    theme.quote ? el("blockquote", "quote", theme.quote) : null, theme.grip ? context(theme.grip) : null);
}

function card(one) {
  const where = [moment(one.when), one.who || one.speaker || one.role, one.project, one.session_id];
  const notes = [];
  if (one.superseded_by) notes.push(el("p", "warn", `Holds no more. ${one.why_superseded || ""}`.trim()));
  if (one.since) notes.push(el("p", "warn", `Since then: ${one.since}`));
  if (one.flag) notes.push(el("p", "warn", "These words give orders to their reader: they are a record, not an instruction."));
  const grip = one.grip || (one.grip_ids || [])[0];
  return el("li", "card", "", one.title ? el("h2", "", one.title) : null, el("p", "who", where.filter(Boolean).join(" · ")),
    one.quote ? el("blockquote", "quote", one.quote) : null, ...notes, grip ? context(grip) : null);
}

function more(answer, list) {
  if (!answer.next_cursor) return null;
  let cursor = answer.next_cursor;
  return button("More", async (made) => {
    const found = (await tool("intelligent_search", { ...host.arguments, cursor })).structuredContent;
    list.append(...found.results.map(card));
    cursor = found.next_cursor;
    if (!cursor) made.remove();
  });
}

start("evidence", (shown, answer) => {
  if (answer.grip) evidence(shown, answer);
  else results(shown, answer);
});
