"""The status of an Application: building it, writing it, and auditing refusals."""
