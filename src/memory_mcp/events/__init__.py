"""Append events to the log, and expand a grip into the events that it quotes."""
