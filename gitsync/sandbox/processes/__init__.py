"""Pods that run: containers whose image is listed become processes of this machine."""
