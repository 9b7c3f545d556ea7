"""Speed and memory of the environments, beside the original packages in the same run.

Each side is measured in a process of its own that prints one JSON object: `sokoban` measures this package,
`upstream_sokoban` the original with whatever interpreter has it. `suite` runs both, `report` compares.
"""
