"""Rules of kinds that the control plane, the kubelet and storage drivers write."""
