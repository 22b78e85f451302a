"""The commands, one module each: `add` says which arguments it takes, and leaves the function that runs it."""
