"""Agent and MultiAgentSystem as strict models; the CustomResourceDefinitions are generated from them."""
