"""From episodes to optimiser steps: tables, advantages, ratios, losses, diagnostics."""
