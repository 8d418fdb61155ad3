"""A second opinion on plans from a language model, by an OpenAI-compatible endpoint. It may warn, never permit."""
