"""What is read from and sent to containers: their logs and their ports."""
