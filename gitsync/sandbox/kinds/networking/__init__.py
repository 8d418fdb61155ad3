"""Kinds of the network: Services with their addresses and endpoints, Ingresses, NetworkPolicies."""
