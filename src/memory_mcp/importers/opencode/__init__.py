"""opencode's sessions: reader over stores over messages."""
