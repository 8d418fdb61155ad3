"""Post-sync analysis: health and metric limits of a newly applied commit."""
