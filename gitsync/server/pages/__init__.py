"""One router per dashboard page."""
