"""One module per group of tools. Each tool is a method that makes a request of its arguments and returns its response."""
