// Written by memory-mcp: hands over what is said and done in opencode, tells a new session where the last one left off, and at a
// call of a tool what the memory surely knows of it.
// Where the program is missing, or fails, nothing happens. opencode 1 calls `server`, opencode 2 calls `setup`.
import { spawn } from "node:child_process"

const COMMAND = ["memory-mcp", "hook", "opencode"]
const PATIENCE_MS = 10_000
// A call waits no longer than this for a hint; one that comes later is in sight from the next answer on.
const HINT_MS = 300
// A session that is older than this at its first prompt was begun before.
const FRESH_MS = 60_000

const contextOf = (output) => {
  try {
    return JSON.parse(output).hookSpecificOutput.additionalContext || ""
  } catch {
    return ""
  }
}

// A part without what a client shows beside it, which may be many times as long.
const trimPart = ({ id, type, text, synthetic, ignored, time, mime, filename, tool, callID, state }) => ({
  id, type, text, synthetic, ignored, time, mime, filename, tool, callID,
  state: state && { status: state.status, input: state.input, output: state.output, error: state.error, time: state.time },
})

const isWhole = (part) =>
  part.type === "tool" ? ["completed", "error"].includes(part.state.status) : part.type === "text" && Boolean(part.time?.end)

// What both versions share. `lookUp` gives the stored session of an id: its parentID, directory or location, and time.
const recorder = (lookUp, directory) => {
  const running = new Set()
  const sessions = new Map()
  const beginnings = new Map()
  const contexts = new Map()
  const hints = new Map()
  const open = new Set()
  const recorded = new Set()

  const infoOf = (id) => {
    if (!sessions.has(id)) sessions.set(id, Promise.resolve().then(() => lookUp(id)).then((info) => info || {}, () => ({})))
    return sessions.get(id)
  }

  // A subagent's session is a thread of the one that a person began.
  const threadOf = async (id) => {
    let root = id
    for (let info = await infoOf(root); info.parentID; info = await infoOf(root)) root = info.parentID
    return root === id ? { session_id: id } : { session_id: root, agent_id: id }
  }

  const send = async (hook_event_name, thread, fields) => {
    const info = await infoOf(thread.session_id)
    const cwd = info.location?.directory || directory || info.directory
    const payload = JSON.stringify({ hook_event_name, cwd, ...thread, ...fields })
    return new Promise((resolve) => {
      const child = spawn(COMMAND[0], COMMAND.slice(1), {
        stdio: ["pipe", "pipe", "ignore"], windowsHide: true, timeout: PATIENCE_MS,
      })
      let output = ""
      child.on("error", () => resolve(""))
      child.on("close", () => resolve(contextOf(output)))
      child.stdout.on("data", (data) => { output += data })
      child.stdin.on("error", () => {})
      child.stdin.end(payload)
    })
  }

  const record = (...event) => {
    const done = send(...event).catch(() => "")
    running.add(done)
    return done.finally(() => running.delete(done))
  }

  const begin = (id, source, time) => {
    if (!beginnings.has(id)) beginnings.set(id, record("SessionStart", { session_id: id }, { source, time }))
  }

  // Hints stay in sight until the session ends: each is a line, and given once.
  const keepHint = (id, text) => {
    if (text) hints.set(id, [...(hints.get(id) || []), text])
  }

  return {
    infoOf,
    call: async (id, tool_name, tool_use_id, tool_input) => {
      const ask = async () => keepHint(id, await record("PreToolUse", await threadOf(id), { tool_name, tool_use_id, tool_input }))
      let timer
      const patience = new Promise((resolve) => { timer = setTimeout(resolve, HINT_MS) })
      await Promise.race([ask().catch(() => {}), patience]).finally(() => clearTimeout(timer))
    },
    begin,
    remember: (info) => sessions.set(info.id, Promise.resolve(info)),
    isOpen: (id) => open.has(id),
    watch: (id) => open.add(id),
    prompt: async (id, message_id, time, parts) => {
      const thread = await threadOf(id)
      const isPerson = thread.agent_id === undefined
      open.add(id)
      const typed = parts.filter((part) => part.type === "text" && !part.synthetic && !part.ignored)
      const prompt = typed.map((part) => part.text).join("\n")
      const fields = { role: "user", prompt, message_id, time, parts: parts.map(trimPart) }
      const text = await record(isPerson ? "UserPromptSubmit" : "Parts", thread, fields)
      if (isPerson) contexts.set(id, text)
    },
    part: async (id, part) => {
      if (!isWhole(part) || recorded.has(part.id)) return
      recorded.add(part.id)
      keepHint(id, await record("Parts", await threadOf(id), { parts: [trimPart(part)] }))
    },
    context: async (id) => [await beginnings.get(id), contexts.get(id), ...(hints.get(id) || [])].filter(Boolean),
    end: async () => {
      await Promise.allSettled(running)
      const threads = await Promise.all([...open].map(threadOf))
      const persons = threads.filter((thread) => thread.agent_id === undefined)
      await Promise.allSettled(persons.map((thread) => record("SessionEnd", thread, { reason: "exit" })))
    },
  }
}

