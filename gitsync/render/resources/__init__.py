"""The resource model of a build: resources, names, selectors, scopes, field paths."""
