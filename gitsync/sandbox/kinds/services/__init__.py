"""Kinds that name addresses of pods: Service, Endpoints, EndpointSlice."""
