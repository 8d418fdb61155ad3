"""What pages and API show: read from the state of the controller, and arranged as rows. No HTTP, no templates."""
