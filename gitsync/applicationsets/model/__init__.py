"""The models of the custom resource, from which its definition and reference are generated."""
