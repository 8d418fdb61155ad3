"""Say how well live objects do their work, from the objects alone. No input or output happens here."""
