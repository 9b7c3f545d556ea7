"""Results of several agents side by side, one table for each list of tasks.

`entries` reads results, `board` puts those of one task list together and compares them task by task, `compact`
keeps a board in a small file, `show` and `page` present it.
"""
