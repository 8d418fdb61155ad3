"""Manifests that the tests of complete syncs commit."""

from __future__ import annotations


def config_map(name: str, **data: str) -> str:
    members = "".join(f'  {key}: "{value}"\n' for key, value in data.items())
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n{members}"


def deployment(name: str, image: str = "web:1", replicas: int = 2) -> str:
    return f"""apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
spec:
  replicas: {replicas}
  selector:
    matchLabels:
      app: {name}
  template:
    metadata:
      labels:
        app: {name}
    spec:
      containers:
        - name: web
          image: {image}
"""


def job(name: str, hook: str, image: str = "tool:1", policy: str = "") -> str:
    delete = f"\n    gitsync.dev/hook-delete-policy: {policy}" if policy else ""
    return f"""apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  annotations:
    gitsync.dev/hook: {hook}{delete}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: tool
          image: {image}
"""


WIDGETS = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                size: {type: integer}
"""


WIDGET = "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: w\nspec:\n  size: 3\n"
