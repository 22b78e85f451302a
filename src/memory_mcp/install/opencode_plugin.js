// Written by memory-mcp: hands over what is said and done in opencode, and tells a new session where the last one left off.
// Where the program is missing, or fails, nothing happens.
import { spawn } from "node:child_process"

const COMMAND = ["memory-mcp", "hook", "opencode"]
const PATIENCE_MS = 10_000

const contextOf = (said) => {
  try {
    return JSON.parse(said).hookSpecificOutput.additionalContext || ""
  } catch {
    return ""
  }
}

// A part as it is kept: what a client shows beside it may be many times as long.
const kept = ({ id, type, text, synthetic, ignored, time, mime, filename, tool, callID, state }) => ({
  id, type, text, synthetic, ignored, time, mime, filename, tool, callID,
  state: state && { status: state.status, input: state.input, output: state.output, error: state.error, time: state.time },
})

const isWhole = (part) =>
  part.type === "tool" ? ["completed", "error"].includes(part.state.status) : part.type === "text" && Boolean(part.time?.end)

export const MemoryMcp = async ({ client, directory }) => {
  const running = new Set()
  const begun = new Map()
  const recalled = new Map()
  const open = new Set()
  const told = new Set()
  // The session in which a subagent's was begun; "" for one that a person began.
  const parents = new Map()

  const parentOf = async (id) => {
    if (!parents.has(id)) {
      const found = await client.session.get({ path: { id } }).catch(() => undefined)
      parents.set(id, found?.data?.parentID || "")
    }
    return parents.get(id)
  }

  const whose = async (id) => {
    let root = id
    for (let parent = await parentOf(root); parent; parent = await parentOf(root)) root = parent
    return root === id ? { session_id: id } : { session_id: root, agent_id: id }
  }

  const tell = (hook_event_name, session, more) => {
    const payload = JSON.stringify({ hook_event_name, cwd: directory, ...session, ...more })
    const done = new Promise((resolve) => {
      const child = spawn(COMMAND[0], COMMAND.slice(1), {
        stdio: ["pipe", "pipe", "ignore"], windowsHide: true, timeout: PATIENCE_MS,
      })
      let said = ""
      child.on("error", () => resolve(""))
      child.on("close", () => resolve(contextOf(said)))
      child.stdout.on("data", (data) => { said += data })
      child.stdin.on("error", () => {})
      child.stdin.end(payload)
    }).catch(() => "")
    running.add(done)
    return done.finally(() => running.delete(done))
  }

  return {
    event: async ({ event: { type, properties } }) => {
      if (type === "session.created") {
        const { id, parentID, time } = properties.info
        parents.set(id, parentID || "")
        if (!parentID) begun.set(id, tell("SessionStart", { session_id: id }, { source: "startup", time: time.created }))
      } else if (type === "message.part.updated" && isWhole(properties.part) && !told.has(properties.part.id)) {
        told.add(properties.part.id)
        await tell("Parts", await whose(properties.part.sessionID), { parts: [kept(properties.part)] })
      }
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const session = await whose(sessionID)
      const own = session.agent_id === undefined
      if (own) open.add(sessionID)
      const typed = parts.filter((part) => part.type === "text" && !part.synthetic && !part.ignored)
      const prompt = typed.map((part) => part.text).join("\n")
      const more = { role: "user", prompt, message_id: message.id, time: message.time.created, parts: parts.map(kept) }
      const text = await tell(own ? "UserPromptSubmit" : "Parts", session, more)
      if (own) recalled.set(sessionID, text)
    },
    "experimental.chat.system.transform": async ({ sessionID }, { system }) => {
      for (const text of [await begun.get(sessionID), recalled.get(sessionID)]) if (text) system.push(text)
    },
    dispose: async () => {
      await Promise.allSettled(running)
      await Promise.allSettled([...open].map((id) => tell("SessionEnd", { session_id: id }, { reason: "exit" })))
    },
  }
}
