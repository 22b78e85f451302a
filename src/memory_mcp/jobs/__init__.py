"""Do this while nobody waits: moves what was stored along to what is derived."""
