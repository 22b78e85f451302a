"""Lets drafts into the memory, once and clean: gate, pipeline, hooks, spool and the event log."""
