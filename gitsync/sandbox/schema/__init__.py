"""Types of built-in kinds: decoding, Go type facts, scalars."""
