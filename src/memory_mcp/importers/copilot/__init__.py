"""Copilot CLI sessions: reader over events and older histories."""
