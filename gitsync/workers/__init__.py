"""Rendering in processes of its own: what comes from Git can exhaust or crash one of them, never the controller."""
