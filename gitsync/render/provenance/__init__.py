"""Where each field of a rendered object was set: recording, tracing, and locating lines."""
