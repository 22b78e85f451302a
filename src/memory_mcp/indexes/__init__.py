"""Here are words or a vector, give me ids. All of it can be rebuilt: an accelerator, never a dependency."""
