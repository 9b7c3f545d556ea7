"""Before reinforcement learning: experts play, and the policy is cloned from them."""
