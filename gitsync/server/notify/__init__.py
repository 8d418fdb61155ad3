"""Notifications about Applications: to people through Apprise, and as Kubernetes Events."""
