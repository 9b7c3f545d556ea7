"""Search by words: tantivy's BM25, and Lucene's exact ranking without Java."""
