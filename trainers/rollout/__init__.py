"""From the policy to episodes: environments, prompts, samplers, groups."""
