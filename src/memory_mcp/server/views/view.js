"use strict";
// The view's half of the conversation with its host (JSON-RPC by postMessage), and what both views draw.
// Whatever comes is shown as text: nothing here turns a string into markup.
const PROTOCOL = "2026-01-26";
const host = { capabilities: {}, arguments: {} };
const waiting = new Map();
let calls = 0;

function send(message) {
  window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
}

function ask(method, params) {
  const id = ++calls;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    send({ id, method, params });
  });
}

/** A tool of the server through the host; an answer that is an error is thrown with its text. */
async function tool(name, args) {
  const found = await ask("tools/call", { name, arguments: args });
  if (found.isError) throw new Error(texts(found) || `${name} failed`);
  return found;
}

const mayCall = () => Boolean(host.capabilities.serverTools);
const texts = (result) => (result.content || []).filter((part) => part.type === "text").map((part) => part.text).join("\n");

function dress(context) {
  if (context.theme === "light" || context.theme === "dark") document.documentElement.dataset.theme = context.theme;
  for (const [name, value] of Object.entries(context.styles?.variables || {})) {
    if (name.startsWith("--") && typeof value === "string") document.documentElement.style.setProperty(name, value);
  }
}

function start(view, draw) {
  const shown = byId("view");
  const settle = (paint) => {
    try {
      paint();
    } catch (error) {
      shown.replaceChildren(el("p", "warn", `This answer cannot be shown: ${error.message}`));
    }
  };
  const told = {
    "ui/notifications/tool-input": (params) => { host.arguments = params.arguments || {}; },
    "ui/notifications/tool-cancelled": () => shown.replaceChildren(el("p", "soft", "The call was cancelled.")),
    "ui/notifications/host-context-changed": dress,
    "ui/notifications/tool-result": (result) => settle(() => {
      if (result.isError || !result.structuredContent) shown.replaceChildren(el("p", result.isError ? "warn" : "quote", texts(result)));
      else draw(shown, result.structuredContent);
    }),
  };
  const asked = { ping: () => ({}), "ui/resource-teardown": () => ({}) };
  window.addEventListener("message", ({ source, data }) => {
    if (source !== window.parent || !data || data.jsonrpc !== "2.0") return;
    if (data.method === undefined) {
      const one = waiting.get(data.id);
      waiting.delete(data.id);
      if (!one) return;
      if (data.error) one.reject(new Error(data.error.message || "the host refused"));
      else one.resolve(data.result || {});
    } else if (data.id === undefined) {
      if (Object.hasOwn(told, data.method)) told[data.method](data.params || {});
    } else if (Object.hasOwn(asked, data.method)) send({ id: data.id, result: asked[data.method]() });
    else send({ id: data.id, error: { code: -32601, message: "Method not found" } });
  });
  ask("ui/initialize", {
    protocolVersion: PROTOCOL,
    appInfo: { name: `memory-mcp ${view}`, version: "1" },
    appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
  }).then((found) => {
    host.capabilities = found.hostCapabilities || {};
    dress(found.hostContext || {});
    send({ method: "ui/notifications/initialized", params: {} });
    const tellSize = () => {
      const { width, height } = document.documentElement.getBoundingClientRect();
      send({ method: "ui/notifications/size-changed", params: { width: Math.ceil(width), height: Math.ceil(height) } });
    };
    new ResizeObserver(tellSize).observe(document.documentElement);
  }).catch((error) => shown.replaceChildren(el("p", "warn", error.message)));
}

const byId = (id) => document.getElementById(id);
// What steers a terminal or turns the direction of writing is shown as a sign.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

function el(tag, name, text, ...inside) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined && text !== "") {
    made.dir = "auto";
    made.textContent = String(text).replace(/\r\n?/g, "\n").replace(UNSEEN, "\ufffd");
  }
  made.append(...inside.filter(Boolean));
  return made;
}

/** A button that does something with the host's help; where the host gives none there is no button. */
function button(label, act, name) {
  if (!mayCall()) return null;
  const made = el("button", name, label);
  made.type = "button";
  made.addEventListener("click", async () => {
    made.disabled = true;
    made.parentElement.querySelectorAll(":scope > .failed").forEach((old) => old.remove());
    try {
      await act(made);
    } catch (error) {
      const told = el("p", "warn failed", error.message);
      told.setAttribute("role", "alert");
      made.after(told);
    }
    made.disabled = false;
  });
  return made;
}

const moment = (iso) => String(iso || "").slice(0, 16).replace("T", " ");

/** A button that opens what was said around a quotation, below itself. */
function context(grip) {
  return button("In context", async (made) => {
    const found = await tool("expand_grip", { grip_id: grip });
    const panel = el("div", "context");
    evidence(panel, found.structuredContent);
    made.parentElement.querySelectorAll(":scope > .context").forEach((old) => old.remove());
    made.parentElement.append(panel);
  });
}

/** A quotation in its conversation, as expand_grip gives it. */
function evidence(shown, answer) {
  const { grip } = answer;
  const told = [moment(grip.when), answer.verified ? "stored word for word" : grip.quote.includes("[forgotten]") ? "cut" : "differs from what is stored", grip.project];
  const parts = [el("p", answer.verified ? "soft" : "warn", told.filter(Boolean).join(" · "))];
  if (answer.superseded_by) parts.push(el("p", "warn", `Holds no more. ${answer.why_superseded || ""}`.trim()));
  if (answer.since) parts.push(el("p", "warn", `Since then: ${answer.since}`));
  if (answer.flag) parts.push(el("p", "warn", `${answer.flag[0].toUpperCase()}${answer.flag.slice(1)}.`));
  parts.push(el("blockquote", "quote", grip.quote));
  const said = (event, name) =>
    el("div", `said ${name}`, "", el("p", "who", [event.speaker || event.role, moment(event.when), event.type].filter(Boolean).join(" · ")),
      el("p", "", event.text || "…"));
  for (const event of answer.events_before || []) parts.push(said(event, ""));
  for (const event of answer.excerpt_events || []) parts.push(said(event, "cited"));
  for (const event of answer.events_after || []) parts.push(said(event, ""));
  if (answer.more) {
    parts.push(button("Show everything", async () => {
      const whole = await tool("expand_grip", { grip_id: grip.grip_id, ...answer.more });
      evidence(shown, whole.structuredContent);
    }));
  }
  shown.replaceChildren(...parts.filter(Boolean));
}
