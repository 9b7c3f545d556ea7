"""Where catalogues come from: official files, stores on disk, and the generator."""
