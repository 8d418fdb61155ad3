"""The vocabulary: frozen values over plain dict manifests. No input or output happens here."""
