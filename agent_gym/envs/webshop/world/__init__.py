"""The shop: products, goals, pages, ranking and reward, without files, markup or Gymnasium."""
