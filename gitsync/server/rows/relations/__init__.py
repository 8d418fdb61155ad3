"""What the objects of an application own and refer to: as a tree, as a graph, one by one."""
