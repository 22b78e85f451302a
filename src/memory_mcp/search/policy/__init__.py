"""Here is a question, give me an answer and why."""
