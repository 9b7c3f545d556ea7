"""What every environment shares; nothing here knows a particular one."""
