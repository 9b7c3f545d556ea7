"""The shop as a web site, for people and for agents that drive a browser (extra `[webshop]`).

Pages, addresses and DOM handles are those of the original site (princeton-nlp/WebShop, `web_agent_site/app.py`);
everything a page needs is served from here, so it works offline.
"""