const server = async ({ client, directory }) => {
  const memory = recorder(async (id) => (await client.session.get({ path: { id } })).data, directory)
  return {
    event: async ({ event: { type, properties } }) => {
      if (type === "session.created") {
        const { id, parentID, time } = properties.info
        memory.remember(properties.info)
        if (!parentID) memory.begin(id, "startup", time.created)
      } else if (type === "message.part.updated") {
        await memory.part(properties.part.sessionID, properties.part)
      }
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      await memory.prompt(sessionID, message.id, message.time.created, parts)
    },
    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
      await memory.call(sessionID, tool, callID, args)
    },
    "experimental.chat.system.transform": async ({ sessionID }, { system }) => {
      system.push(...(await memory.context(sessionID)))
    },
    dispose: memory.end,
  }
}

const textOf = (content) =>
  typeof content === "string" ? content : (content || []).map((item) => item.text).filter(Boolean).join("\n")

const outputOf = (result = {}) =>
  textOf(result.content) || (typeof result.output === "string" ? result.output : JSON.stringify(result.output) || "")

const fileOf = ({ mime, name }) => ({ type: "file", mime, filename: name })

const setup = async (ctx) => {
  const lookUp = async (sessionID) => {
    const answer = await ctx.session.get({ sessionID })
    return answer?.data || answer
  }
  const memory = recorder(lookUp, ctx.location?.directory)
  const registrations = []
  // A hook that this version of opencode does not have leaves the others as they are; none stops what it watches.
  const hook = async (domain, name, callback) => {
    const quiet = (event) => callback(event).catch(() => {})
    registrations.push(await Promise.resolve().then(() => domain.hook(name, quiet)).catch(() => undefined))
  }

  await hook(ctx.session, "prompt", async ({ sessionID, messageID, prompt }) => {
    const now = Date.now()
    const { parentID, time } = await memory.infoOf(sessionID)
    const created = Number(time?.created) || now
    if (!parentID) memory.begin(sessionID, now - created < FRESH_MS ? "startup" : "resume", now - created < FRESH_MS ? created : now)
    const files = (prompt.files || []).map(fileOf)
    await memory.prompt(sessionID, messageID, now, [{ type: "text", text: prompt.text }, ...files])
  })
  await hook(ctx.session, "context", async ({ sessionID, system }) => {
    memory.watch(sessionID)
    system.push(...(await memory.context(sessionID)).map((text) => ({ type: "text", text })))
  })
  await hook(ctx.tool, "execute.before", async ({ tool, sessionID, id, input }) => {
    await memory.call(sessionID, tool, id, input)
  })
  await hook(ctx.tool, "execute.after", async ({ tool, sessionID, id, input, status, result, error }) => {
    const state = { status, input, time: { end: Date.now() } }
    if (status === "error") state.error = error?.message || String(error)
    else state.output = outputOf(result)
    await memory.part(sessionID, { id, type: "tool", tool, callID: id, state })
  })

  // An answer's texts are events, of all projects; their ids are their places among all that the answer holds.
  const places = new Map()
  const listen = async ({ type, created, data }) => {
    if (!memory.isOpen(data?.sessionID)) return
    const [, kind] = /^session\.(text|reasoning|tool\.input)\.(?:started|ended)$/.exec(type) || []
    if (!kind) return
    const answer = data.assistantMessageID
    const place = `${kind} ${data.ordinal ?? data.callID ?? data.id}`
    if (!places.has(answer)) places.set(answer, [])
    if (!places.get(answer).includes(place)) places.get(answer).push(place)
    if (type !== "session.text.ended") return
    const time = { end: Number(created) || Date.now() }
    // Not waited for: the stream goes on meanwhile.
    memory.part(data.sessionID, { id: `${answer}#${places.get(answer).indexOf(place)}`, type: "text", text: data.text, time }).catch(() => {})
  }
  const events = ctx.event?.subscribe()[Symbol.asyncIterator]()
  const listenOn = async () => {
    for (let next = await events.next(); !next.done; next = await events.next()) await listen(next.value).catch(() => {})
  }
  if (events) listenOn().catch(() => {})

  return async () => {
    await Promise.race([events?.return?.(), new Promise((resolve) => setTimeout(resolve, 1000))])
    await Promise.allSettled(registrations.map((registration) => registration?.dispose?.()))
    await memory.end()
  }
}

export default { id: "memory-mcp", server, setup }
