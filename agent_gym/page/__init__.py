"""What the self-contained HTML pages share: skeleton, look, theme button, and ways to put data into a page safely.

A page is one file with its styles, its script and its data inside; it asks the network for nothing, and its content
security policy forbids it to. Each page has a folder of its own with a template that extends `base.html.j2`.
"""

from agent_gym.page.building import embedded, packed, page_environment, page_file

__all__ = ["embedded", "packed", "page_environment", "page_file"]
