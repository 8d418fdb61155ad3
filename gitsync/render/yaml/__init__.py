"""YAML as Kustomize and Kubernetes read and write it: composing, scalars, source locations, output."""
