"""What the server fills in: defaults, and members that it sets on each write."""
