"""What is said to language models: templates, knowledge cards, and how much of what goes into a prompt."""
