"""Evaluation: agents, plans, results, statistics, leaderboards, suites, the viewer. What users run."""
