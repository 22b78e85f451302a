"""Here is what a node holds, have a language model say it: the settings, the prompt, the asking, and what is believed."""
