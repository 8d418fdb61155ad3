"""Kustomize: kustomization files, accumulation of resources, generators, transformers, references."""
