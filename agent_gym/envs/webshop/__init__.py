"""WebShop: shopping on a simulated site, with the original's texts, pages and reward."""
