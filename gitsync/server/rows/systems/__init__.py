"""Systems of agents: who may talk to whom. Pure."""
