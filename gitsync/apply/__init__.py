"""Execute a plan: stage by stage, wave by wave, in parallel inside one, with an audit record around every write."""
