"""The admission webhook: the API server asks whether an object of our kinds is valid, over TLS."""
