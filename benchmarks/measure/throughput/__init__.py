"""Speed and memory of the environments and of the trainer, beside the original packages in the same run.

Each side is measured in a process of its own that prints one JSON object: `sokoban` measures this package,
`upstream.sokoban_script` the original with whatever interpreter has it. `report` runs both and compares, and
`overview` measures every environment in the same terms.
"""
