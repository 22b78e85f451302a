"""Has a language model write texts of nodes and labels of topics: settings, prompts, requests, and checks of its answers."""
