"""Controller machinery that knows nothing of GitOps: queues, reflectors, workers, leadership. Threads live here."""
