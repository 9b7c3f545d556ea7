"""Shopping with a real browser: Chromium, driven by Selenium, on the shop's site (extra `[webshop]`)."""
