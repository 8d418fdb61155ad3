"""The sandbox over HTTP: the wire, routing, negotiation, and one module per way of answering."""
