"""Poll Git: which repositories to query and when, what a new commit affects, and the fetch stage of a reconcile."""
