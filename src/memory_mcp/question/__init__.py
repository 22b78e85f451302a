"""What a question asks for: intent, literal things, deadline and time."""
