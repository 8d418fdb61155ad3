"""Controller machinery that knows nothing of GitOps: queues, reflectors, workers, replicas. Threads live here."""
