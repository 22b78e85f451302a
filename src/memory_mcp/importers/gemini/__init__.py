"""Gemini CLI sessions: reader over records over places."""
