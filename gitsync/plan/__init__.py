"""Compare what Git declares with what lives, and say step by step what a sync would do. Pure: no input or output."""
