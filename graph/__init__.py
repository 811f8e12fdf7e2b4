"""How the agents are wired: state, nodes and routing."""
