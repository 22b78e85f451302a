"""Here is what a node or a topic holds, have a language model say it: settings, prompt, asking, and what is believed."""
