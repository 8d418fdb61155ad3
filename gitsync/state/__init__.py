"""What the engine knows in memory, of all Applications: views, declarations, tracked objects, live objects, costs."""
