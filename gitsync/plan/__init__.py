"""Plan a sync: compare desired with live objects and classify each step. Pure: no input or output."""
