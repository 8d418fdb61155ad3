"""Numbers of a Prometheus server that the operator names: instant queries, and what their answers mean."""
