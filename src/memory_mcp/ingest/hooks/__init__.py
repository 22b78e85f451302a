"""Here is what a client told its hook, give me events."""
