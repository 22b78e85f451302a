"""Claude Code session transcripts: reader over records over blocks, wrappers and state."""
